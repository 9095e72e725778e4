//! `hist(n[, k])`: a histogram over powers of two, each divided into 2^k buckets.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation};
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::histogram::{self, MAX_SUB_BITS, log2_buckets, log2_histogram};
use crate::ir::{BinOp, CmpOp, Likely, Operand, VReg, Width};
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// `hist`.
#[derive(Debug)]
pub(super) struct Hist;

impl Aggregation for Hist {
    word!("hist", "aggregations/hist");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        if !cx.arity("hist", args.len(), 1..=2, span) {
            return None;
        }
        let k = match args.get(1) {
            None => 0,
            Some(e) => match cx.constant_int(e) {
                Some(k) if (0..=i64::from(MAX_SUB_BITS)).contains(&k) => k,
                _ => {
                    let message = format!("the second argument of `hist` must be a constant from 0 to {MAX_SUB_BITS}");
                    cx.error(Diagnostic::error(Code(350), e.span, message));
                    return None;
                }
            },
        };
        let used = cx.one_integer("hist", &args[..1], span)?;
        Some(Aggregated { params: vec![k], ..used })
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        let k = slot.param(0);
        let n = cx.b.copy(args[0]);
        let index = cx.b.new_vreg();
        let (negative, small, large, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        let other = cx.b.new_block();
        // Unsigned values from 2^63 on count as negative, as in bpftrace.
        cx.b.branch(CmpOp::SLt, Width::W64, n, 0, negative, other, Likely::Otherwise);
        cx.b.switch_to(negative);
        cx.b.assign(index, 0);
        cx.b.jump(done);
        cx.b.switch_to(other);
        cx.b.branch(CmpOp::Lt, Width::W64, n, 1i64 << k, small, large, Likely::Otherwise);
        cx.b.switch_to(small);
        let next = cx.b.bin(BinOp::Add, Width::W64, n, 1);
        cx.b.assign(index, next);
        cx.b.jump(done);
        cx.b.switch_to(large);
        let number = large_index(cx, n, k);
        cx.b.assign(index, number);
        cx.b.jump(done);
        cx.b.switch_to(done);
        slot.bump(cx, index, log2_buckets(k as u8) as u32);
    }

    fn size_bytes(&self, params: &[i64]) -> u32 {
        log2_buckets(super::param(params, 0) as u8) as u32 * 8
    }
}

impl Merge for Hist {
    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Count | Statistic::Max | Statistic::Percentile(_))
    }

    fn takes(&self, params: &[i64]) -> bool {
        matches!(params, [k] if (0..=i64::from(MAX_SUB_BITS)).contains(k))
    }

    fn merge(&self, params: &[i64], _signed: bool, per_cpu: &[&[u8]]) -> Value {
        Value::Histogram(log2_histogram(&super::sum_all(per_cpu), super::param(params, 0) as u8))
    }

    fn json_type(&self) -> &'static str {
        "hist"
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        match value {
            Value::Histogram(counts) if by > 1 => Value::Histogram(histogram::divide(counts, by)),
            other => other,
        }
    }
}

/// The bucket of a value of at least `2^k`, numbered as in `histogram::log2_index`.
fn large_index(cx: &mut lower::Body<'_, '_>, n: VReg, k: i64) -> VReg {
    let log2 = integer_log2(cx, n);
    let shift = cx.b.bin(BinOp::Sub, Width::W64, log2, k);
    let power = cx.b.bin(BinOp::Add, Width::W64, shift, 1);
    if k == 0 {
        return cx.b.bin(BinOp::Add, Width::W64, power, 1);
    }
    let first = cx.b.bin(BinOp::Shl, Width::W64, power, k);
    let leading = cx.b.bin(BinOp::Shr, Width::W64, n, shift);
    let sub = cx.b.bin(BinOp::And, Width::W64, leading, (1i64 << k) - 1);
    let both = cx.b.bin(BinOp::Or, Width::W64, first, sub);
    cx.b.bin(BinOp::Add, Width::W64, both, 1)
}

/// The position of the highest bit of a nonzero number, by binary search: BPF has no instruction
/// for it.
pub(super) fn integer_log2(cx: &mut lower::Body<'_, '_>, n: VReg) -> VReg {
    let rest = cx.b.copy(n);
    let result = cx.b.copy(0);
    for bits in [32, 16, 8, 4, 2, 1] {
        let (high, next) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Ge, Width::W64, rest, 1i64 << bits, high, next, Likely::Unknown);
        cx.b.switch_to(high);
        let shifted = cx.b.bin(BinOp::Shr, Width::W64, rest, bits);
        cx.b.assign(rest, shifted);
        let sum = cx.b.bin(BinOp::Add, Width::W64, result, bits);
        cx.b.assign(result, sum);
        cx.b.jump(next);
        cx.b.switch_to(next);
    }
    result
}
