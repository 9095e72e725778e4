//! `fail(format, values...)`: rejects the script with a message.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::value::{self, NoSymbols};

/// `fail`.
#[derive(Debug)]
pub(super) struct Fail;

impl Function for Fail {
    word!("fail", "functions/fail");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some((format, values)) = cx.format_call("fail", args, span) else { return typed::Expr::poison(span) };
        if cx.unreachable {
            return typed::Expr { kind: ExprKind::Int(0), ty: Type::None, span };
        }
        let mut given = Vec::with_capacity(values.len());
        for part in values {
            given.push(match part.kind {
                ExprKind::Int(n) => value::Value::Int(n),
                ExprKind::Str(text) => value::Value::Str(text),
                _ => {
                    let message = "a message of `fail` is made of constants";
                    return cx.fail(Diagnostic::error(Code(386), part.span, message));
                }
            });
        }
        let mut text = Vec::new();
        format.render(|at| given.get(at).cloned().unwrap_or(value::Value::Missing), &NoSymbols, &mut text);
        cx.fail(Diagnostic::error(Code(383), span, String::from_utf8_lossy(&text).trim_end().to_string()))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
