//! `default_str_length()`: the room of a string that the script does not size.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &DefaultStrLength = &DefaultStrLength;

/// `default_str_length`.
#[derive(Debug)]
pub struct DefaultStrLength;

impl Function for DefaultStrLength {
    fn name(&self) -> &'static str {
        "default_str_length"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "default_str_length()",
            summary: "the room of a string that the script does not size",
            page: include_str!("../../../../spec/words/functions/default_str_length.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("default_str_length", args.len(), 0..=0, span) {
            return check::Body::poison(span);
        }
        typed::Expr { kind: ExprKind::Int(i64::from(cx.env.max_strlen)), ty: Type::U64, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
