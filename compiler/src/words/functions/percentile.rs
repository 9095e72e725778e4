//! `percentile(@x[key], p)`: the value that `p` percent of an entry's values do not exceed.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::statistics::{Percentile as Share, Statistic};
use crate::typed;
use crate::types::Type;

/// `percentile`.
#[derive(Debug)]
pub(super) struct Percentile;

impl Function for Percentile {
    word!("percentile", "functions/percentile");

    fn statistic(&self, args: &[ast::Expr]) -> Option<Statistic> {
        let [_, share] = args else { return None };
        let share = match &share.kind {
            ast::ExprKind::Int(whole) => Share::whole(u32::try_from(*whole).ok()?),
            ast::ExprKind::Decimal { thousandths, .. } => Share::thousandths(u32::try_from(*thousandths).ok()?),
            _ => None,
        };
        share.map(Statistic::Percentile)
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("percentile", args.len(), 2..=2, span) {
            return typed::Expr::poison(span);
        }
        if self.statistic(args).is_none() {
            let message = "`percentile` takes a map and a constant from 0 to 100";
            return cx
                .fail(Diagnostic::error(Code(397), args[1].span, message).help("for example `percentile(@x, 99.9)`"));
        }
        cx.fail(check::only_printed("percentile", span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
