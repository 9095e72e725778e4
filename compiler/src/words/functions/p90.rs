//! `p90(@x[key])`: the value that 90 % of an entry's values do not exceed.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::statistics::{Percentile, Statistic};
use crate::typed;
use crate::types::Type;

/// `p90`.
#[derive(Debug)]
pub(super) struct P90;

impl Function for P90 {
    word!("p90", "functions/p90");

    fn statistic(&self, args: &[ast::Expr]) -> Option<Statistic> {
        if args.len() == 1 { Percentile::whole(90).map(Statistic::Percentile) } else { None }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("p90", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        cx.fail(check::only_printed("p90", span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
