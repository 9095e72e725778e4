//! `stats(n)`: count, average and total of the values.

use crate::ast;
use crate::check;
use crate::ir::Operand;
use crate::lower::{self, AggregateSlot};
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;
use crate::words::{Aggregated, Aggregation, Doc};

/// `stats`.
#[derive(Debug)]
pub struct Stats;

impl Aggregation for Stats {
    fn name(&self) -> &'static str {
        "stats"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "stats(n)",
            summary: "count, average and total of the values",
            page: include_str!("../../../../spec/words/aggregations/stats.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("stats", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        cx.aggregate_add(slot, 0, Operand::Imm(1));
        cx.aggregate_add(slot, 8, args[0]);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        16
    }

    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Count | Statistic::Sum | Statistic::Mean)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        let (count, total) = (super::sum_words(per_cpu, 0), super::sum_words(per_cpu, 1));
        Value::Stats { count, average: super::average(count, total, signed), total: total as i64 }
    }

    fn json_type(&self) -> &'static str {
        "stats"
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        match value {
            Value::Stats { count, average, total } if by > 1 => {
                Value::Stats { count, average: average / by, total: total / by }
            }
            other => other,
        }
    }
}
