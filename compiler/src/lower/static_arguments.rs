//! The arguments of static probes (USDT).
//!
//! In: the arguments at each of the program's sites, and the cookie of the site that was hit. Out:
//! the value of one argument.
//! Guarantee: the cookie is read only if sites differ, and the number of comparisons is logarithmic
//! in the number of sites.

use std::ops::Range;

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, Size, VReg, Width};
use crate::lower::{Body, memory};
use crate::types::Space;
use crate::usdt::{Address, Argument, ArgumentLocation, Register};

/// The cookie's lower half is the number of the probe's name, its upper half that of the arguments.
const ARGUMENTS_SHIFT: i64 = 32;

/// An argument, sign- or zero-extended to 64 bits by its type.
pub fn value(cx: &mut Body<'_, '_>, index: usize) -> VReg {
    let probe = cx.probe;
    let found: Vec<&Argument> =
        probe.context.static_arguments.iter().filter_map(|arguments| arguments.get(index)).collect();
    let result = cx.b.new_vreg();
    let done = cx.b.new_block();
    if are_same(&found) {
        choose(cx, &found, 0..found.len(), None, result);
    } else {
        let cookie = cx.b.call(Helper::GetAttachCookie, &[Arg::Context]);
        let which = cx.b.bin(BinOp::Shr, Width::W64, cookie, ARGUMENTS_SHIFT);
        choose(cx, &found, 0..found.len(), Some(which), result);
    }
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}

/// Selects among a range of the arguments by binary search.
fn choose(cx: &mut Body<'_, '_>, found: &[&Argument], range: Range<usize>, which: Option<VReg>, result: VReg) {
    let candidates = &found[range.clone()];
    let Some(which) = which.filter(|_| !are_same(candidates)) else {
        let value = match candidates.first() {
            Some(argument) => one_argument(cx, argument),
            None => cx.b.copy(0),
        };
        return cx.b.assign(result, value);
    };
    let middle = range.start + range.len() / 2;
    let (low, high, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Lt, Width::W64, which, middle as i64, low, high, Likely::Unknown);
    for (block, half) in [(low, range.start..middle), (high, middle..range.end)] {
        cx.b.switch_to(block);
        choose(cx, found, half, Some(which), result);
        cx.b.jump(done);
    }
    cx.b.switch_to(done);
}

fn one_argument(cx: &mut Body<'_, '_>, argument: &Argument) -> VReg {
    let (value, size_bytes) = match &argument.place {
        ArgumentLocation::Constant(number) => (cx.b.copy(*number), argument.size_bytes),
        ArgumentLocation::Register(register) => {
            (register_part(cx, *register), argument.size_bytes.min(register.size_bytes))
        }
        ArgumentLocation::Memory(address) => {
            let from = argument_address(cx, address);
            let to = cx.memory(8, "argument");
            memory::probe_read(cx, to, from, argument.size_bytes.into(), Space::User);
            (cx.b.load(to, size(argument.size_bytes)), argument.size_bytes)
        }
        // The checker rejects such arguments.
        ArgumentLocation::Float | ArgumentLocation::Unknown => (cx.b.copy(0), 8),
    };
    match size_bytes {
        8 => value,
        bytes => cx.b.extend(value, size(bytes), argument.signed),
    }
}

fn argument_address(cx: &mut Body<'_, '_>, address: &Address) -> VReg {
    let mut sum = cx.b.copy(address.displacement);
    if let Some(base) = address.base {
        let base = whole_register(cx, base);
        sum = cx.b.bin(BinOp::Add, Width::W64, base, sum);
    }
    if let Some((index, scale)) = address.index {
        let index = whole_register(cx, index);
        let distance = cx.b.bin(BinOp::Shl, Width::W64, index, i64::from(scale.trailing_zeros()));
        sum = cx.b.bin(BinOp::Add, Width::W64, sum, distance);
    }
    sum
}

/// A register used in an address: only its low 32 bits in a 32-bit program.
fn whole_register(cx: &mut Body<'_, '_>, register: Register) -> VReg {
    let value = register_part(cx, register);
    if register.size_bytes == 8 { value } else { cx.b.extend(value, size(register.size_bytes), false) }
}

fn register_part(cx: &mut Body<'_, '_>, register: Register) -> VReg {
    let context = cx.b.context();
    let whole = cx.b.load(Addr::reg(context, register.offset_bytes as i32), Size::B8);
    match register.first_bit {
        0 => whole,
        bits => cx.b.bin(BinOp::Shr, Width::W64, whole, i64::from(bits)),
    }
}

fn are_same(arguments: &[&Argument]) -> bool {
    let what = |argument: &Argument| (argument.size_bytes, argument.signed, argument.place.clone());
    arguments.windows(2).all(|pair| what(pair[0]) == what(pair[1]))
}

fn size(bytes: u8) -> Size {
    match bytes {
        1 => Size::B1,
        2 => Size::B2,
        4 => Size::B4,
        _ => Size::B8,
    }
}
