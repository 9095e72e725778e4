//! `is_unsigned_integer(value)`: whether a value is an unsigned integer.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `is_unsigned_integer`.
#[derive(Debug)]
pub(super) struct IsUnsignedInteger;

impl Function for IsUnsignedInteger {
    word!("is_unsigned_integer", "functions/is_unsigned_integer");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_unsigned_integer", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let is = matches!(cx.expr(&args[0]).ty, Type::Int(int) if !int.signed);
        typed::Expr { kind: ExprKind::Int(i64::from(is)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
