//! `strcontains(text, part)`: whether a string contains another.

use super::strstr::{position, search_args};
use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::{CmpOp, Width};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `strcontains`.
#[derive(Debug)]
pub(super) struct Strcontains;

impl Function for Strcontains {
    word!("strcontains", "functions/strcontains");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strcontains", args.len(), 2..=2, span) {
            return typed::Expr::poison(span);
        }
        let Some(both) = search_args(cx, "strcontains", args) else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), both, Vec::new(), Type::Bool, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(position) = position(cx, call, true) else { return Value::None };
        Value::Scalar(cx.b.set(CmpOp::SGe, Width::W64, position, 0).into())
    }
}
