//! Type-checks loops.
//!
//! In: loop statements of the tree. Out: typed ones.
//! Guarantee: `break` and `continue` are inside a loop; an iterated map has readable keys and
//! values; nesting does not exceed the kernel's limit of call frames.

use crate::ast::visit::Part;
use crate::ast::{Expr, ExprKind, Ident, Stmt, StmtKind};
use crate::check::{Body, spans};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::typed::{self, MapValue};
use crate::types::{Int, Type};

/// Maximum iterations of `unroll`, as in bpftrace. The body is copied.
const MAX_UNROLL: i64 = 100;

/// Maximum number of copies of a block that nested `unroll` make. Where there would be more, the
/// outer one becomes a loop.
const MAX_NESTED_COPIES: i64 = 128;

/// Maximum number of copies in one probe: more would not fit in a BPF program anyway.
const MAX_COPIES: u32 = 10_000;

/// Maximum nesting. The kernel allows eight call frames: one for the program, one for each loop,
/// one for our own loop over CPUs.
const MAX_DEPTH: u32 = 6;

/// The word of a statement after which the rest of its block is unreachable.
pub(super) fn leaves(cx: &Body<'_, '_>, kind: &StmtKind) -> Option<&'static str> {
    match kind {
        StmtKind::Return(_) => Some("return"),
        StmtKind::Expr(Expr { kind: ExprKind::Call { name, .. }, .. }) if name.text == "exit" => Some("exit"),
        StmtKind::Break if cx.loops.all > 0 => Some("break"),
        StmtKind::Continue if cx.loops.all > 0 => Some("continue"),
        _ => None,
    }
}

/// `while (cond) { … }`.
pub(super) fn while_true(cx: &mut Body<'_, '_>, cond: &Expr, body: &[Stmt], span: Span) -> Option<typed::StmtKind> {
    repeated(cx, span, |cx| {
        let cond = cx.condition(cond);
        Some(typed::StmtKind::While(cond, cx.scoped(body)))
    })
}

/// `break` or `continue`; reports one outside of a loop.
pub(super) fn jump(cx: &mut Body<'_, '_>, jump: typed::StmtKind, span: Span) -> Option<typed::StmtKind> {
    if cx.loops.all > 0 {
        return Some(jump);
    }
    cx.error(Diagnostic::error(Code(313), span, "there is no loop to leave or to continue here"));
    None
}

pub(super) fn unroll(cx: &mut Body<'_, '_>, count: &Expr, body: &[Stmt]) -> Option<typed::StmtKind> {
    let Some(times @ 1..=MAX_UNROLL) = cx.constant_int(count) else {
        let message = format!("`unroll` repeats a constant number of times, from 1 to {MAX_UNROLL}");
        cx.error(Diagnostic::error(Code(315), count.span, message));
        return None;
    };
    let inner = copies_in(body);
    if inner > 1 && inner.saturating_mul(times) > MAX_NESTED_COPIES && cx.loops.running < MAX_DEPTH {
        return repeated(cx, count.span, |cx| {
            let (start, end) = (counted(0, count.span), counted(times, count.span));
            // No script can write this name.
            let declare = |cx: &mut Body<'_, '_>| (cx.vars.declare("unroll'", Type::I64), cx.scoped(body));
            let (var, body) = cx.in_scope(declare);
            Some(typed::StmtKind::ForRange { var, start, end, body })
        });
    }
    cx.loops.all += 1;
    let mut copies = Vec::new();
    for _ in 0..times {
        if cx.loops.copies == MAX_COPIES {
            let message = format!("program too large: `unroll` makes more than {MAX_COPIES} copies in this probe");
            cx.error(Diagnostic::error(Code(510), count.span, message).help("repeat less often"));
            break;
        }
        cx.loops.copies += 1;
        copies.push(cx.scoped(body));
    }
    cx.loops.all -= 1;
    Some(typed::StmtKind::Unroll(copies))
}

/// How often nested `unroll` copy a part of this block, at most.
fn copies_in(block: &[Stmt]) -> i64 {
    let mut most = 1;
    for stmt in block {
        let mut inner = 1;
        stmt.kind.for_each_part(&mut |part| {
            if let Part::Stmts(block) = part {
                inner = inner.max(copies_in(block));
            }
        });
        if let StmtKind::Unroll { count: Expr { kind: ExprKind::Int(times), .. }, .. } = &stmt.kind {
            inner = inner.saturating_mul(i64::try_from(*times).unwrap_or(i64::MAX));
        }
        most = most.max(inner);
    }
    most
}

fn counted(number: i64, span: Span) -> typed::Expr {
    typed::Expr { kind: typed::ExprKind::Int(number), ty: Type::I64, span }
}

