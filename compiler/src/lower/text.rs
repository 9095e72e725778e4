//! String search and length inside a program.
//!
//! In: strings in our own memory. Out: positions, lengths, concatenated strings.
//! Guarantee: bounded by the strings' capacities. A search reads each byte once, whatever it
//! searches for.
//!
//! The search is the shift-and algorithm: bit `j` of the state says that the last `j + 1` bytes are
//! the first `j + 1` of the needle. Eight bytes are processed between two branches, because each
//! branch in a loop costs the verifier a state.

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, Operand, Section, Size, VReg, Width};
use crate::lower::allocation::FIRST_SCRATCH_BYTES;
use crate::lower::conditions::{self, Branches};
use crate::lower::memory::chunk;
use crate::lower::{Body, Value, failures};
use crate::types::{Space, Type};

/// Maximum length of a needle: the state has one bit for each byte.
pub const MAX_NEEDLE_BYTES: u32 = 64;
/// Maximum capacity of a string that can be searched: the verifier follows each iteration of the
/// loop.
pub const MAX_HAYSTACK_BYTES: u32 = 4096;

/// One mask for each value of a byte.
const MASKS_BYTES: u32 = 256 * 8;
/// Bytes between two branches.
const STRIDE_BYTES: i64 = 8;
/// The lowest bit of each byte.
const EACH_BYTE: i64 = 0x0101_0101_0101_0101;

/// A string in our own memory.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Its address.
    pub at: Addr,
    /// Size of its memory.
    pub capacity_bytes: u32,
}

/// The needle: its masks, and its length minus one.
struct Needle {
    masks: VReg,
    last_bit: Operand,
}

/// Position of the first occurrence of `needle` in `haystack`, or -1. With `whether`, any
/// non-negative number stands for an occurrence.
pub fn position(cx: &mut Body<'_, '_>, haystack: Text, needle: &Value, ty: &Type, whether: bool) -> VReg {
    let result = cx.b.copy(0);
    let done = cx.b.new_block();
    let needle = match needle {
        Value::Bytes(text) if text.is_empty() => {
            cx.b.jump(done);
            cx.b.switch_to(done);
            return result;
        }
        Value::Bytes(text) => known_needle(cx, text),
        other => {
            let at = cx.in_memory(other.clone(), ty);
            let first = cx.b.load(at, Size::B1);
            let search = cx.b.new_block();
            cx.b.branch(CmpOp::Eq, Width::W64, first, 0, done, search, Likely::Otherwise);
            cx.b.switch_to(search);
            needle_in_memory(cx, at, ty)
        }
    };
    let (haystack, capacity_bytes) = whole_strides(cx, haystack.at, haystack.capacity_bytes);
    let hits = search_strides(cx, haystack, capacity_bytes, &needle, result);
    let (missing, found) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, hits, 0, missing, found, Likely::Unknown);
    cx.b.switch_to(missing);
    cx.b.assign(result, -1);
    cx.b.jump(done);
    cx.b.switch_to(found);
    if !whether {
        first_hit(cx, hits, result, &needle);
    }
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}

fn known_needle(cx: &mut Body<'_, '_>, text: &[u8]) -> Needle {
    let mut masks = [0u64; 256];
    for (bit, byte) in text.iter().enumerate() {
        masks[usize::from(*byte)] |= 1 << bit;
    }
    let bytes: Vec<u8> = masks.iter().flat_map(|mask| mask.to_le_bytes()).collect();
    let offset = cx.shared.rodata(&bytes);
    Needle { masks: cx.b.data_addr(Section::Rodata, offset), last_bit: Operand::Imm(text.len() as i64 - 1) }
}

