//! Searches: the mapping that contains an address, and the row of its table.
//!
//! In: the values of the maps that the runtime fills. Out: the address of a mapping, a rule.
//! Guarantee: a search takes a fixed number of steps and has no branches.

use super::step::{Step, end_with, special};
use crate::ir::{Addr, BinOp, CmpOp, Likely, Operand, Size, VReg, Width};
use crate::lower::{Body, maps};
use crate::unwind::{
    End, FILE_MAPPINGS, INDEX_FLAG, MAPPING_BYTES, MAPPINGS_OFFSET, MAX_MAPPINGS, RULE_BITS, RULE_MASK, SEGMENT_WORDS,
    Special,
};

/// Mappings in the value of a map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mappings {
    value: VReg,
    /// Where they begin in the value.
    offset_bytes: usize,
    /// How many there can be; a power of two.
    most: usize,
}

impl Mappings {
    /// Those of a process.
    pub(super) fn of_process(value: VReg) -> Mappings {
        Mappings { value, offset_bytes: MAPPINGS_OFFSET, most: MAX_MAPPINGS }
    }

    /// Those of a file.
    pub(super) fn of_file(value: VReg) -> Mappings {
        Mappings { value, offset_bytes: 0, most: FILE_MAPPINGS }
    }
}

/// The address of the last mapping that does not start above an address, or the first one.
pub(super) fn mapping_of(cx: &mut Body<'_, '_>, mappings: Mappings, at: VReg) -> VReg {
    let Mappings { value, offset_bytes, most } = mappings;
    let mut found = cx.b.copy(0);
    let mut step = most as i64 / 2;
    while step > 0 {
        let bytes = step * MAPPING_BYTES as i64;
        let here = cx.b.bin(BinOp::Add, Width::W64, value, found);
        let start = cx.b.load(Addr::reg(here, (offset_bytes as i64 + bytes) as i32), Size::B8);
        let difference = cx.b.bin(BinOp::Sub, Width::W64, at, start);
        found = advance_unless_negative(cx, found, difference, bytes);
        step /= 2;
    }
    let here = cx.b.bin(BinOp::Add, Width::W64, value, found);
    cx.b.bin(BinOp::Add, Width::W64, here, offset_bytes as i64)
}

/// The rule for an address of a table.
pub(super) fn rule_of(cx: &mut Body<'_, '_>, step: &Step<'_>, address: VReg, table: VReg) -> VReg {
    let [indexed, done, covered, before] = std::array::from_fn(|_| cx.b.new_block());
    let shifted = cx.b.bin(BinOp::Shl, Width::W64, address, i64::from(RULE_BITS));
    let wanted = cx.b.bin(BinOp::Or, Width::W64, shifted, RULE_MASK as i64);
    let segment = bits(cx, table, 32, 0xffff);
    let rows = segment_at(cx, step, segment);
    let first = bits(cx, table, 0, 0x7fff);
    let words = bits(cx, table, 16, 0xffff);
    let row = cx.b.new_vreg();
    let found = search(cx, (rows, first.into(), words.into()), wanted);
    cx.b.assign(row, found);
    let flag = cx.b.bin(BinOp::And, Width::W64, table, INDEX_FLAG as i64);
    cx.b.branch(CmpOp::Ne, Width::W64, flag, 0, indexed, done, Likely::Unknown);
    cx.b.switch_to(indexed);
    let number = bits(cx, row, 0, RULE_MASK as i64);
    let base = bits(cx, table, 48, 0xffff);
    let segment = cx.b.bin(BinOp::Add, Width::W64, base, number);
    let rows = segment_at(cx, step, segment);
    let found = search(cx, (rows, 0.into(), (SEGMENT_WORDS as i64).into()), wanted);
    cx.b.assign(row, found);
    cx.b.jump(done);
    cx.b.switch_to(done);
    let rule = cx.b.new_vreg();
    let low = bits(cx, row, 0, RULE_MASK as i64);
    cx.b.assign(rule, low);
    cx.b.branch(CmpOp::Le, Width::W64, row, wanted, covered, before, Likely::Then);
    cx.b.switch_to(before);
    cx.b.assign(rule, special(Special::None));
    cx.b.jump(covered);
    cx.b.switch_to(covered);
    rule
}

/// The words of a segment. Ends the stack if there is no such segment.
fn segment_at(cx: &mut Body<'_, '_>, step: &Step<'_>, segment: VReg) -> VReg {
    let rows = super::unwind_maps(cx.shared).rows;
    let key = cx.memory(8, "segment");
    cx.b.store(key, segment, Size::B8);
    let found = maps::look_up(cx, rows, key);
    let [some, none] = std::array::from_fn(|_| cx.b.new_block());
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, some, none, Likely::Then);
    cx.b.switch_to(none);
    end_with(cx, step, End::NoTable as i64);
    cx.b.switch_to(some);
    found
}

/// The last of some words that is not above `wanted`, or the first one. The words are given by
/// their segment, the index of the first one, and their number.
fn search(cx: &mut Body<'_, '_>, words: (VReg, Operand, Operand), wanted: VReg) -> VReg {
    let (rows, first, count) = words;
    let last = cx.b.bin(BinOp::Sub, Width::W64, count, 1);
    let last_bytes = cx.b.bin(BinOp::Shl, Width::W64, last, 3);
    let first_bytes = cx.b.bin(BinOp::Shl, Width::W64, first, 3);
    let mut found = cx.b.copy(0);
    let mut step = SEGMENT_WORDS as i64 / 2;
    while step > 0 {
        let candidate = cx.b.bin(BinOp::Add, Width::W64, found, step * 8);
        let word = word_at(cx, rows, first_bytes, candidate);
        let beyond = cx.b.bin(BinOp::Sub, Width::W64, last_bytes, candidate);
        let above = cx.b.bin(BinOp::Sub, Width::W64, wanted, word);
        let either = cx.b.bin(BinOp::Or, Width::W64, beyond, above);
        found = advance_unless_negative(cx, found, either, step * 8);
        step /= 2;
    }
    word_at(cx, rows, first_bytes, found)
}

fn word_at(cx: &mut Body<'_, '_>, rows: VReg, first_bytes: VReg, offset_bytes: VReg) -> VReg {
    let offset = cx.b.bin(BinOp::Add, Width::W64, first_bytes, offset_bytes);
    // Verifier: the offset is within the value.
    let within = cx.b.bin(BinOp::And, Width::W64, offset, (SEGMENT_WORDS as i64 - 1) * 8);
    let here = cx.b.bin(BinOp::Add, Width::W64, rows, within);
    cx.b.load(Addr::reg(here, 0), Size::B8)
}

/// `found + by`, or `found` if `difference` is negative.
fn advance_unless_negative(cx: &mut Body<'_, '_>, found: VReg, difference: VReg, by: i64) -> VReg {
    let sign = cx.b.bin(BinOp::Sar, Width::W64, difference, 63);
    let inverse = cx.b.bin(BinOp::Xor, Width::W64, sign, -1);
    let distance = cx.b.bin(BinOp::And, Width::W64, inverse, by);
    cx.b.bin(BinOp::Add, Width::W64, found, distance)
}

pub(super) fn bits(cx: &mut Body<'_, '_>, word: VReg, first: i64, mask: i64) -> VReg {
    let shifted = if first == 0 { word } else { cx.b.bin(BinOp::Shr, Width::W64, word, first) };
    cx.b.bin(BinOp::And, Width::W64, shifted, mask)
}
