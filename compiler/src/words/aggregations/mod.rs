//! The registry of aggregations: one line each, sorted by name; and arithmetic on per-CPU words that they share.

use super::Aggregation;
use crate::ir::{BinOp, CmpOp, Likely, Operand, VReg, Width};
use crate::lower;
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
pub const ALL: &[&dyn Aggregation] = &[
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

/// The `index`-th `u64` of some bytes.
fn word(bytes: &[u8], index: usize) -> u64 {
    let at = index * 8;
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// The sum of the `index`-th words, wrapping.
fn sum_words(per_cpu: &[&[u8]], index: usize) -> u64 {
    per_cpu.iter().fold(0, |sum, bytes| sum.wrapping_add(word(bytes, index)))
}

/// The sums of all words.
fn sum_all(per_cpu: &[&[u8]]) -> Vec<u64> {
    let words = per_cpu.first().map_or(0, |bytes| bytes.len() / 8);
    (0..words).map(|index| sum_words(per_cpu, index)).collect()
}

/// The `index`-th constant of a use.
fn param(params: &[i64], index: usize) -> i64 {
    params.get(index).copied().unwrap_or(0)
}

fn three(params: &[i64]) -> [i64; 3] {
    [param(params, 0), param(params, 1), param(params, 2)]
}

/// Total by count, truncated; 0 without values.
fn average(count: u64, total: u64, signed: bool) -> i64 {
    match (count, signed) {
        (0, _) => 0,
        (_, true) => (i128::from(total as i64) / i128::from(count)) as i64,
        (_, false) => (total / count) as i64,
    }
}

/// A number whose unsigned order is the order of the values.
fn ordered(cx: &mut lower::Body<'_, '_>, value: Operand, signed: bool) -> VReg {
    if signed { cx.b.bin(BinOp::Xor, Width::W64, value, i64::MIN) } else { cx.b.copy(value) }
}

/// The value that a kept number stands for, as [`largest`] tells it in user space; 0 where none was kept.
fn from_ordered(cx: &mut lower::Body<'_, '_>, words: &[VReg], signed: bool, complement: bool) -> Operand {
    let Some(kept) = words.first() else { return Operand::Imm(0) };
    let flipped = match (signed, complement) {
        (false, false) => return (*kept).into(),
        (true, false) => i64::MIN,
        (false, true) => -1,
        (true, true) => i64::MAX,
    };
    let value = cx.b.bin(BinOp::Xor, Width::W64, *kept, flipped);
    let (none, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, *kept, 0, none, done, Likely::Otherwise);
    cx.b.switch_to(none);
    cx.b.assign(value, 0);
    cx.b.jump(done);
    cx.b.switch_to(done);
    value.into()
}

/// The value of the largest number over all CPUs; 0 where none was kept.
fn largest(per_cpu: &[&[u8]], signed: bool, decode: impl Fn(u64) -> u64) -> Value {
    let most = per_cpu.iter().map(|bytes| word(bytes, 0)).max().unwrap_or(0);
    match (most, signed) {
        (0, true) => Value::Int(0),
        (0, false) => Value::Uint(0),
        (most, true) => Value::Int((decode(most) ^ (1 << 63)) as i64),
        (most, false) => Value::Uint(decode(most)),
    }
}

fn divide_integer(value: Value, by: i64) -> Value {
    match value {
        Value::Int(n) if by > 1 => Value::Int(n / by),
        Value::Uint(n) if by > 1 => Value::Uint(n / by as u64),
        other => other,
    }
}
