//! `assert_str(value)`: rejects the script if a value is not a string.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `assert_str`.
#[derive(Debug)]
pub(super) struct AssertStr;

impl Function for AssertStr {
    word!("assert_str", "functions/assert_str");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("assert_str", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let value = cx.expr(&args[0]);
        let byte = |ty: &Type| ty.as_int().is_some_and(|int| int.size_bytes == 1) || *ty == Type::Unknown;
        let is_text = match &value.ty {
            Type::Unknown | Type::Str { .. } => true,
            Type::Array { of, .. } | Type::Pointer { to: of, .. } => byte(of),
            _ => false,
        };
        if !is_text {
            let message = format!("this must be a string, it is {}", cx.one(&value.ty));
            return cx.fail(Diagnostic::error(Code(385), args[0].span, message));
        }
        typed::Expr { kind: ExprKind::Int(0), ty: Type::None, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
