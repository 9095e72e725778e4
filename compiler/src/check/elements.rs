//! Elements of arrays, strings and tuples, and indexing of pointers.
//!
//! In: `e[i]`. Out: typed expressions over foreign or own memory.
//! Guarantee: a constant index is within bounds; any other is checked at run time, and yields zero
//! when out of bounds.

use crate::ast::Expr;
use crate::check::fields::retarget;
use crate::check::{Body, fields};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::source::Span;
use crate::typed;
use crate::types::{Int, Type};

/// `base[index]`.
pub(super) fn at(cx: &mut Body<'_, '_>, base: &Expr, index: &Expr, span: Span) -> typed::Expr {
    let base = cx.expr(base);
    let Some(index) = cx.int_arg("[ ]", index) else { return typed::Expr::poison(span) };
    let constant = match index.kind {
        typed::ExprKind::Int(n) if index.ty != Type::Unknown => Some(n),
        _ => None,
    };
    let (element, len) = match base.ty.clone() {
        Type::Unknown => return base,
        // An array without a length extends past the end of its struct, for an unknown
        // distance.
        Type::Array { of, len } => (*of, Some(len).filter(|len| *len > 0)),
        Type::Pointer { to, .. } if *to == Type::None => {
            let message = "what lies behind a void * has no size, so it has no elements";
            let help = "cast it first: `((uint64 *)…)[0]`";
            return cx.fail(Diagnostic::error(Code(326), span, message).help(help));
        }
        Type::Pointer { mut to, space } => {
            retarget(&mut to, space);
            (*to, None)
        }
        Type::Str { capacity_bytes } => (Type::Int(Int { size_bytes: 1, signed: true }), Some(capacity_bytes)),
        Type::Tuple(_) => return numbered_part(cx, base, constant, &index, span),
        other => {
            let message = format!("{} has no elements", cx.one(&other));
            return cx.fail(Diagnostic::error(Code(326), span, message));
        }
    };
    if let (Some(n), Some(len)) = (constant, len)
        && !(0..i64::from(len)).contains(&n)
    {
        let message = format!("this array has {len} elements, there is no element {n}");
        return cx.fail(Diagnostic::error(Code(327), index.span, message));
    }
    let stride_bytes = layout::of(&element, cx.env.target.btf_if_needed(&element)).size_bytes;
    let offset = constant.and_then(|n| u32::try_from(n).ok()).and_then(|n| n.checked_mul(stride_bytes));
    let kind = match offset {
        Some(offset) => at_offset(base, offset),
        None => at_index(base, &element, index, stride_bytes, len),
    };
    typed::Expr { kind, ty: element, span }
}

/// `tuple[0]` is `tuple.0`.
fn numbered_part(
    cx: &mut Body<'_, '_>,
    base: typed::Expr,
    constant: Option<i64>,
    index: &typed::Expr,
    span: Span,
) -> typed::Expr {
    if index.ty == Type::Unknown {
        return typed::Expr::poison(span);
    }
    let Some(n) = constant else {
        let message = "the number of a tuple's part must be a constant";
        return cx.fail(Diagnostic::error(Code(328), index.span, message).help("its parts may differ in type"));
    };
    let count = base.ty.parts().map_or(0, |parts| parts.len());
    match usize::try_from(n) {
        Ok(n) if n < count => fields::part(cx, base, n, span),
        _ => {
            let message = format!("this tuple has {count} parts, there is no part {n}");
            cx.fail(Diagnostic::error(Code(325), span, message).help("the first part is `[0]`"))
        }
    }
}

/// The element at a constant byte offset from the start of an array or from a pointer.
fn at_offset(base: typed::Expr, offset: u32) -> typed::ExprKind {
    if matches!(base.ty, Type::Pointer { .. }) {
        return typed::ExprKind::Deref { base: Box::new(base), offset_bytes: offset, bits: None };
    }
    // An array inside foreign memory: the element is at a fixed distance from the same pointer.
    if let Some(fields::Memory { pointer, offset_bytes, .. }) = fields::place(&base) {
        let offset_bytes = offset_bytes.saturating_add(offset);
        return typed::ExprKind::Deref { base: Box::new(pointer), offset_bytes, bits: None };
    }
    match base.kind {
        typed::ExprKind::ContextField(at) => typed::ExprKind::ContextField(at + offset),
        _ => typed::ExprKind::Part { base: Box::new(base), offset_bytes: offset },
    }
}

fn at_index(
    base: typed::Expr,
    element: &Type,
    index: typed::Expr,
    stride_bytes: u32,
    len: Option<u32>,
) -> typed::ExprKind {
    let (span, index) = (base.span, Box::new(index));
    if matches!(base.ty, Type::Pointer { .. }) {
        return typed::ExprKind::Element { base: Box::new(base), index, stride_bytes, len: None };
    }
    if let Some(fields::Memory { space, .. }) = fields::place(&base) {
        let ty = Type::Pointer { to: Box::new(element.clone()), space };
        let address = typed::Expr { kind: typed::ExprKind::AddressOf(Box::new(base)), ty, span };
        return typed::ExprKind::Element { base: Box::new(address), index, stride_bytes, len };
    }
    typed::ExprKind::PartAt { base: Box::new(base), index, stride_bytes, len: len.unwrap_or(0) }
}
