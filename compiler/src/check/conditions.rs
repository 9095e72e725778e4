//! Type-checks conditions.
//!
//! In: the condition of a filter, `if`, `while` or `?:`. Out: a typed expression.
//! Guarantee: its value is an integer, a pointer or a boolean.

use crate::ast::{Expr, ExprKind, Ident, UnaryOp};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

impl Body<'_, '_> {
    /// Checks an expression used as a condition: an integer, a pointer or a boolean.
    pub fn condition(&mut self, e: &Expr) -> typed::Expr {
        if let ExprKind::Record(parts) = &e.kind {
            return comparison_like_a_record(self, parts, e.span);
        }
        let checked = self.expr(e);
        if checked.ty.is_scalar() || checked.ty == Type::Unknown {
            return checked;
        }
        let message = format!("a condition must be a number or a boolean, this is {}", self.one(&checked.ty));
        self.fail(Diagnostic::error(Code(305), e.span, message))
    }
}

/// `(a = 1)` and `(a =~ "x")` parse as records; other languages have comparisons here.
fn comparison_like_a_record(cx: &mut Body<'_, '_>, parts: &[(Ident, Expr)], span: Span) -> typed::Expr {
    let is_match = |value: &Expr| match &value.kind {
        ExprKind::Unary(UnaryOp::BitNot, text) => matches!(text.kind, ExprKind::Str(_)),
        _ => false,
    };
    let (message, help) = if parts.iter().any(|(_, value)| is_match(value)) {
        let help = "there are no regular expressions; compare with `==` or use strcontains(text, part)";
        ("there is no operator `=~`", help)
    } else {
        ("this condition compares nothing: `=` names a part of a record", "to compare, write `==`")
    };
    cx.fail(Diagnostic::error(Code(249), span, message).help(help))
}
