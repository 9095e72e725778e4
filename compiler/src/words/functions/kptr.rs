//! `kptr(pointer)`: the same address, as one in kernel memory.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::{Space, Type};

/// `kptr`.
#[derive(Debug)]
pub(super) struct Kptr;

impl Function for Kptr {
    word!("kptr", "functions/kptr");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        in_space(cx, self.name(), args, Space::Kernel, span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}

/// Converts an address to one in `space`; `what` is the function's name, for messages.
pub(super) fn in_space(
    cx: &mut check::Body<'_, '_>,
    what: &str,
    args: &[ast::Expr],
    space: Space,
    span: Span,
) -> typed::Expr {
    if !cx.arity(what, args.len(), 1..=1, span) {
        return typed::Expr::poison(span);
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
    typed::Expr::convert(pointer, &Type::Pointer { to, space })
}
