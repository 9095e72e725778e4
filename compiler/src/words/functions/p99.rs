//! `p99(@x[key])`: the value that 99 % of an entry's values do not exceed.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::statistics::{Percentile, Statistic};
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &P99 = &P99;

/// `p99`.
#[derive(Debug)]
pub struct P99;

impl Function for P99 {
    fn name(&self) -> &'static str {
        "p99"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "p99(@x[key])",
            summary: "the value that 99 % of an entry's values do not exceed",
            page: include_str!("../../../../spec/words/functions/p99.md"),
        }
    }

    fn statistic(&self, args: &[ast::Expr]) -> Option<Statistic> {
        if args.len() == 1 { Percentile::whole(99).map(Statistic::Percentile) } else { None }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("p99", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        cx.fail(check::only_printed("p99", span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
