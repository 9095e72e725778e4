//! `strstr(text, part)`: the position of a string in another, or -1.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::VReg;
use crate::lower::{self, MAX_HAYSTACK_BYTES, MAX_NEEDLE_BYTES, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Strstr = &Strstr;

/// `strstr`.
#[derive(Debug)]
pub struct Strstr;

impl Function for Strstr {
    fn name(&self) -> &'static str {
        "strstr"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "strstr(text, part)",
            summary: "the position of a string in another, or -1",
            page: include_str!("../../../../spec/words/functions/strstr.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strstr", args.len(), 2..=2, span) {
            return check::Body::poison(span);
        }
        let Some(both) = search_args(cx, "strstr", args) else { return check::Body::poison(span) };
        cx.call_of(self, both, Vec::new(), Type::I64, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        position(cx, call, false).map_or(Value::None, |position| Value::Scalar(position.into()))
    }
}

/// The position of the second string in the first, negative when it is not there; `whether` is all that matters when set.
pub(super) fn position(cx: &mut lower::Body<'_, '_>, call: &typed::Call, whether: bool) -> Option<VReg> {
    let [text, part] = call.args.as_slice() else { return None };
    let value = cx.expr(text);
    let at = cx.in_memory(value, &text.ty);
    let part_value = cx.expr(part);
    let room_bytes = cx.layout(&text.ty).size_bytes;
    Some(cx.text_position(at, room_bytes, &part_value, &part.ty, whether))
}

/// The two strings of a search.
pub(super) fn search_args(cx: &mut check::Body<'_, '_>, what: &str, args: &[ast::Expr]) -> Option<Vec<typed::Expr>> {
    let mut checked = Vec::with_capacity(2);
    for arg in args {
        checked.push(cx.text_arg(what, arg)?);
    }
    let room = |e: &typed::Expr| match e.ty {
        Type::Str { capacity_bytes } => capacity_bytes,
        _ => 0,
    };
    let limits = [(MAX_HAYSTACK_BYTES, 0), (MAX_NEEDLE_BYTES, 1)];
    for (e, (most, nul)) in checked.iter().zip(limits) {
        let nul = if matches!(e.kind, ExprKind::Str(_)) { nul } else { 0 };
        if room(e) > most + nul {
            let message =
                format!("`{what}` takes a string of at most {most} bytes here, this has room for {}", room(e));
            let help = format!("read less of it: `str(pointer, {most})`");
            cx.error(Diagnostic::error(Code(387), e.span, message).help(help));
            return None;
        }
    }
    Some(checked)
}
