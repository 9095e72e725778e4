//! `avg(n)`: count and total a CPU, 8 bytes each.

use crate::ast;
use crate::check;
use crate::ir::{Operand, VReg};
use crate::lower::{self, AggregateSlot};
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;
use crate::words::{Aggregated, Aggregation, Doc, Reading};

/// `avg`.
#[derive(Debug)]
pub struct Avg;

impl Aggregation for Avg {
    fn name(&self) -> &'static str {
        "avg"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "avg(n)",
            summary: "the average of the values",
            page: include_str!("../../../../spec/words/aggregations/avg.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("avg", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        cx.aggregate_add(slot, 0, Operand::Imm(1));
        cx.aggregate_add(slot, 8, args[0]);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        16
    }

    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Mean)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        let (count, total) = (super::sum_words(per_cpu, 0), super::sum_words(per_cpu, 1));
        Value::Average { average: super::average(count, total, signed) }
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::Sum)
    }

    fn value(&self, cx: &mut lower::Body<'_, '_>, signed: bool, words: &[VReg]) -> Operand {
        let [count, total] = words else { return Operand::Imm(0) };
        cx.quotient((*total).into(), (*count).into(), signed).into()
    }

    fn json_type(&self) -> &'static str {
        "stats"
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        match value {
            Value::Average { average } if by > 1 => Value::Average { average: average / by },
            other => other,
        }
    }
}
