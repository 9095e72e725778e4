//! `is_literal(value)`: whether a value is written out in the script.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &IsLiteral = &IsLiteral;

/// `is_literal`.
#[derive(Debug)]
pub struct IsLiteral;

impl Function for IsLiteral {
    fn name(&self) -> &'static str {
        "is_literal"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "is_literal(value)",
            summary: "whether a value is written out in the script",
            page: include_str!("../../../../spec/words/functions/is_literal.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_literal", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let is = matches!(
            args[0].kind,
            ast::ExprKind::Int(_) | ast::ExprKind::Duration(_) | ast::ExprKind::Str(_) | ast::ExprKind::Bool(_)
        );
        typed::Expr { kind: ExprKind::Int(i64::from(is)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
