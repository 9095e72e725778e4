//! `max(n)`: the largest value, stored as a number whose unsigned order is that of the values.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation, Reading};
use crate::check;
use crate::ir::{Operand, VReg};
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// `max`.
#[derive(Debug)]
pub(super) struct Max;

impl Aggregation for Max {
    word!("max", "aggregations/max");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("max", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        let key = super::ordered(cx, args[0], slot.signed);
        super::raise(cx, slot, key);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        super::LARGEST_BYTES
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::Largest)
    }

    fn value(&self, cx: &mut lower::Body<'_, '_>, signed: bool, words: &[VReg]) -> Operand {
        super::from_ordered(cx, words, signed, false)
    }
}

impl Merge for Max {
    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Max)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        super::largest(per_cpu, signed, |key| key)
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        super::divide_integer(value, by)
    }
}
