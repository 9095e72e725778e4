//! The processes for which a filter can be true.
//!
//! In: a checked filter. Out: a [`Scope`].
//! Guarantee: for a process outside the scope the filter is false, and evaluating it has no effect.

use crate::ast::BinaryOp;
use crate::catalogue::Catalogue;
use crate::params::{Param, Type as ParamType};
use crate::scope::Scope;
use crate::typed::{Expr, ExprKind, Stmt, StmtKind};
use crate::types::Type;

/// The processes for which a filter can be true.
pub(super) fn of((catalogue, params): (&Catalogue, &[Param]), filter: &Expr) -> Scope {
    match &filter.kind {
        ExprKind::Binary(BinaryOp::LogicalAnd, a, b) => {
            let first = of((catalogue, params), a);
            // The right operand is evaluated only if the left one is true, and evaluating the
            // left one must have no effect.
            if has_effect(a) { first } else { first.and(of((catalogue, params), b)) }
        }
        ExprKind::Binary(BinaryOp::LogicalOr, a, b) => of((catalogue, params), a).or(of((catalogue, params), b)),
        ExprKind::Binary(BinaryOp::Equal, a, b) => match (number(a), number(b)) {
            (None, Some(pid)) if is_process(catalogue, a) => Scope::of(&[pid]),
            (Some(pid), None) if is_process(catalogue, b) => Scope::of(&[pid]),
            _ => Scope::All,
        },
        ExprKind::Matches(value, index) if is_process(catalogue, value) => match params.get(*index) {
            Some(param) if param.ty == ParamType::Pid => Scope::Param(*index),
            _ => Scope::All,
        },
        ExprKind::Convert(inner) if filter.ty == Type::Bool => of((catalogue, params), inner),
        _ => Scope::All,
    }
}

/// The processes for which statements have an effect: those of the condition, if the only
/// statement is an `if`.
pub(super) fn of_stmts((catalogue, params): (&Catalogue, &[Param]), stmts: &[Stmt]) -> Scope {
    match stmts {
        [Stmt { kind: StmtKind::If(condition, _, otherwise), .. }] if otherwise.is_empty() => {
            of((catalogue, params), condition)
        }
        _ => Scope::All,
    }
}

/// Whether evaluating an expression may have side effects.
fn has_effect(e: &Expr) -> bool {
    e.any(&|kind| {
        matches!(
            kind,
            ExprKind::StepVar { .. }
                | ExprKind::StepMap { .. }
                | ExprKind::StepField { .. }
                | ExprKind::Exchange(..)
                | ExprKind::Call(_)
                | ExprKind::Block(..)
        )
    })
}

/// Whether an expression is the pid of the current process, as the profiler's user sees it.
fn is_process(catalogue: &Catalogue, e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Builtin(word, constants) => catalogue.builtin_of(word).is_process_number() && constants.is_empty(),
        // All pids fit in 31 bits.
        ExprKind::Convert(inner) => {
            e.ty.as_int().is_some_and(|int| int.size_bytes >= 4) && is_process(catalogue, inner)
        }
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
