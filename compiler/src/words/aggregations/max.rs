//! `max(n)`: the largest value; kept as a number whose unsigned order is the order of the values.

use crate::ast;
use crate::check;
use crate::ir::{Operand, VReg};
use crate::lower::{self, AggregateSlot};
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;
use crate::words::{Aggregated, Aggregation, Doc, Reading};

/// `max`.
#[derive(Debug)]
pub struct Max;

impl Aggregation for Max {
    fn name(&self) -> &'static str {
        "max"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "max(n)",
            summary: "the largest value",
            page: include_str!("../../../../spec/words/aggregations/max.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("max", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        let key = super::ordered(cx, args[0], slot.signed);
        cx.aggregate_raise(slot, key);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        8
    }

    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Max)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        super::largest(per_cpu, signed, |key| key)
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::Largest)
    }

    fn value(&self, cx: &mut lower::Body<'_, '_>, signed: bool, words: &[VReg]) -> Operand {
        super::from_ordered(cx, words, signed, false)
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        super::divide_integer(value, by)
    }
}
