//! `static_assert(condition, message)`: refuses the script when a condition does not hold.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &StaticAssert = &StaticAssert;

/// `static_assert`.
#[derive(Debug)]
pub struct StaticAssert;

impl Function for StaticAssert {
    fn name(&self) -> &'static str {
        "static_assert"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "static_assert(condition, message)",
            summary: "refuses the script when a condition does not hold",
            page: include_str!("../../../../spec/words/functions/static_assert.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("static_assert", args.len(), 2..=2, span) {
            return check::Body::poison(span);
        }
        let condition = cx.condition(&args[0]);
        let Some(message) = cx.constant_str(&args[1]) else {
            return cx.fail(Diagnostic::error(Code(339), args[1].span, "the message must be a string constant"));
        };
        match (check::constant(&condition), condition.ty) {
            (_, Type::Unknown) => return check::Body::poison(span),
            (None, _) => {
                let message = "this is known only when the script runs";
                return cx.fail(
                    Diagnostic::error(Code(386), args[0].span, message)
                        .help("`assert(…)` checks while the script runs"),
                );
            }
            (Some(0), _) => {
                let text = String::from_utf8_lossy(&message).into_owned();
                return cx.fail(Diagnostic::error(Code(383), span, text).label("this does not hold"));
            }
            (Some(_), _) => {}
        }
        typed::Expr { kind: ExprKind::Int(0), ty: Type::None, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
