//! `str(pointer[, size])`: the string behind a pointer, at most `size` bytes with its NUL.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};
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
        let text = match positional(cx, &args[0]) {
            Some(text) => check::Body::str_literal(&text, span),
            None => cx.expr(&args[0]),
        };
        let own = match text.ty {
            Type::Str { capacity_bytes } => Some(i64::from(capacity_bytes)),
            _ => None,
        };
        let Some(size) = args.get(1) else {
            if own.is_some() {
                return text;
            }
            let ty = Type::Str { capacity_bytes: cx.env.max_strlen };
            let Some(pointer) = cx.address("str", text) else { return check::Body::poison(span) };
            return cx.call_of(self, vec![pointer], Vec::new(), ty, span);
        };
        let Some(size) = cx.int_arg("str", size) else { return check::Body::poison(span) };
        let room = match size.kind {
            ExprKind::Int(n @ 1..=MAX_BYTES) => n,
            ExprKind::Int(_) if size.ty != Type::Unknown => {
                let message = format!("`str` takes a size from 1 to {MAX_BYTES}");
                return cx.fail(Diagnostic::error(Code(338), size.span, message));
            }
            _ => i64::from(cx.env.max_strlen),
        };
        let ty = Type::Str { capacity_bytes: own.map_or(room, |own| own.min(room)) as u32 };
        let source = if own.is_some() { Some(text) } else { cx.address("str", text) };
        let Some(source) = source else { return check::Body::poison(span) };
        let size = check::Body::convert(size, &Type::U64);
        cx.call_of(self, vec![source, size], Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let (Some(source), Type::Str { capacity_bytes }) = (call.args.first(), ty) else { return Value::None };
        let (from, space) = if source.ty.is_scalar() {
            (cx.scalar_reg(source), lower::space_of(source))
        } else {
            let value = cx.expr(source);
            let at = cx.in_memory(value, &source.ty);
            (cx.address(at), Space::Kernel)
        };
        match call.args.get(1) {
            None => cx.read_string(from, *capacity_bytes, space),
            Some(size) => {
                let size = cx.scalar(size);
                cx.read_string_of(from, size, *capacity_bytes, space)
            }
        }
    }
}

/// A string is assembled in scratch memory; this bounds it.
const MAX_BYTES: i64 = 16 << 10;

/// The text of `$1`, or what of it is left behind the first characters: `$1 + 2`.
fn positional(cx: &mut check::Body<'_, '_>, e: &ast::Expr) -> Option<Vec<u8>> {
    let ast::ExprKind::Binary(ast::BinaryOp::Add, text, skipped) = &e.kind else {
        return cx.positional_text(e).map(String::into_bytes);
    };
    let text = cx.positional_text(text)?;
    let skipped = usize::try_from(cx.constant_int(skipped)?).ok()?;
    Some(text.as_bytes().get(skipped..).unwrap_or_default().to_vec())
}
