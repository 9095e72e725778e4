//! `is_unsigned_integer(value)`: whether a value is an integer without sign.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &IsUnsignedInteger = &IsUnsignedInteger;

/// `is_unsigned_integer`.
#[derive(Debug)]
pub struct IsUnsignedInteger;

impl Function for IsUnsignedInteger {
    fn name(&self) -> &'static str {
        "is_unsigned_integer"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "is_unsigned_integer(value)",
            summary: "whether a value is an integer without sign",
            page: include_str!("../../../../spec/words/functions/is_unsigned_integer.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_unsigned_integer", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let is = matches!(cx.expr(&args[0]).ty, Type::Int(int) if !int.signed);
        typed::Expr { kind: ExprKind::Int(i64::from(is)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
