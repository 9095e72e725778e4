//! `strcap(text)`: the capacity of a string, including NUL.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `strcap`.
#[derive(Debug)]
pub(super) struct Strcap;

impl Function for Strcap {
    word!("strcap", "functions/strcap");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strcap", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let text = cx.expr(&args[0]);
        let capacity = match &text.ty {
            Type::Unknown => return text,
            Type::Str { capacity_bytes } => *capacity_bytes,
            Type::Array { len, of } if of.as_int().is_some_and(|int| int.size_bytes == 1) => *len,
            other => {
                let message = format!("`strcap` takes a string, this is {}", cx.one(other));
                return cx.fail(Diagnostic::error(Code(385), args[0].span, message));
            }
        };
        typed::Expr { kind: ExprKind::Int(i64::from(capacity)), ty: Type::I64, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
