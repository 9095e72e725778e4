//! `is_literal(value)`: whether a value is a literal in the script.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `is_literal`.
#[derive(Debug)]
pub(super) struct IsLiteral;

impl Function for IsLiteral {
    word!("is_literal", "functions/is_literal");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_literal", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
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
