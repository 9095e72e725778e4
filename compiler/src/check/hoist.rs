//! Hoists variables that are read after the block that first assigns them.
//!
//! In: a statement with blocks inside, and the statements that follow it. Out: declarations before
//! it.
//! Guarantee: only a variable that would otherwise be unknown is declared, so unrelated blocks may
//! use one name for different types. Scripts written before bpftrace 0.22, which gave blocks a
//! scope, rely on it.

use crate::ast::visit::{Part, walk_expr};
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::check::Body;
use crate::typed;
use crate::types::Type;

/// Declares the variables, as zero, that `stmt` assigns inside its blocks and that `rest`
/// reads.
pub(super) fn variables(cx: &mut Body<'_, '_>, stmt: &Stmt, rest: &[Stmt], out: &mut Vec<typed::Stmt>) {
    let mut assigned = Assigned::default();
    assigned.blocks_of(stmt);
    for name in assigned.names {
        let is_own = assigned.own.contains(&name);
        if !is_own && cx.vars.find(name).is_none() && first_use(rest, name) == Some(Use::Read) {
            let var = cx.vars.declare(name, Type::Unknown);
            out.push(typed::Stmt { kind: typed::StmtKind::Clear(var), span: stmt.span });
        }
    }
}

/// Variables that blocks assign or declare, in source order.
#[derive(Debug, Default)]
struct Assigned<'a> {
    /// Variables that are assigned; each once.
    names: Vec<&'a str>,
    /// Variables declared by `let`: their scope ends with the block.
    own: Vec<&'a str>,
}

impl<'a> Assigned<'a> {
    fn stmts(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Assign { target: Expr { kind: ExprKind::Var(name), .. }, op: None, .. }
                    if !self.names.contains(&name.as_str()) =>
                {
                    self.names.push(name);
                }
                StmtKind::Let { name, .. } => self.own.push(&name.text),
                _ => {}
            }
            self.blocks_of(stmt);
        }
    }

    /// Skips the body of a `for`: bpftrace introduced scopes soon after `for`, so its variables
    /// were never shared.
    fn blocks_of(&mut self, stmt: &'a Stmt) {
        if !matches!(stmt.kind, StmtKind::ForRange { .. } | StmtKind::ForMap { .. }) {
            stmt.kind.for_each_part(&mut |part| {
                if let Part::Stmts(block) = part {
                    self.stmts(block);
                }
            });
        }
    }
}

/// The first use of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Assignment,
}

/// How statements first use a variable that is not known before them; `None` if none surely
/// mentions it.
fn first_use(stmts: &[Stmt], name: &str) -> Option<Use> {
    stmts.iter().find_map(|stmt| first_use_of(stmt, name))
}

fn first_use_of(stmt: &Stmt, name: &str) -> Option<Use> {
    let read = |found: bool| found.then_some(Use::Read);
    match &stmt.kind {
        StmtKind::Assign { target, op, value } => {
            let is_target = matches!(&target.kind, ExprKind::Var(assigned) if assigned == name);
            let first = read(mentions(value, name) || (mentions(target, name) && (op.is_some() || !is_target)));
            first.or(is_target.then_some(Use::Assignment))
        }
        StmtKind::Let { name: declared, value, .. } => {
            let first = read(value.as_ref().is_some_and(|value| mentions(value, name)));
            first.or((declared.text == name).then_some(Use::Assignment))
        }
        kind => {
            let hides = kind.variable().is_some_and(|variable| variable.text == name);
            let mut found = false;
            kind.for_each_part(&mut |part| {
                found |= match part {
                    Part::Expr(e) => mentions(e, name),
                    Part::Stmts(block) => !hides && first_use(block, name) == Some(Use::Read),
                }
            });
            read(found)
        }
    }
}

fn mentions(expr: &Expr, name: &str) -> bool {
    let mut found = false;
    walk_expr(expr, &mut |e| found |= matches!(&e.kind, ExprKind::Var(mentioned) if mentioned == name));
    found
}
