//! `stats(n)`: count, average and total of the values.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation};
use crate::check;
use crate::ir::Operand;
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// `stats`.
#[derive(Debug)]
pub(super) struct Stats;

impl Aggregation for Stats {
    word!("stats", "aggregations/stats");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("stats", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        slot.add(cx, 0, Operand::Imm(1));
        super::add_wide(cx, &slot.plus(8), args[0]);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        24
    }
}

impl Merge for Stats {
    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Count | Statistic::Sum | Statistic::Mean)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        let (count, total) = (super::sum_words(per_cpu, 0), super::sum_wide(per_cpu, 1, signed));
        Value::Stats { count, average: super::average(count, total), total }
    }

    fn json_type(&self) -> &'static str {
        "stats"
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        match value {
            Value::Stats { count, average, total } if by > 1 => {
                Value::Stats { count, average: average / i128::from(by), total: total / i128::from(by) }
            }
            other => other,
        }
    }
}
