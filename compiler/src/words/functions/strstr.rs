//! `strstr(text, part)`: the position of a string in another, or -1.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::VReg;
use crate::lower::{self, MAX_HAYSTACK_BYTES, MAX_NEEDLE_BYTES, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `strstr`.
#[derive(Debug)]
pub(super) struct Strstr;

impl Function for Strstr {
    word!("strstr", "functions/strstr");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strstr", args.len(), 2..=2, span) {
            return typed::Expr::poison(span);
        }
        let Some(both) = search_args(cx, "strstr", args) else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), both, Vec::new(), Type::I64, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        position(cx, call, false).map_or(Value::None, |position| Value::Scalar(position.into()))
    }
}

/// The position of the second string in the first, negative if it is not found; with `whether`,
/// only found or not matters.
pub(super) fn position(cx: &mut lower::Body<'_, '_>, call: &typed::Call, whether: bool) -> Option<VReg> {
    let [text, part] = call.args.as_slice() else { return None };
    let value = cx.expr(text);
    let at = cx.in_memory(value, &text.ty);
    let part_value = cx.expr(part);
    let haystack = lower::text::Text { at, capacity_bytes: cx.layout(&text.ty).size_bytes };
    Some(lower::text::position(cx, haystack, &part_value, &part.ty, whether))
}

/// The checked arguments of a search: two strings.
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
            let message = format!("`{what}` takes a string of at most {most} bytes here, this can hold {}", room(e));
            let help = format!("read less of it: `str(pointer, {most})`");
            cx.error(Diagnostic::error(Code(387), e.span, message).help(help));
            return None;
        }
    }
    Some(checked)
}
