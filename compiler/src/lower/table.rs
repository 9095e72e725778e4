//! Constant tables of strings, indexed by number.
//!
//! In: a number at run time, the strings. Out: the address of the string in read-only data.
//! Guarantee: a number without a string yields the string for unknown ones.

use crate::ir::{Addr, BinOp, Section, VReg, Width};
use crate::lower::{Body, Value};
use crate::syscalls;

/// The string with this number, in slots of `capacity_bytes`: a power of two larger than every
/// string.
pub fn text_by_number(
    cx: &mut Body<'_, '_>,
    number: VReg,
    texts: &[&str],
    unknown: &str,
    capacity_bytes: u32,
) -> Value {
    let mut table = vec![0u8; (texts.len() + 1) * capacity_bytes as usize];
    let rooms = table.chunks_exact_mut(capacity_bytes as usize);
    for (room, text) in rooms.zip(texts.iter().chain([&unknown])) {
        let text = if text.is_empty() { unknown } else { text };
        room[..text.len()].copy_from_slice(text.as_bytes());
    }
    let offset = cx.shared.rodata(&table);
    let index = cx.b.clamp(number, texts.len() as u32);
    let distance = cx.b.bin(BinOp::Mul, Width::W64, index, i64::from(capacity_bytes));
    let base = cx.b.data_addr(Section::Rodata, offset);
    Value::Memory(Addr::reg(cx.b.bin(BinOp::Add, Width::W64, base, distance), 0))
}

/// The names of the architecture's system calls, by number; empty where there is none.
pub fn syscall_names(cx: &Body<'_, '_>) -> Vec<&'static str> {
    syscalls::names(cx.shared.target.arch())
}
