//! Visitors of the syntax tree.
//!
//! In: statements or expressions. Out: calls for their children, or for everything inside them.
//! Guarantee: the children of each kind of node are listed in one exhaustive `match`, so a new kind
//! of node is a compile error here (and in `statement.rs`), not a subtree that a walker forgets.

use super::{Expr, ExprKind, Stmt, TypeName};

/// A direct child of a node.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// An expression.
    Expr(&'a Expr),
    /// Statements.
    Stmts(&'a [Stmt]),
}

/// A direct child of a node, to be changed.
#[derive(Debug)]
pub enum PartMut<'a> {
    /// An expression.
    Expr(&'a mut Expr),
    /// Statements.
    Stmts(&'a mut Vec<Stmt>),
}

/// A statement or an expression.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    /// A statement.
    Stmt(&'a Stmt),
    /// An expression.
    Expr(&'a Expr),
}

/// Calls `visit` on every statement and expression in `stmts`, outer ones first.
pub fn walk<'a>(stmts: &'a [Stmt], visit: &mut dyn FnMut(Node<'a>)) {
    for stmt in stmts {
        visit(Node::Stmt(stmt));
        stmt.kind.for_each_part(&mut |part| walk_part(part, visit));
    }
}

/// Calls `visit` on every expression in `stmts`, outer ones first.
pub fn walk_stmts<'a>(stmts: &'a [Stmt], visit: &mut dyn FnMut(&'a Expr)) {
    walk(stmts, &mut |node| {
        if let Node::Expr(expr) = node {
            visit(expr);
        }
    });
}

/// Calls `visit` on an expression and all its subexpressions, outer ones first.
pub fn walk_expr<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    walk_part(Part::Expr(expr), &mut |node| {
        if let Node::Expr(expr) = node {
            visit(expr);
        }
    });
}

fn walk_part<'a>(part: Part<'a>, visit: &mut dyn FnMut(Node<'a>)) {
    match part {
        Part::Stmts(stmts) => walk(stmts, visit),
        Part::Expr(expr) => {
            visit(Node::Expr(expr));
            expr.kind.for_each_part(&mut |part| walk_part(part, visit));
        }
    }
}

/// The children, of a shared or a mutable expression.
macro_rules! for_each_part {
    ($kind:expr, $visit:ident, $part:ident, $parts_of_type:ident) => {
        match $kind {
            ExprKind::Map { keys: list, .. } | ExprKind::Tuple(list) | ExprKind::Call { args: list, .. } => {
                for expr in list {
                    $visit($part::Expr(expr));
                }
            }
            ExprKind::Unary(_, inner)
            | ExprKind::Field(inner, _)
            | ExprKind::TupleField(inner, _)
            | ExprKind::SizeofExpr(inner)
            | ExprKind::Step { target: inner, .. } => $visit($part::Expr(inner)),
            ExprKind::Cast(ty, inner) => {
                $parts_of_type(ty, $visit);
                $visit($part::Expr(inner));
            }
            ExprKind::SizeofType(ty) | ExprKind::Offsetof(ty, _) | ExprKind::Type(ty) => $parts_of_type(ty, $visit),
            ExprKind::Record(parts) => {
                for (_, value) in parts {
                    $visit($part::Expr(value));
                }
            }
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => {
                $visit($part::Expr(a));
                $visit($part::Expr(b));
            }
            ExprKind::Ternary { cond, then, otherwise } => {
                $visit($part::Expr(cond));
                if let Some(then) = then {
                    $visit($part::Expr(then));
                }
                $visit($part::Expr(otherwise));
            }
            ExprKind::Block(body, value) => {
                $visit($part::Stmts(body));
                $visit($part::Expr(value));
            }
            ExprKind::Int(_)
            | ExprKind::Duration(_)
            | ExprKind::Decimal { .. }
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::Name(_)
            | ExprKind::Var(_)
            | ExprKind::Positional(_)
            | ExprKind::PositionalCount => {}
        }
    };
}

impl ExprKind {
    /// Visits its direct children in source order.
    pub fn for_each_part<'a>(&'a self, visit: &mut dyn FnMut(Part<'a>)) {
        for_each_part!(self, visit, Part, parts_of_type);
    }

    /// The same, to change them.
    pub fn for_each_part_mut<'a>(&'a mut self, visit: &mut dyn FnMut(PartMut<'a>)) {
        for_each_part!(self, visit, PartMut, parts_of_type_mut);
    }
}

/// Visits the expression of `typeof(e)`.
pub(super) fn parts_of_type<'a>(ty: &'a TypeName, visit: &mut dyn FnMut(Part<'a>)) {
    if let Some(of) = &ty.of {
        visit(Part::Expr(of));
    }
    if let Some(inner) = &ty.inner {
        parts_of_type(inner, visit);
    }
}

/// The same, to change it.
pub(super) fn parts_of_type_mut<'a>(ty: &'a mut TypeName, visit: &mut dyn FnMut(PartMut<'a>)) {
    if let Some(of) = &mut ty.of {
        visit(PartMut::Expr(of));
    }
    if let Some(inner) = &mut ty.inner {
        parts_of_type_mut(inner, visit);
    }
}
