//! Builds tuples and records.
//!
//! In: typed parts. Out: a typed expression.
//! Guarantee: the number of parts is limited.

use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// Maximum number of parts of a tuple, including those of nested tuples. Without a limit, the type
/// of `@x = (@x, @x)` would grow forever.
const MAX_PARTS: usize = 64;

/// Builds a tuple; reports too many parts.
pub(super) fn tuple(cx: &mut Body<'_, '_>, parts: Vec<typed::Expr>, span: Span) -> typed::Expr {
    let ty = Type::Tuple(parts.iter().map(|p| p.ty.clone()).collect());
    side_by_side(cx, parts, ty, span)
}

/// Builds a record: a tuple with named parts.
pub(super) fn record(cx: &mut Body<'_, '_>, names: Vec<String>, parts: Vec<typed::Expr>, span: Span) -> typed::Expr {
    let ty = Type::Record(names.into_iter().zip(parts.iter().map(|p| p.ty.clone())).collect());
    side_by_side(cx, parts, ty, span)
}

fn side_by_side(cx: &mut Body<'_, '_>, parts: Vec<typed::Expr>, ty: Type, span: Span) -> typed::Expr {
    let count: usize = parts.iter().map(|p| part_count(&p.ty)).sum();
    if count > MAX_PARTS {
        let message =
            format!("this tuple has {count} parts, including those of nested tuples; the limit is {MAX_PARTS}");
        return cx.fail(Diagnostic::error(Code(319), span, message).help("keep some of them in maps of their own"));
    }
    typed::Expr { kind: typed::ExprKind::Tuple(parts), ty, span }
}

fn part_count(ty: &Type) -> usize {
    match ty {
        Type::Tuple(_) | Type::Record(_) => {
            ty.parts().unwrap_or_default().into_iter().map(part_count).sum::<usize>().max(1)
        }
        _ => 1,
    }
}