/// Builds the masks at run time, without branches, so that the verifier follows only one path.
fn needle_in_memory(cx: &mut Body<'_, '_>, text: Addr, ty: &Type) -> Needle {
    let capacity_bytes = cx.layout(ty).size_bytes.min(MAX_NEEDLE_BYTES);
    let table = cx.memory(MASKS_BYTES, "masks");
    cx.zero(table, MASKS_BYTES);
    let masks = cx.address(table);
    let length = cx.b.copy(0);
    for at in 0..capacity_bytes {
        let byte = cx.b.load(text.plus(at as i32), Size::B1);
        let mask = mask_of(cx, masks, byte);
        let before = cx.b.load(mask, Size::B8);
        let with = cx.b.bin(BinOp::Or, Width::W64, before, 1i64 << at);
        cx.b.store(mask, with, Size::B8);
        // The highest bit of `0 - byte` is set unless the byte is 0.
        let negative = cx.b.bin(BinOp::Sub, Width::W64, 0, byte);
        let one = cx.b.bin(BinOp::Shr, Width::W64, negative, 63);
        let longer = cx.b.bin(BinOp::Add, Width::W64, length, one);
        cx.b.assign(length, longer);
    }
    // The bytes after the end are not part of the needle.
    cx.b.store(table, 0, Size::B8);
    let last = cx.b.bin(BinOp::Sub, Width::W64, length, 1);
    let last_bit = cx.b.bin(BinOp::And, Width::W64, last, 63);
    Needle { masks, last_bit: last_bit.into() }
}

pub(super) fn mask_of(cx: &mut Body<'_, '_>, masks: VReg, byte: VReg) -> Addr {
    let distance = cx.b.bin(BinOp::Shl, Width::W64, byte, 3);
    Addr::reg(cx.b.bin(BinOp::Add, Width::W64, masks, distance), 0)
}

/// The string in memory of whole strides, padded with zeros.
pub(super) fn whole_strides(cx: &mut Body<'_, '_>, text: Addr, capacity_bytes: u32) -> (Addr, u32) {
    let whole = capacity_bytes.next_multiple_of(STRIDE_BYTES as u32);
    if whole == capacity_bytes {
        return (text, capacity_bytes);
    }
    let to = cx.memory(whole, "text");
    cx.zero(to, whole);
    cx.copy(to, text, capacity_bytes);
    (to, whole)
}

