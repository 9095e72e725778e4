//! Text that a program writes itself: to the file that its iterator is pinned to.
//!
//! In: a format as the kernel reads it, and its values. Out: a call of `bpf_seq_printf`.
//! Guarantee: each value is one word; a string is the address of its bytes in memory of the
//! program.

use crate::ir::{Addr, Arg, Helper, Size};
use crate::lower::Body;
use crate::object::Attach;
use crate::typed::Expr;

/// `struct bpf_iter_meta` is the first word of an iterator's context, and begins with the `struct
/// seq_file`.
const META: i32 = 0;
const SEQUENCE: i32 = 0;

/// Whether the program's text is read from a file.
pub fn is_written(cx: &Body<'_, '_>) -> bool {
    matches!(cx.probe.attach, Attach::Iterator { pin: Some(_), .. })
}

/// Prints values by a format that ends in a NUL.
pub fn print(cx: &mut Body<'_, '_>, format: &[u8], values: &[Expr]) {
    let words = cx.memory((values.len() as u32 * 8).max(8), "values");
    for (at, value) in values.iter().enumerate() {
        let place = words.plus(at as i32 * 8);
        if value.ty.is_scalar() {
            let number = cx.scalar(value);
            cx.b.store(place, number, Size::B8);
        } else {
            let lowered = cx.expr(value);
            let bytes = cx.in_memory(lowered, &value.ty);
            let address = cx.address(bytes);
            cx.b.store(place, address, Size::B8);
        }
    }
    let format_at = cx.constant_bytes(format);
    let (format_at, words) = (cx.address_arg(format_at), cx.address_arg(words));
    let context = cx.b.context();
    let meta = cx.b.load(Addr::reg(context, META), Size::B8);
    let sequence = cx.b.load(Addr::reg(meta, SEQUENCE), Size::B8);
    let (format_bytes, value_bytes) = (format.len() as i64, values.len() as i64 * 8);
    let format_bytes = Arg::Value(format_bytes.into());
    // Since 5.8: without values, their address is null.
    let words = if values.is_empty() { Arg::Value(0.into()) } else { words };
    cx.b.call_void(
        Helper::SeqPrintf,
        &[sequence.into(), format_at, format_bytes, words, Arg::Value(value_bytes.into())],
    );
}
