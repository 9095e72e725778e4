//! `p50(@x[key])`: the value that 50 % of an entry's values do not exceed.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::statistics::{Percentile, Statistic};
use crate::typed;
use crate::types::Type;

/// `p50`.
#[derive(Debug)]
pub(super) struct P50;

impl Function for P50 {
    word!("p50", "functions/p50");

    fn statistic(&self, args: &[ast::Expr]) -> Option<Statistic> {
        if args.len() == 1 { Percentile::whole(50).map(Statistic::Percentile) } else { None }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("p50", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        cx.fail(check::only_printed("p50", span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
