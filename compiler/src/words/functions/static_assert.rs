//! `static_assert(condition, message)`: rejects the script if a condition does not hold.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `static_assert`.
#[derive(Debug)]
pub(super) struct StaticAssert;

impl Function for StaticAssert {
    word!("static_assert", "functions/static_assert");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("static_assert", args.len(), 2..=2, span) {
            return typed::Expr::poison(span);
        }
        let condition = cx.condition(&args[0]);
        let Some(message) = cx.constant_str(&args[1]) else {
            return cx.fail(Diagnostic::error(Code(339), args[1].span, "the message must be a string constant"));
        };
        match (condition.constant(), condition.ty) {
            (_, Type::Unknown) => return typed::Expr::poison(span),
            (None, _) => {
                let message = "this is known only when the script runs";
                return cx.fail(
                    Diagnostic::error(Code(386), args[0].span, message)
                        .help("`assert(…)` checks while the script runs"),
                );
            }
            (Some(0), _) => {
                let text = String::from_utf8_lossy(&message).into_owned();
                return cx.fail(Diagnostic::error(Code(383), span, text).label("this is false"));
            }
            (Some(_), _) => {}
        }
        typed::Expr { kind: ExprKind::Int(0), ty: Type::None, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
