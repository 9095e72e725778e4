//! `sum(n)`: the sum of the values.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation, Reading};
use crate::check;
use crate::ir::Operand;
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// `sum`.
#[derive(Debug)]
pub(super) struct Sum;

impl Aggregation for Sum {
    word!("sum", "aggregations/sum");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("sum", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        slot.add(cx, 0, args[0]);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        8
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::Sum)
    }
}

impl Merge for Sum {
    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Sum)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        let sum = super::sum_words(per_cpu, 0);
        if signed { Value::Int(sum as i64) } else { Value::Uint(sum) }
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        super::divide_integer(value, by)
    }
}
