//! `kptr(pointer)`: the same address, as one in the memory of the kernel.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::{Space, Type};
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Kptr = &Kptr;

/// `kptr`.
#[derive(Debug)]
pub struct Kptr;

impl Function for Kptr {
    fn name(&self) -> &'static str {
        "kptr"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "kptr(pointer)",
            summary: "the same address, as one in the memory of the kernel",
            page: include_str!("../../../../spec/words/functions/kptr.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        in_space(cx, self.name(), args, Space::Kernel, span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}

/// The address as one in `space`; `what` is the word that says so.
pub(super) fn in_space(
    cx: &mut check::Body<'_, '_>,
    what: &str,
    args: &[ast::Expr],
    space: Space,
    span: Span,
) -> typed::Expr {
    if !cx.arity(what, args.len(), 1..=1, span) {
        return check::Body::poison(span);
    }
    let pointer = cx.expr(&args[0]);
    let to = match &pointer.ty {
        Type::Unknown => return pointer,
        Type::Pointer { to, .. } => to.clone(),
        Type::Int(_) => Box::new(Type::None),
        other => {
            let message = format!("`{what}` takes an address, this is {}", cx.one(other));
            return cx.fail(Diagnostic::error(Code(348), args[0].span, message));
        }
    };
    check::Body::convert(pointer, &Type::Pointer { to, space })
}
