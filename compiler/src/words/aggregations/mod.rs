//! The registry of aggregations, sorted by name; and their shared arithmetic on per-CPU words.

use crate::catalogue::Aggregation;
use crate::ir::{BinOp, CmpOp, Likely, Operand, Size, VReg, Width};
use crate::lower::{self, AggregateSlot};
use crate::value::Value;

mod avg;
mod count;
mod dist;
mod hist;
mod lhist;
mod max;
mod min;
mod stats;
mod sum;
mod tseries;

/// All aggregations.
pub(super) const ALL: &[&dyn Aggregation] = &[
    &avg::Avg,
    &count::Count,
    &dist::Dist,
    &hist::Hist,
    &lhist::Lhist,
    &max::Max,
    &min::Min,
    &stats::Stats,
    &sum::Sum,
    &tseries::Tseries,
];

/// The `index`-th `u64` of `bytes`.
fn word(bytes: &[u8], index: usize) -> u64 {
    let at = index * 8;
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// The wrapping sum of the CPUs' `index`-th words.
fn sum_words(per_cpu: &[&[u8]], index: usize) -> u64 {
    per_cpu.iter().fold(0, |sum, bytes| sum.wrapping_add(word(bytes, index)))
}

/// The CPUs' sums of all words.
fn sum_all(per_cpu: &[&[u8]]) -> Vec<u64> {
    let words = per_cpu.first().map_or(0, |bytes| bytes.len() / 8);
    (0..words).map(|index| sum_words(per_cpu, index)).collect()
}

/// The `index`-th constant of a use; 0 if missing.
fn param(params: &[i64], index: usize) -> i64 {
    params.get(index).copied().unwrap_or(0)
}

fn three(params: &[i64]) -> [i64; 3] {
    [param(params, 0), param(params, 1), param(params, 2)]
}

/// Total divided by count, truncated; 0 without values.
fn average(count: u64, total: i128) -> i128 {
    total.checked_div(i128::from(count)).unwrap_or(0)
}

/// A word as a number.
fn number(word: u64, signed: bool) -> i128 {
    if signed { i128::from(word as i64) } else { i128::from(word) }
}

/// The bits of the lower half of a word.
const LOWER: i64 = 0xffff_ffff;

/// Adds to a sum that 2^32 values cannot overflow: two words, one of their lower halves and one of
/// their upper ones. A carry from word to word would need an addition that returns the old value,
/// and a sum that others read meanwhile would be wrong by 2^64.
fn add_wide(cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, value: Operand) {
    let lower = cx.b.bin(BinOp::And, Width::W64, value, LOWER);
    slot.add(cx, 0, lower.into());
    let upper = cx.b.bin(if slot.signed { BinOp::Sar } else { BinOp::Shr }, Width::W64, value, 32);
    slot.add(cx, 8, upper.into());
}

/// The CPUs' sum of such words, the first of which is the `index`-th.
fn sum_wide(per_cpu: &[&[u8]], index: usize, signed: bool) -> i128 {
    let of_copy = |bytes: &&[u8]| (number(word(bytes, index + 1), signed) << 32) + i128::from(word(bytes, index));
    per_cpu.iter().map(of_copy).sum()
}

/// Such a sum divided by a count below 2^48, like [`average`] in user space: by long division, in
/// digits of 32, 16 and 16 bits.
fn mean(cx: &mut lower::Body<'_, '_>, count: VReg, [lower, upper]: [VReg; 2], signed: bool) -> VReg {
    let (mut lower, mut upper) = carried(cx, lower, upper);
    let sign = if signed { cx.b.bin(BinOp::Sar, Width::W64, upper, 63) } else { cx.b.copy(0) };
    if signed {
        // The absolute value: all bits flipped, plus 1.
        let flipped = cx.b.bin(BinOp::And, Width::W64, sign, LOWER);
        let one = cx.b.bin(BinOp::And, Width::W64, sign, 1);
        lower = cx.b.bin(BinOp::Xor, Width::W64, lower, flipped);
        lower = cx.b.bin(BinOp::Add, Width::W64, lower, one);
        upper = cx.b.bin(BinOp::Xor, Width::W64, upper, sign);
        (lower, upper) = carried(cx, lower, upper);
    }
    let mut quotient = cx.b.bin(BinOp::Div, Width::W64, upper, count);
    let mut rest = cx.b.bin(BinOp::Mod, Width::W64, upper, count);
    for shift in [16, 0] {
        let digit = cx.b.bin(BinOp::Shr, Width::W64, lower, shift);
        let digit = cx.b.bin(BinOp::And, Width::W64, digit, 0xffff);
        rest = cx.b.bin(BinOp::Shl, Width::W64, rest, 16);
        rest = cx.b.bin(BinOp::Or, Width::W64, rest, digit);
        let next = cx.b.bin(BinOp::Div, Width::W64, rest, count);
        rest = cx.b.bin(BinOp::Mod, Width::W64, rest, count);
        quotient = cx.b.bin(BinOp::Shl, Width::W64, quotient, 16);
        quotient = cx.b.bin(BinOp::Add, Width::W64, quotient, next);
    }
    quotient = cx.b.bin(BinOp::Xor, Width::W64, quotient, sign);
    cx.b.bin(BinOp::Sub, Width::W64, quotient, sign)
}

/// The same sum with a lower word below 2^32.
fn carried(cx: &mut lower::Body<'_, '_>, lower: VReg, upper: VReg) -> (VReg, VReg) {
    let carry = cx.b.bin(BinOp::Shr, Width::W64, lower, 32);
    (cx.b.bin(BinOp::And, Width::W64, lower, LOWER), cx.b.bin(BinOp::Add, Width::W64, upper, carry))
}

/// Encodes a value so that unsigned order matches the order of the values.
fn ordered(cx: &mut lower::Body<'_, '_>, value: Operand, signed: bool) -> VReg {
    if signed { cx.b.bin(BinOp::Xor, Width::W64, value, i64::MIN) } else { cx.b.copy(value) }
}

/// Bytes of a stored maximum: the number, and a word that is 1 if the number 0 was stored, because
/// 0 alone means that there is none.
const LARGEST_BYTES: u32 = 16;

/// Stores a number if it is larger than the previous ones.
fn raise(cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, number: VReg) {
    let (least, done) = (cx.b.new_block(), cx.b.new_block());
    slot.raise(cx, number);
    cx.b.branch(CmpOp::Eq, Width::W64, number, 0, least, done, Likely::Otherwise);
    cx.b.switch_to(least);
    cx.b.store(slot.addr.plus(8), 1, Size::B8);
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// Decodes a stored number, like [`largest`] in user space; 0 if none was stored.
fn from_ordered(cx: &mut lower::Body<'_, '_>, words: &[VReg], signed: bool, complement: bool) -> Operand {
    let [kept, is_least] = words else { return Operand::Imm(0) };
    let flipped = match (signed, complement) {
        (false, false) => return (*kept).into(),
        (true, false) => i64::MIN,
        (false, true) => -1,
        (true, true) => i64::MAX,
    };
    let value = cx.b.bin(BinOp::Xor, Width::W64, *kept, flipped);
    let (none, done) = (cx.b.new_block(), cx.b.new_block());
    let any = cx.b.bin(BinOp::Or, Width::W64, *kept, *is_least);
    cx.b.branch(CmpOp::Eq, Width::W64, any, 0, none, done, Likely::Otherwise);
    cx.b.switch_to(none);
    cx.b.assign(value, 0);
    cx.b.jump(done);
    cx.b.switch_to(done);
    value.into()
}

/// The decoded maximum over all CPUs; 0 if none was stored.
fn largest(per_cpu: &[&[u8]], signed: bool, decode: impl Fn(u64) -> u64) -> Value {
    let most = per_cpu.iter().map(|bytes| word(bytes, 0)).max().unwrap_or(0);
    let is_least = per_cpu.iter().any(|bytes| word(bytes, 1) != 0);
    match (most > 0 || is_least, signed) {
        (false, true) => Value::Int(0),
        (false, false) => Value::Uint(0),
        (true, true) => Value::Int((decode(most) ^ (1 << 63)) as i64),
        (true, false) => Value::Uint(decode(most)),
    }
}

fn divide_integer(value: Value, by: i64) -> Value {
    match value {
        Value::Int(n) if by > 1 => Value::Int(n / by),
        Value::Uint(n) if by > 1 => Value::Uint(n / by as u64),
        other => other,
    }
}
