//! `is_str(value)`: whether a value is a string.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &IsStr = &IsStr;

/// `is_str`.
#[derive(Debug)]
pub struct IsStr;

impl Function for IsStr {
    fn name(&self) -> &'static str {
        "is_str"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "is_str(value)",
            summary: "whether a value is a string",
            page: include_str!("../../../../spec/words/functions/is_str.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_str", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let is = matches!(cx.expr(&args[0]).ty, Type::Str { .. });
        typed::Expr { kind: ExprKind::Int(i64::from(is)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
