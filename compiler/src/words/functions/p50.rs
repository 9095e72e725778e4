//! `p50(@x[key])`: the value that 50 % of an entry's values do not exceed.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::statistics::{Percentile, Statistic};
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &P50 = &P50;

/// `p50`.
#[derive(Debug)]
pub struct P50;

impl Function for P50 {
    fn name(&self) -> &'static str {
        "p50"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "p50(@x[key])",
            summary: "the value that 50 % of an entry's values do not exceed",
            page: include_str!("../../../../spec/words/functions/p50.md"),
        }
    }

    fn statistic(&self, args: &[ast::Expr]) -> Option<Statistic> {
        if args.len() == 1 { Percentile::whole(50).map(Statistic::Percentile) } else { None }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("p50", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        cx.fail(check::only_printed("p50", span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
