//! `exchange(@x[key].field, value)`: writes a field and returns its old value, in one step.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `exchange`.
#[derive(Debug)]
pub(super) struct Exchange;

impl Function for Exchange {
    word!("exchange", "functions/exchange");

    fn keeps_unit(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let [place, value] = args else {
            cx.arity("exchange", args.len(), 2..=2, span);
            return typed::Expr::poison(span);
        };
        if !matches!(place.kind, ast::ExprKind::Field(..)) {
            let message = "`exchange` writes a field of a record";
            let help = "write `exchange(@x[key].field, value)`, or the field of a state";
            return cx.fail(Diagnostic::error(Code(379), place.span, message).help(help));
        }
        check::exchange(cx, place, value, span).unwrap_or_else(|| typed::Expr::poison(span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        // `check` makes an expression of its own kind of each call.
        Value::None
    }
}
