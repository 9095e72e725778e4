//! Type-checks statements.
//!
//! In: statements of the tree. Out: typed ones.
//! Guarantee: a statement with an error is left out, and the others are still checked.

use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::check::{Body, assign, hoist, loops, params};
use crate::diagnostic::{Code, Diagnostic};
use crate::typed;
use crate::types::Type;

impl Body<'_, '_> {
    /// Checks statements in the current scope.
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) -> Vec<typed::Stmt> {
        let mut checked = Vec::with_capacity(stmts.len());
        for (index, stmt) in stmts.iter().enumerate() {
            hoist::variables(self, stmt, &stmts[index + 1..], &mut checked);
            one(self, stmt, &mut checked);
            if let (Some(word), Some(next)) = (loops::leaves(self, &stmt.kind), stmts.get(index + 1)) {
                let message = format!("code after `{word}` is never reached");
                self.error(
                    Diagnostic::warning(Code(911), next.span, message).related(stmt.span, "the block is left here"),
                );
            }
        }
        checked
    }
}

fn reached_if(cx: &mut Body<'_, '_>, reached: bool, stmts: &[Stmt]) -> Vec<typed::Stmt> {
    let outer = cx.unreachable;
    cx.unreachable |= !reached;
    let checked = cx.scoped(stmts);
    cx.unreachable = outer;
    checked
}

fn one(cx: &mut Body<'_, '_>, stmt: &Stmt, out: &mut Vec<typed::Stmt>) {
    let span = stmt.span;
    if params::is_binding(cx, stmt) {
        return;
    }
    let kind = match &stmt.kind {
        StmtKind::Expr(e) => expression_statement(cx, e),
        StmtKind::Assign { target, op, value } => assign::statement(cx, target, *op, value, span),
        StmtKind::Let { name, ty, value } => assign::declaration(cx, name, ty.as_ref(), value.as_ref()),
        StmtKind::If { cond, then, otherwise } => {
            let cond = cx.condition(cond);
            let known = cond.constant();
            let then = reached_if(cx, known != Some(0), then);
            let otherwise = reached_if(cx, matches!(known, None | Some(0)), otherwise);
            Some(typed::StmtKind::If(cond, then, otherwise))
        }
        StmtKind::Unroll { count, body } => loops::unroll(cx, count, body),
        StmtKind::While { cond, body } => loops::while_true(cx, cond, body, span),
        StmtKind::ForRange { name, start, end, body } => loops::for_range(cx, name, (start, end), body, span),
        StmtKind::ForMap { name, map, body } => loops::for_map(cx, name, map, body, span),
        StmtKind::Break => loops::jump(cx, typed::StmtKind::Break, span),
        StmtKind::Continue => loops::jump(cx, typed::StmtKind::Continue, span),
        StmtKind::Block(body) => Some(typed::StmtKind::Block(cx.scoped(body))),
        StmtKind::Return(None) => Some(typed::StmtKind::Return),
        StmtKind::Return(Some(value)) => return_value(cx, value, out),
    };
    out.extend(kind.map(|kind| typed::Stmt { kind, span }));
}

/// Checks the value of `return`. Only that of a test is used; bpftrace scripts write `return 1` to
/// leave a probe.
fn return_value(cx: &mut Body<'_, '_>, value: &Expr, out: &mut Vec<typed::Stmt>) -> Option<typed::StmtKind> {
    let value = cx.expr(value);
    if !value.ty.is_scalar() && value.ty != Type::Unknown {
        let message = format!("a probe returns a number or nothing, this is {}", cx.one(&value.ty));
        cx.error(Diagnostic::error(Code(312), value.span, message).help("write `return;`"));
        return None;
    }
    let span = value.span;
    let is_trial = cx.seed.attach.is_trial();
    let kind = if is_trial { typed::StmtKind::Result(value) } else { typed::StmtKind::Expr(value) };
    out.push(typed::Stmt { kind, span });
    Some(typed::StmtKind::Return)
}

fn expression_statement(cx: &mut Body<'_, '_>, e: &Expr) -> Option<typed::StmtKind> {
    if let ExprKind::Call { name, .. } = &e.kind
        && let Some(word) = cx.env.catalogue.aggregation(&name.text)
    {
        let message = format!("`{}()` must be assigned to a map", name.text);
        cx.error(Diagnostic::error(Code(314), e.span, message).help(format!("write `{};`", word.doc().usage())));
        return None;
    }
    let checked = cx.expr(e);
    let pure = matches!(
        checked.kind,
        typed::ExprKind::Int(_) | typed::ExprKind::Str(_) | typed::ExprKind::Var(_) | typed::ExprKind::Binary(..)
    );
    if pure && !matches!(checked.ty, Type::Unknown | Type::None) {
        cx.error(
            Diagnostic::warning(Code(901), e.span, "this value is not used")
                .help("assign it, or print it with `print(…)`"),
        );
    }
    Some(typed::StmtKind::Expr(checked))
}
