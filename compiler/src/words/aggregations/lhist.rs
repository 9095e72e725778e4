//! `lhist(n, min, max, step)`: a histogram with equal steps.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation};
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::histogram::{linear_buckets, linear_histogram};
use crate::ir::{BinOp, CmpOp, Likely, Operand, Width};
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// `lhist`.
#[derive(Debug)]
pub(super) struct Lhist;

impl Aggregation for Lhist {
    word!("lhist", "aggregations/lhist");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        if !cx.arity("lhist", args.len(), 4..=4, span) {
            return None;
        }
        let bounds: Option<Vec<i64>> = args[1..].iter().map(|e| cx.constant_int(e)).collect();
        let Some([min, max, step]) = bounds.and_then(|b| <[i64; 3]>::try_from(b).ok()) else {
            let message = "`lhist` takes constants for the lowest value, the highest and the step";
            cx.error(Diagnostic::error(Code(351), args[1].span.to(args[3].span), message).help(self.doc().signature()));
            return None;
        };
        if min < 0 || max <= min || step < 1 || (max - min) / step > MAX_STEPS {
            let message =
                format!("`lhist` needs 0 <= min < max, a step of at least 1, and at most {MAX_STEPS} buckets");
            cx.error(Diagnostic::error(Code(351), args[1].span.to(args[3].span), message));
            return None;
        }
        let used = cx.one_integer("lhist", &args[..1], span)?;
        Some(Aggregated { params: vec![min, max, step], ..used })
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        let (min, max, step) = (slot.param(0), slot.param(1), slot.param(2));
        let n = cx.b.copy(args[0]);
        let index = cx.b.new_vreg();
        let (below, not_below, above, inside, done) =
            (cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        let (less, at_least) = if slot.signed { (CmpOp::SLt, CmpOp::SGe) } else { (CmpOp::Lt, CmpOp::Ge) };
        let buckets = linear_buckets(min, max, step) as i64;
        cx.b.branch(less, Width::W64, n, min, below, not_below, Likely::Otherwise);
        cx.b.switch_to(not_below);
        cx.b.branch(at_least, Width::W64, n, max, above, inside, Likely::Otherwise);
        cx.b.switch_to(inside);
        let distance = cx.b.bin(BinOp::Sub, Width::W64, n, min);
        let steps = cx.b.bin(BinOp::Div, Width::W64, distance, step);
        let number = cx.b.bin(BinOp::Add, Width::W64, steps, 1);
        cx.b.assign(index, number);
        cx.b.jump(done);
        for (block, number) in [(below, 0), (above, buckets - 1)] {
            cx.b.switch_to(block);
            cx.b.assign(index, number);
            cx.b.jump(done);
        }
        cx.b.switch_to(done);
        slot.bump(cx, index, buckets as u32);
    }

    fn size_bytes(&self, params: &[i64]) -> u32 {
        let [min, max, step] = super::three(params);
        linear_buckets(min, max, step) as u32 * 8
    }
}

impl Merge for Lhist {
    fn yields(&self, statistic: Statistic) -> bool {
        matches!(statistic, Statistic::Count | Statistic::Max | Statistic::Percentile(_))
    }

    fn merge(&self, params: &[i64], _signed: bool, per_cpu: &[&[u8]]) -> Value {
        let [min, max, step] = super::three(params);
        Value::Histogram(linear_histogram(&super::sum_all(per_cpu), min, max, step))
    }

    fn json_type(&self) -> &'static str {
        "hist"
    }
}

/// The limit of bpftrace; it keeps the buckets of a key small.
const MAX_STEPS: i64 = 1000;
