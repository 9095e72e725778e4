//! The processes for which code can have an effect.
//!
//! In: checked filters and statements. Out: a [`Scope`], or none if there is no such process.
//! Guarantee: for a process outside the scope a filter is not true, statements do nothing, and
//! evaluating either has no effect.

use crate::ast::{BinaryOp, UnaryOp};
use crate::check::Env;
use crate::params::Type as ParamType;
use crate::scope::Scope;
use crate::typed::{Expr, ExprKind, SpanAction, Stmt, StmtKind};
use crate::types::Type;

/// The processes for which a filter can be true and, if it is true, statements have an effect.
pub(super) fn of(env: &Env<'_>, filter: Option<&Expr>, body: &[Stmt]) -> Scope {
    let scope = match filter {
        Some(filter) => within(env, filter, true, || of_stmts(env, body)),
        None => of_stmts(env, body),
    };
    // A program without an effect is attached everywhere: it may be there to be counted.
    scope.unwrap_or_default()
}

/// The processes for which statements have an effect.
pub(super) fn of_stmts(env: &Env<'_>, stmts: &[Stmt]) -> Option<Scope> {
    let [first, rest @ ..] = stmts else { return None };
    match &first.kind {
        StmtKind::Return => None,
        // What follows `if (…) { return; }` has the opposite condition.
        StmtKind::If(condition, then, otherwise)
            if otherwise.is_empty() && matches!(then.last().map(|stmt| &stmt.kind), Some(StmtKind::Return)) =>
        {
            let returns = within(env, condition, true, || of_stmts(env, then));
            either(returns, within(env, condition, false, || of_stmts(env, rest)))
        }
        kind => either(of_stmt(env, kind), of_stmts(env, rest)),
    }
}

fn of_stmt(env: &Env<'_>, stmt: &StmtKind) -> Option<Scope> {
    match stmt {
        StmtKind::If(condition, then, otherwise) => {
            let then = within(env, condition, true, || of_stmts(env, then));
            either(then, within(env, condition, false, || of_stmts(env, otherwise)))
        }
        StmtKind::Block(body) => of_stmts(env, body),
        StmtKind::AssignVar(_, value) | StmtKind::Expr(value) if !has_effect(env, value) => None,
        StmtKind::Clear(_) => None,
        // Where no start was, there is nothing to end.
        StmtKind::Span(step) if matches!(step.action, SpanAction::Mark(_) | SpanAction::End) => {
            Some(env.spans.list[step.span.0].starts_in(env.catalogue))
        }
        _ => Some(Scope::All),
    }
}

/// The processes for which a condition has this truth and `then` finds an effect of what follows.
fn within(env: &Env<'_>, condition: &Expr, truth: bool, then: impl Fn() -> Option<Scope>) -> Option<Scope> {
    let scope = of_condition(env, condition, truth)?;
    // A condition with an effect has it wherever it is evaluated.
    if has_effect(env, condition) { Some(scope) } else { Some(scope.and(then()?)) }
}

/// The processes for which a condition can have this truth.
fn of_condition(env: &Env<'_>, condition: &Expr, truth: bool) -> Option<Scope> {
    let of = |expr, truth| of_condition(env, expr, truth);
    match &condition.kind {
        ExprKind::Int(number) => ((*number != 0) == truth).then_some(Scope::All),
        ExprKind::Binary(op @ (BinaryOp::LogicalAnd | BinaryOp::LogicalOr), a, b) => {
            // The truth of the first operand with which the second is evaluated.
            let goes_on = *op == BinaryOp::LogicalAnd;
            let both = within(env, a, goes_on, || of(b, truth));
            if truth == goes_on { both } else { either(of(a, truth), both) }
        }
        ExprKind::Binary(op @ (BinaryOp::Equal | BinaryOp::NotEqual), a, b) => {
            let pid = match (number(a), number(b)) {
                (None, Some(pid)) if is_process(env, a) => Some(pid),
                (Some(pid), None) if is_process(env, b) => Some(pid),
                _ => None,
            };
            let is_equal = (*op == BinaryOp::Equal) == truth;
            Some(pid.filter(|_| is_equal).map_or(Scope::All, |pid| Scope::of(&[pid])))
        }
        ExprKind::Matches(value, index) if truth && is_process(env, value) => match env.params.get(*index) {
            Some(param) if param.ty == ParamType::Pid => Some(Scope::Param(*index)),
            _ => Some(Scope::All),
        },
        ExprKind::Ternary(condition, a, b) => {
            either(within(env, condition, true, || of(a, truth)), within(env, condition, false, || of(b, truth)))
        }
        ExprKind::Unary(UnaryOp::Not, inner) => of(inner, !truth),
        // A conversion to an integer can lose the bits that make it true.
        ExprKind::Convert(inner) if is_truth_kept(condition, inner) => of(inner, truth),
        ExprKind::Block(stmts, value) => {
            let value = match (stmts.last().map(|stmt| &stmt.kind), &value.kind) {
                (Some(StmtKind::AssignVar(assigned, value)), ExprKind::Var(var)) if assigned == var => value,
                _ => &**value,
            };
            either(of_stmts(env, stmts), of(value, truth))
        }
        _ => Some(Scope::All),
    }
}

/// Whether a filter compares the process with numbers that are known before the run.
pub(super) fn names_processes(env: &Env<'_>, filter: &Expr) -> bool {
    let has_statements = filter.any(&|_| false);
    !has_statements
        && filter.any(&|kind| match kind {
            ExprKind::Binary(BinaryOp::Equal, a, b) => {
                number(b).is_some() && is_process(env, a) || number(a).is_some() && is_process(env, b)
            }
            ExprKind::Matches(value, _) => is_process(env, value),
            _ => false,
        })
}

fn either(a: Option<Scope>, b: Option<Scope>) -> Option<Scope> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.or(b)),
        (a, b) => a.or(b),
    }
}

/// Whether evaluating an expression may have an effect.
fn has_effect(env: &Env<'_>, e: &Expr) -> bool {
    e.any(&|kind| match kind {
        ExprKind::StepVar { .. }
        | ExprKind::StepMap { .. }
        | ExprKind::StepField { .. }
        | ExprKind::Exchange(..)
        | ExprKind::Block(..) => true,
        ExprKind::Call(call) => !env.catalogue.function_of(&call.word).only_reads(),
        _ => false,
    })
}

fn is_truth_kept(to: &Expr, from: &Expr) -> bool {
    let size_bytes = |e: &Expr| e.ty.as_int().map_or(8, |int| int.size_bytes);
    to.ty == Type::Bool || from.ty == Type::Bool || size_bytes(to) >= size_bytes(from)
}

/// Whether an expression is the pid of the current process, as the profiler's user sees it.
fn is_process(env: &Env<'_>, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Builtin(word, constants) => {
            env.catalogue.builtin_of(word).is_process_number() && constants.is_empty()
        }
        // All pids fit in 31 bits.
        ExprKind::Convert(inner) => e.ty.as_int().is_some_and(|int| int.size_bytes >= 4) && is_process(env, inner),
        _ => false,
    }
}

fn number(e: &Expr) -> Option<u32> {
    match &e.kind {
        ExprKind::Int(number) => u32::try_from(*number).ok(),
        ExprKind::Convert(inner) if e.ty.as_int().is_some_and(|int| int.size_bytes >= 4) => number(inner),
        _ => None,
    }
}