/// A bit for each of the last eight bytes at which a match ends, the first byte in the highest
/// bit; 0 if the string ended without a match. `position` is then that of these bytes.
fn search_strides(cx: &mut Body<'_, '_>, text: Addr, capacity_bytes: u32, needle: &Needle, position: VReg) -> VReg {
    let start = cx.address(text);
    let (at, state, hits) = (cx.b.copy(0), cx.b.copy(0), cx.b.copy(0));
    let (head, go_on, next, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.jump(head);
    cx.b.switch_to(head);
    let here = cx.b.bin(BinOp::Add, Width::W64, start, at);
    cx.b.assign(hits, 0);
    let mut byte = at;
    for offset in 0..STRIDE_BYTES {
        byte = cx.b.load(Addr::reg(here, offset as i32), Size::B1);
        let shifted = cx.b.bin(BinOp::Shl, Width::W64, state, 1);
        let started = cx.b.bin(BinOp::Or, Width::W64, shifted, 1);
        let mask = mask_of(cx, needle.masks, byte);
        let mask = cx.b.load(mask, Size::B8);
        let alive = cx.b.bin(BinOp::And, Width::W64, started, mask);
        cx.b.assign(state, alive);
        let last = cx.b.bin(BinOp::Shr, Width::W64, state, needle.last_bit);
        let hit = cx.b.bin(BinOp::And, Width::W64, last, 1);
        let earlier = cx.b.bin(BinOp::Shl, Width::W64, hits, 1);
        let all = cx.b.bin(BinOp::Or, Width::W64, earlier, hit);
        cx.b.assign(hits, all);
    }
    cx.b.branch(CmpOp::Ne, Width::W64, hits, 0, done, go_on, Likely::Otherwise);
    cx.b.switch_to(go_on);
    cx.b.branch(CmpOp::Eq, Width::W64, byte, 0, done, next, Likely::Otherwise);
    cx.b.switch_to(next);
    let further = cx.b.bin(BinOp::Add, Width::W64, at, STRIDE_BYTES);
    cx.b.assign(at, further);
    cx.b.branch(CmpOp::Lt, Width::W64, at, i64::from(capacity_bytes), head, done, Likely::Then);
    cx.b.switch_to(done);
    cx.b.assign(position, at);
    hits
}

/// Converts the position of eight bytes to that of the first match that ends in them.
fn first_hit(cx: &mut Body<'_, '_>, hits: VReg, position: VReg, needle: &Needle) {
    // Verifier: it knows the iteration number, and would follow all later code once for each.
    // It knows nothing about a value stored in a map.
    let forgotten = cx.memory(FIRST_SCRATCH_BYTES, "position");
    cx.b.store(forgotten, position, Size::B8);
    let start = cx.b.load(forgotten, Size::B8);
    // The number of zeros above the highest bit, from bit 7 down, is the index of the byte at
    // which the match ends.
    let table: Vec<u8> = (0..=255u8).map(|hits| hits.leading_zeros() as u8).collect();
    let offset = cx.shared.rodata(&table);
    let base = cx.b.data_addr(Section::Rodata, offset);
    let index = cx.b.bin(BinOp::And, Width::W64, hits, 255);
    let entry = cx.b.bin(BinOp::Add, Width::W64, base, index);
    let into = cx.b.load(Addr::reg(entry, 0), Size::B1);
    let end = cx.b.bin(BinOp::Add, Width::W64, start, into);
    let first = cx.b.bin(BinOp::Sub, Width::W64, end, needle.last_bit);
    cx.b.assign(position, first);
}

/// The length of a string at an address, at most `most_bytes`.
pub fn length(cx: &mut Body<'_, '_>, text: VReg, most_bytes: u32, space: Space) -> VReg {
    let room = cx.memory(most_bytes + 1, "text");
    let to = cx.address_arg(room);
    let helper = match space {
        Space::Kernel => Helper::ProbeReadKernelStr,
        Space::User => Helper::ProbeReadUserStr,
    };
    // One byte more distinguishes a string that fills the buffer from one that ends there.
    let size = Arg::Value(i64::from(most_bytes + 1).into());
    let read = cx.b.call(helper, &[to, size, Arg::Value(text.into())]);
    failures::failed_read(cx, helper, read);
    let length = cx.b.bin(BinOp::Sub, Width::W64, read, 1);
    let (failed, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::SLt, Width::W64, length, 0, failed, done, Likely::Otherwise);
    cx.b.switch_to(failed);
    cx.b.assign(length, 0);
    cx.b.jump(done);
    cx.b.switch_to(done);
    length
}

/// Concatenates two strings; cuts off what the type has no capacity for.
pub fn joined(cx: &mut Body<'_, '_>, a: Text, b: Text, ty: &Type) -> Value {
    let size_bytes = cx.layout(ty).size_bytes;
    let whole_bytes = a.capacity_bytes + b.capacity_bytes - 1;
    // Verifier: the second string's offset is variable, which the stack does not allow.
    let to = cx.memory(size_bytes.max(whole_bytes).max(FIRST_SCRATCH_BYTES), "joined");
    cx.zero(to, size_bytes);
    let read = |cx: &mut Body<'_, '_>, to: Arg, text: Text| {
        let from = cx.address(text.at);
        let size = Arg::Value(i64::from(text.capacity_bytes).into());
        cx.b.call(Helper::ProbeReadKernelStr, &[to, size, Arg::Value(from.into())])
    };
    let to_arg = cx.address_arg(to);
    let length = read(cx, to_arg, a);
    let end = cx.b.bin(BinOp::Sub, Width::W64, length, 1);
    let (bad, good) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Ge, Width::W64, end, i64::from(a.capacity_bytes), bad, good, Likely::Otherwise);
    cx.b.switch_to(bad);
    cx.b.assign(end, 0);
    cx.b.jump(good);
    cx.b.switch_to(good);
    let end = cx.b.clamp(end, a.capacity_bytes.saturating_sub(1));
    let start = cx.address(to);
    let tail = cx.b.bin(BinOp::Add, Width::W64, start, end);
    read(cx, Arg::Value(tail.into()), b);
    if whole_bytes > size_bytes {
        cx.b.store(to.plus(size_bytes as i32 - 1), 0, Size::B1);
    }
    Value::Memory(to)
}

