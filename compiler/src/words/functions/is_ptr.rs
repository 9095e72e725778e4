//! `is_ptr(value)`: whether a value is a pointer.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `is_ptr`.
#[derive(Debug)]
pub(super) struct IsPtr;

impl Function for IsPtr {
    word!("is_ptr", "functions/is_ptr");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_ptr", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let is = matches!(cx.expr(&args[0]).ty, Type::Pointer { .. });
        typed::Expr { kind: ExprKind::Int(i64::from(is)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
