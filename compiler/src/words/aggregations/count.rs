//! `count()`: number of calls.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation, Reading};
use crate::check;
use crate::ir::Operand;
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// `count`.
#[derive(Debug)]
pub(super) struct Count;

impl Aggregation for Count {
    word!("count", "aggregations/count");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.arity("count", args.len(), 0..=0, span).then(Aggregated::default)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, _args: &[Operand]) {
        slot.add(cx, 0, Operand::Imm(1));
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        8
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::Sum)
    }
}

impl Merge for Count {
    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Count)
    }

    fn merge(&self, _params: &[i64], _signed: bool, per_cpu: &[&[u8]]) -> Value {
        Value::Uint(super::sum_words(per_cpu, 0))
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        super::divide_integer(value, by)
    }
}
