//! Arguments that a helper takes only as pointers whose type the kernel's verifier knows.
//!
//! In: an argument as written. Out: a typed expression.
//! Guarantee: lowering can hand it to the helper.

use crate::ast;
use crate::catalogue::TypedPointers;
use crate::check::{Body, argument_of};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};

/// A pointer to one of these structs, or such a struct in the kernel's memory. Reports other
/// arguments, and probes in which the kernel knows no types.
pub(super) fn check(cx: &mut Body<'_, '_>, word: &str, arg: &ast::Expr, structs: &[&str]) -> Option<typed::Expr> {
    let value = cx.expr(arg);
    let value = argument_of(cx, &value).unwrap_or(value);
    if value.ty == Type::Unknown {
        return None;
    }
    if !matches!(cx.seed.attach, Attach::Trampoline { .. } | Attach::Iterator { .. }) {
        let message = format!("`{word}` works in `fentry`, `fexit` and iterators only");
        let help = "in other probes the kernel does not know what a pointer points to";
        cx.error(Diagnostic::error(Code(391), arg.span, message).help(help));
        return None;
    }
    if !is_pointer_to(cx, &value.ty, structs) {
        let wanted = format!("struct {}", structs[0]);
        let message = format!("`{word}` takes a pointer to `{wanted}`, this is {}", cx.one(&value.ty));
        cx.error(Diagnostic::error(Code(390), arg.span, message));
        return None;
    }
    if is_typed(cx, &value) {
        return Some(value);
    }
    let message = format!("the kernel does not know the type of what is given to `{word}`");
    let help = "give an argument of the probe, a variable that is assigned only this, or a field that is reached from an \
        argument: `args.name`, `ctx.file.f_path`; not through a map or a cast, and not in a loop";
    cx.error(Diagnostic::error(Code(390), arg.span, message).help(help));
    None
}

fn is_pointer_to(cx: &Body<'_, '_>, ty: &Type, structs: &[&str]) -> bool {
    let pointee = match ty {
        Type::Pointer { to, space: Space::Kernel } => to,
        other => other,
    };
    let Type::Struct { id, .. } = pointee else { return false };
    let name = cx.env.target.btf().and_then(|btf| btf.name(*id));
    name.is_some_and(|name| structs.contains(&name))
}

fn is_typed(cx: &Body<'_, '_>, value: &typed::Expr) -> bool {
    let words = if cx.is_in_a_loop() { &[] } else { cx.seed.context.typed_words.as_slice() };
    let known = TypedPointers { catalogue: cx.env.catalogue, btf: cx.env.target.btf(), words };
    let pointer = match &value.kind {
        ExprKind::Deref { base, bits: None, .. } if matches!(value.ty, Type::Struct { .. }) => base,
        _ => value,
    };
    known.owner(pointer).is_some()
}