/// Checks a loop that is not unrolled.
fn repeated(
    cx: &mut Body<'_, '_>,
    span: Span,
    check: impl FnOnce(&mut Body<'_, '_>) -> Option<typed::StmtKind>,
) -> Option<typed::StmtKind> {
    if cx.loops.running == MAX_DEPTH {
        let message = format!("this loop is inside {MAX_DEPTH} others, and the kernel allows no more");
        cx.error(Diagnostic::error(Code(364), span, message).help("nest fewer loops"));
        return None;
    }
    cx.loops.all += 1;
    cx.loops.running += 1;
    let checked = check(cx);
    cx.loops.running -= 1;
    cx.loops.all -= 1;
    checked
}

/// Reports a loop variable whose name is already a variable.
pub(super) fn is_new_variable(cx: &mut Body<'_, '_>, name: &Ident) {
    if cx.vars.find(&name.text).is_some() {
        let message = format!("`${}` is a variable already, so the loop cannot have one of this name", name.text);
        cx.error(Diagnostic::error(Code(363), name.span, message).help("use another name"));
    }
}

/// Checks a loop's body with the loop's variable in scope.
fn with_variable(cx: &mut Body<'_, '_>, name: &Ident, ty: Type, body: &[Stmt]) -> (typed::VarIndex, Vec<typed::Stmt>) {
    is_new_variable(cx, name);
    cx.in_scope(|cx| {
        let var = cx.vars.declare(&name.text, ty);
        (var, cx.scoped(body))
    })
}

pub(super) fn for_range(
    cx: &mut Body<'_, '_>,
    name: &Ident,
    range: (&Expr, &Expr),
    body: &[Stmt],
    span: Span,
) -> Option<typed::StmtKind> {
    let (start, end) = (bound(cx, range.0), bound(cx, range.1));
    repeated(cx, span, |cx| {
        let (var, body) = with_variable(cx, name, Type::I64, body);
        Some(typed::StmtKind::ForRange { var, start, end, body })
    })
}

fn bound(cx: &mut Body<'_, '_>, e: &Expr) -> typed::Expr {
    let checked = cx.expr(e);
    if matches!(checked.ty, Type::Int(_) | Type::Enum { .. } | Type::Unknown) {
        return typed::Expr::convert(checked, &Type::I64);
    }
    let message = format!("a range goes from one integer to another, this is {}", cx.one(&checked.ty));
    cx.fail(Diagnostic::error(Code(362), e.span, message))
}

pub(super) fn for_map(
    cx: &mut Body<'_, '_>,
    name: &Ident,
    map: &Expr,
    body: &[Stmt],
    span: Span,
) -> Option<typed::StmtKind> {
    if let ExprKind::Name(of) = &map.kind {
        let index = spans::walk::find(cx, of, map.span)?;
        return repeated(cx, span, |cx| Some(spans::walk::check(cx, name, index, body)));
    }
    // The parser allows nothing else here.
    let index = cx.whole_map(map)?;
    // Errors in the loop's body are reported as well.
    cx.is_walkable(index, "`for`", map.span);
    let info = cx.env.maps.get(index);
    if info.key == Some(None) {
        let message = format!("`{}` has no keys to iterate over", info.name);
        let (first, help) = (info.key_span, format!("use its value: `{}`", info.name));
        let diagnostic = Diagnostic::error(Code(361), map.span, message).help(help);
        cx.error(diagnostic.related(first, "used without a key here"));
        return None;
    }
    let key = info.key.clone().flatten();
    let value = match info.value.clone() {
        None => None,
        Some(MapValue::Plain(ty)) => Some(ty),
        Some(MapValue::Aggregate { word, signed, .. })
            if cx.env.catalogue.aggregation_of(&word).reading().is_some() =>
        {
            Some(Type::Int(Int { size_bytes: 8, signed }))
        }
        Some(MapValue::Aggregate { word, .. }) => {
            let message = format!("the values of `{word}()` cannot be read inside a probe");
            let help = "print the map with `print(@x)`; count(), sum(), min(), max() and avg() can be read";
            cx.error(Diagnostic::error(Code(392), map.span, message).help(help));
            return None;
        }
    };
    // The variable's type is unknown until other uses of the map determine both key and value.
    let ty = match (key, value) {
        (Some(key), Some(value)) if value != Type::Unknown => Type::Tuple(vec![key, value]),
        _ => Type::Unknown,
    };
    repeated(cx, span, |cx| {
        let (var, body) = with_variable(cx, name, ty, body);
        Some(typed::StmtKind::ForMap { var, map: index, body })
    })
}
