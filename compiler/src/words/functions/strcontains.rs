//! `strcontains(text, part)`: whether a string is part of another.

use super::strstr::{position, search_args};
use crate::ast;
use crate::check;
use crate::ir::{CmpOp, Width};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Strcontains = &Strcontains;

/// `strcontains`.
#[derive(Debug)]
pub struct Strcontains;

impl Function for Strcontains {
    fn name(&self) -> &'static str {
        "strcontains"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "strcontains(text, part)",
            summary: "whether a string is part of another",
            page: include_str!("../../../../spec/words/functions/strcontains.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strcontains", args.len(), 2..=2, span) {
            return check::Body::poison(span);
        }
        let Some(both) = search_args(cx, "strcontains", args) else { return check::Body::poison(span) };
        cx.call_of(self, both, Vec::new(), Type::Bool, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(position) = position(cx, call, true) else { return Value::None };
        Value::Scalar(cx.b.set(CmpOp::SGe, Width::W64, position, 0).into())
    }
}
