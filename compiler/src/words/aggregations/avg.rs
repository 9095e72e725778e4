//! `avg(n)`: per-CPU count and total; the total has two words.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation, Reading};
use crate::check;
use crate::ir::{Operand, VReg};
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// `avg`.
#[derive(Debug)]
pub(super) struct Avg;

impl Aggregation for Avg {
    word!("avg", "aggregations/avg");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        cx.one_integer("avg", args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        slot.add(cx, 0, Operand::Imm(1));
        super::add_wide(cx, &slot.plus(8), args[0]);
    }

    fn size_bytes(&self, _params: &[i64]) -> u32 {
        24
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::Sum)
    }

    fn value(&self, cx: &mut lower::Body<'_, '_>, signed: bool, words: &[VReg]) -> Operand {
        let [count, lower, upper] = words else { return Operand::Imm(0) };
        super::mean(cx, *count, [*lower, *upper], signed).into()
    }
}

impl Merge for Avg {
    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Mean)
    }

    fn merge(&self, _params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        let (count, total) = (super::sum_words(per_cpu, 0), super::sum_wide(per_cpu, 1, signed));
        Value::Average { average: super::average(count, total) }
    }

    fn json_type(&self) -> &'static str {
        "stats"
    }

    fn divide(&self, value: Value, by: i64) -> Value {
        match value {
            Value::Average { average } if by > 1 => Value::Average { average: average / i128::from(by) },
            other => other,
        }
    }
}
