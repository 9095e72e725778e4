//! What a block uses, found by looking at its syntax alone.
//!
//! In: a probe block. Out: [`Facts`], by which attach points choose between sharing a program and having one each.
//! Guarantee: says "uses" whenever the checked body might.

use std::collections::BTreeSet;

use crate::ast::{Expr, ExprKind, ProbeBlock, Stmt, StmtKind, TypeName};

/// What a block uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bare names and called names (`pid`, `kstack`, `args`).
    pub names: BTreeSet<String>,
    /// Fields taken of `args`.
    pub arg_fields: BTreeSet<String>,
    /// How often `args` occurs, less how often a field of it is taken: above 0 where it is used as a whole.
    whole_args: i32,
}

impl Facts {
    /// The facts of a block.
    pub fn of(block: &ProbeBlock) -> Facts {
        let mut facts = Facts::default();
        facts.add(block);
        facts
    }

    /// Adds what a block uses.
    pub fn add(&mut self, block: &ProbeBlock) {
        let mut visit = |e: &Expr| self.note(e);
        if let Some(predicate) = &block.predicate {
            walk_expr(predicate, &mut visit);
        }
        walk_stmts(&block.body, &mut visit);
    }

    /// Adds what an expression uses.
    pub fn add_expr(&mut self, expr: &Expr) {
        walk_expr(expr, &mut |e| self.note(e));
    }

    /// Whether a bare or called name occurs.
    pub fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether this field of `args` is taken, alone or with all others.
    pub fn takes_arg(&self, field: &str) -> bool {
        self.takes_all_args() || self.arg_fields.contains(field)
    }

    /// Whether `args` is used as a whole.
    pub fn takes_all_args(&self) -> bool {
        self.whole_args > 0
    }

    fn note(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) => {
                self.whole_args += i32::from(name == "args");
                self.names.insert(name.clone());
            }
            ExprKind::Call { name, .. } => {
                self.names.insert(name.text.clone());
            }
            ExprKind::Field(base, field) if matches!(&base.kind, ExprKind::Name(n) if n == "args") => {
                self.arg_fields.insert(field.text.clone());
                self.whole_args -= 1;
            }
            _ => {}
        }
    }
}

/// A statement or an expression.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    /// A statement.
    Stmt(&'a Stmt),
    /// An expression.
    Expr(&'a Expr),
}

/// Calls `visit` on every expression in `stmts`, outer ones first.
pub fn walk_stmts(stmts: &[Stmt], visit: &mut dyn FnMut(&Expr)) {
    walk(stmts, &mut |node| {
        if let Node::Expr(e) = node {
            visit(e);
        }
    });
}

/// Calls `visit` on an expression and all inside it, outer ones first.
pub fn walk_expr(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    walk_within(expr, &mut |node| {
        if let Node::Expr(e) = node {
            visit(e);
        }
    });
}

/// Calls `visit` on every statement and expression in `stmts`, outer ones first.
pub fn walk(stmts: &[Stmt], visit: &mut dyn FnMut(Node<'_>)) {
    for stmt in stmts {
        walk_stmt(stmt, visit);
    }
}

fn walk_stmt(stmt: &Stmt, visit: &mut dyn FnMut(Node<'_>)) {
    visit(Node::Stmt(stmt));
    match &stmt.kind {
        StmtKind::Expr(e) | StmtKind::Return(Some(e)) => walk_within(e, visit),
        StmtKind::Assign { target, value, .. } => {
            walk_within(target, visit);
            walk_within(value, visit);
        }
        StmtKind::Let { ty, value, .. } => {
            if let Some(ty) = ty {
                walk_type(ty, visit);
            }
            if let Some(value) = value {
                walk_within(value, visit);
            }
        }
        StmtKind::If { cond, then, otherwise } => {
            walk_within(cond, visit);
            walk(then, visit);
            walk(otherwise, visit);
        }
        StmtKind::Unroll { count: e, body }
        | StmtKind::While { cond: e, body }
        | StmtKind::ForMap { map: e, body, .. } => {
            walk_within(e, visit);
            walk(body, visit);
        }
        StmtKind::ForRange { start, end, body, .. } => {
            walk_within(start, visit);
            walk_within(end, visit);
            walk(body, visit);
        }
        StmtKind::Block(body) => walk(body, visit),
        StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue => {}
    }
}

/// `typeof(e)` holds an expression.
fn walk_type(ty: &TypeName, visit: &mut dyn FnMut(Node<'_>)) {
    if let Some(e) = &ty.of {
        walk_within(e, visit);
    }
    if let Some(inner) = &ty.inner {
        walk_type(inner, visit);
    }
}

fn walk_within(expr: &Expr, visit: &mut dyn FnMut(Node<'_>)) {
    visit(Node::Expr(expr));
    match &expr.kind {
        ExprKind::Map { keys: list, .. } | ExprKind::Tuple(list) | ExprKind::Call { args: list, .. } => {
            for e in list {
                walk_within(e, visit);
            }
        }
        ExprKind::Unary(_, e)
        | ExprKind::Field(e, _)
        | ExprKind::TupleField(e, _)
        | ExprKind::SizeofExpr(e)
        | ExprKind::Step { target: e, .. } => walk_within(e, visit),
        ExprKind::Cast(ty, e) => {
            walk_type(ty, visit);
            walk_within(e, visit);
        }
        ExprKind::SizeofType(ty) | ExprKind::Offsetof(ty, _) | ExprKind::Type(ty) => walk_type(ty, visit),
        ExprKind::Record(parts) => parts.iter().for_each(|(_, e)| walk_within(e, visit)),
        ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => {
            walk_within(a, visit);
            walk_within(b, visit);
        }
        ExprKind::Ternary { cond, then, otherwise } => {
            walk_within(cond, visit);
            if let Some(e) = then {
                walk_within(e, visit);
            }
            walk_within(otherwise, visit);
        }
        ExprKind::Block(body, value) => {
            walk(body, visit);
            walk_within(value, visit);
        }
        _ => {}
    }
}
