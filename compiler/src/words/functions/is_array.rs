//! `is_array(value)`: whether a value is an array.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &IsArray = &IsArray;

/// `is_array`.
#[derive(Debug)]
pub struct IsArray;

impl Function for IsArray {
    fn name(&self) -> &'static str {
        "is_array"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "is_array(value)",
            summary: "whether a value is an array",
            page: include_str!("../../../../spec/words/functions/is_array.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_array", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let is = matches!(cx.expr(&args[0]).ty, Type::Array { .. });
        typed::Expr { kind: ExprKind::Int(i64::from(is)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