/// 0 if the first `size_bytes` of both are equal, else 1.
pub fn bytes_differ(cx: &mut Body<'_, '_>, a: Addr, b: Addr, size_bytes: u32) -> VReg {
    differ(cx, |cx, to| conditions::compare_bytes(cx, a, b, size_bytes, to))
}

/// The same for a constant on one side.
pub fn bytes_differ_from(cx: &mut Body<'_, '_>, a: Addr, bytes: &[u8]) -> VReg {
    differ(cx, |cx, to| {
        let mut at = 0;
        while at < bytes.len() {
            let here = a.plus(at as i32);
            let size = chunk(here, bytes.len() - at);
            let end = at + size.bytes() as usize;
            let mut word = [0u8; 8];
            word[..end - at].copy_from_slice(&bytes[at..end]);
            let have = cx.b.load(here, size);
            let next = cx.b.new_block();
            cx.branch(CmpOp::Eq, have, i64::from_le_bytes(word), next, to.other);
            cx.b.switch_to(next);
            at = end;
        }
        cx.b.jump(to.equal);
    })
}

/// 0 if the first `size_bytes` of both are equal, else the first differing byte of `a` minus
/// that of `b`.
pub fn bytes_difference(cx: &mut Body<'_, '_>, a: Addr, b: Addr, size_bytes: u32) -> VReg {
    let result = cx.b.copy(0);
    let (differ, done) = (cx.b.new_block(), cx.b.new_block());
    let (left, right) = (cx.b.copy(0), cx.b.copy(0));
    let mut at = 0;
    while at < size_bytes {
        let rest = (size_bytes - at) as usize;
        let size = chunk(a.plus(at as i32), rest).min(chunk(b.plus(at as i32), rest));
        let (x, y) = (cx.b.load(a.plus(at as i32), size), cx.b.load(b.plus(at as i32), size));
        cx.b.assign(left, x);
        cx.b.assign(right, y);
        let next = cx.b.new_block();
        cx.branch(CmpOp::Eq, x, Operand::Reg(y), next, differ);
        cx.b.switch_to(next);
        at += size.bytes();
    }
    cx.b.jump(done);
    cx.b.switch_to(differ);
    // Both words are little-endian, so the lowest differing bit is in the first differing byte.
    // Of the bits below it, as many of bits 7, 15, … exist as there are equal bytes. Verifier:
    // a branch for each byte would be a path for each.
    let bits = cx.b.bin(BinOp::Xor, Width::W64, left, right);
    let less_one = cx.b.bin(BinOp::Sub, Width::W64, bits, 1);
    let inverted = cx.b.bin(BinOp::Xor, Width::W64, bits, -1);
    let below = cx.b.bin(BinOp::And, Width::W64, less_one, inverted);
    let tops = cx.b.bin(BinOp::Shr, Width::W64, below, 7);
    let equal_bytes = cx.b.bin(BinOp::And, Width::W64, tops, EACH_BYTE);
    let summed = cx.b.bin(BinOp::Mul, Width::W64, equal_bytes, EACH_BYTE);
    let count = cx.b.bin(BinOp::Shr, Width::W64, summed, 56);
    let shift = cx.b.bin(BinOp::Shl, Width::W64, count, 3);
    let byte = |cx: &mut Body<'_, '_>, word: VReg| {
        let moved = cx.b.bin(BinOp::Shr, Width::W64, word, shift);
        cx.b.bin(BinOp::And, Width::W64, moved, 255)
    };
    let (x, y) = (byte(cx, left), byte(cx, right));
    let difference = cx.b.bin(BinOp::Sub, Width::W64, x, y);
    cx.b.assign(result, difference);
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}

fn differ(cx: &mut Body<'_, '_>, compare: impl FnOnce(&mut Body<'_, '_>, Branches)) -> VReg {
    let result = cx.b.copy(0);
    let (equal, other) = (cx.b.new_block(), cx.b.new_block());
    compare(cx, Branches { equal, other });
    cx.b.switch_to(other);
    cx.b.assign(result, 1);
    cx.b.jump(equal);
    cx.b.switch_to(equal);
    result
}
