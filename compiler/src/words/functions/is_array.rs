//! `is_array(value)`: whether a value is an array.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `is_array`.
#[derive(Debug)]
pub(super) struct IsArray;

impl Function for IsArray {
    word!("is_array", "functions/is_array");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_array", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let is = matches!(cx.expr(&args[0]).ty, Type::Array { .. });
        typed::Expr { kind: ExprKind::Int(i64::from(is)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
