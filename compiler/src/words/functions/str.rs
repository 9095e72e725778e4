//! `str(pointer[, size])`: the string behind a pointer, at most `size` bytes with its NUL.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Str = &Str;

/// `str`.
#[derive(Debug)]
pub struct Str;

impl Function for Str {
    fn name(&self) -> &'static str {
        "str"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "str(pointer[, size])",
            summary: "the string behind a pointer, at most `size` bytes with its NUL",
            page: include_str!("../../../../spec/words/functions/str.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("str", args.len(), 1..=2, span) {
            return check::Body::poison(span);
        }
        if let Some(text) = cx.positional_text(&args[0]) {
            return check::Body::str_literal(text.as_bytes(), span);
        }
        let pointer = cx.expr(&args[0]);
        if let Type::Str { .. } = pointer.ty {
            return pointer;
        }
        let default = i64::from(cx.env.max_strlen);
        let size = args.get(1).map_or(Some(default), |e| cx.constant_int(e));
        let Some(size @ 1..=MAX_BYTES) = size else {
            let message = format!("`str` takes a constant size from 1 to {MAX_BYTES}");
            return cx.fail(Diagnostic::error(Code(338), span, message));
        };
        let Some(pointer) = cx.address("str", pointer) else { return check::Body::poison(span) };
        let ty = Type::Str { capacity_bytes: size as u32 };
        cx.call_of(self, vec![pointer], Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let (Some(pointer), Type::Str { capacity_bytes }) = (call.args.first(), ty) else { return Value::None };
        let space = lower::space_of(pointer);
        let from = cx.scalar_reg(pointer);
        cx.read_string(from, *capacity_bytes, space)
    }
}

/// A string is assembled in scratch memory; this bounds it.
const MAX_BYTES: i64 = 16 << 10;
