//! `min(n)`: the smallest value; kept as the largest complement, so that zero bytes mean "none yet".

use crate::ast;
use crate::check;
use crate::ir::{BinOp, Operand, VReg, Width};
use crate::lower::{self, AggregateSlot};
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;
use crate::words::{Aggregated, Aggregation, Doc, Reading};

/// `min`.
#[derive(Debug)]
pub struct Min;

impl Aggregation for Min {
    fn name(&self) -> &'static str {
        "min"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "min(n)",
            summary: "the smallest value",
            page: include_str!("../../../../spec/words/aggregations/min.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("min", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        let key = super::ordered(cx, args[0], slot.signed);
        let complement = cx.b.bin(BinOp::Xor, Width::W64, key, -1);
        cx.aggregate_raise(slot, complement);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        8
    }

    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Min)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        super::largest(per_cpu, signed, |key| !key)
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::Largest)
    }

    fn value(&self, cx: &mut lower::Body<'_, '_>, signed: bool, words: &[VReg]) -> Operand {
        super::from_ordered(cx, words, signed, true)
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        super::divide_integer(value, by)
    }
}
