//! `min(n)`: the smallest value, stored as the largest complement.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation, Reading};
use crate::check;
use crate::ir::{BinOp, Operand, VReg, Width};
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// `min`.
#[derive(Debug)]
pub(super) struct Min;

impl Aggregation for Min {
    word!("min", "aggregations/min");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("min", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        let key = super::ordered(cx, args[0], slot.signed);
        let complement = cx.b.bin(BinOp::Xor, Width::W64, key, -1);
        super::raise(cx, slot, complement);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        super::LARGEST_BYTES
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::Largest)
    }

    fn value(&self, cx: &mut lower::Body<'_, '_>, signed: bool, words: &[VReg]) -> Operand {
        super::from_ordered(cx, words, signed, true)
    }
}

impl Merge for Min {
    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Min)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        super::largest(per_cpu, signed, |key| !key)
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        super::divide_integer(value, by)
    }
}
