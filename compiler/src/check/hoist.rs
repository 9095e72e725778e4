//! Variables that are read behind the block that assigns them first.
//!
//! In: a statement with blocks inside, and the statements that follow it. Out: declarations before it.
//! Guarantee: only a variable that would be unknown otherwise is declared, so that blocks that do not share a variable
//! may use one name for different types. Scripts written before bpftrace 0.22, which gave blocks a scope, rely on it.

use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::check::Body;
use crate::check::facts::walk_expr;
use crate::typed;
use crate::types::Type;

impl Body<'_, '_> {
    /// Declares, as zero, the variables that `stmt` assigns inside its blocks and that `rest` reads.
    pub(super) fn hoist(&mut self, stmt: &Stmt, rest: &[Stmt], out: &mut Vec<typed::Stmt>) {
        let mut assigned = Assigned::default();
        assigned.blocks_of(stmt);
        for name in assigned.names {
            let is_own = assigned.own.contains(&name);
            if !is_own && self.find_var(name).is_none() && first_use(rest, name) == Some(Use::Read) {
                let var = self.declare(name, Type::Unknown);
                out.push(typed::Stmt { kind: typed::StmtKind::Clear(var), span: stmt.span });
            }
        }
    }
}

/// The blocks right inside a statement.
fn blocks(stmt: &Stmt) -> Vec<&[Stmt]> {
    match &stmt.kind {
        StmtKind::If { then, otherwise, .. } => vec![then, otherwise],
        StmtKind::Unroll { body, .. }
        | StmtKind::While { body, .. }
        | StmtKind::ForRange { body, .. }
        | StmtKind::ForMap { body, .. }
        | StmtKind::Block(body) => vec![body],
        _ => Vec::new(),
    }
}

/// The expression that a statement evaluates before its blocks, and the variable that these have of it.
fn head(stmt: &Stmt) -> (Vec<&Expr>, Option<&str>) {
    match &stmt.kind {
        StmtKind::If { cond: e, .. } | StmtKind::Unroll { count: e, .. } | StmtKind::While { cond: e, .. } => {
            (vec![e], None)
        }
        StmtKind::ForMap { name, map, .. } => (vec![map], Some(&name.text)),
        StmtKind::ForRange { name, start, end, .. } => (vec![start, end], Some(&name.text)),
        _ => (Vec::new(), None),
    }
}

/// Variables by how blocks get them, each once, in the order of the script.
#[derive(Debug, Default)]
struct Assigned<'a> {
    /// By an assignment.
    names: Vec<&'a str>,
    /// By `let`: these end with their block.
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

    /// The body of a `for` is left out: it never shared its variables, as bpftrace had scopes soon after it had `for`.
    fn blocks_of(&mut self, stmt: &'a Stmt) {
        if !matches!(stmt.kind, StmtKind::ForRange { .. } | StmtKind::ForMap { .. }) {
            for block in blocks(stmt) {
                self.stmts(block);
            }
        }
    }
}

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Assignment,
}

/// What statements do first with a variable that is not known before them; nothing when none surely mentions it.
fn first_use(stmts: &[Stmt], name: &str) -> Option<Use> {
    stmts.iter().find_map(|stmt| first_use_of(stmt, name))
}

fn first_use_of(stmt: &Stmt, name: &str) -> Option<Use> {
    let read = |found: bool| found.then_some(Use::Read);
    match &stmt.kind {
        StmtKind::Expr(e) | StmtKind::Return(Some(e)) => read(mentions(e, name)),
        StmtKind::Assign { target, op, value } => {
            let is_target = matches!(&target.kind, ExprKind::Var(assigned) if assigned == name);
            let first = read(mentions(value, name) || (mentions(target, name) && (op.is_some() || !is_target)));
            first.or(is_target.then_some(Use::Assignment))
        }
        StmtKind::Let { name: declared, value, .. } => {
            let first = read(value.as_ref().is_some_and(|value| mentions(value, name)));
            first.or((declared.text == name).then_some(Use::Assignment))
        }
        _ => {
            let (heads, own) = head(stmt);
            let in_blocks = || own != Some(name) && blocks(stmt).iter().any(|b| first_use(b, name) == Some(Use::Read));
            read(heads.iter().any(|e| mentions(e, name)) || in_blocks())
        }
    }
}

fn mentions(expr: &Expr, name: &str) -> bool {
    let mut found = false;
    walk_expr(expr, &mut |e| found |= matches!(&e.kind, ExprKind::Var(mentioned) if mentioned == name));
    found
}
