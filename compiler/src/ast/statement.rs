//! Statements of the syntax tree.
//!
//! In: made by `parse`. Out: read by `check` and the printers.
//! Guarantee: what a statement consists of is listed once, next to its declaration; every walker
//! uses this list.

use super::visit::{Part, PartMut, parts_of_type, parts_of_type_mut};
use super::{BinaryOp, Expr, ExprKind, Ident, TypeName};
use crate::source::Span;

/// A statement with its source span.
#[derive(Debug, Clone, PartialEq)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Its source span, without the semicolon.
    pub span: Span,
}

/// The statements.
#[derive(Debug, Clone, PartialEq)]
pub enum StmtKind {
    /// An expression for its effect: `@++`, `printf(…)`, `_ = e`.
    Expr(Expr),
    /// `target = value` or, with `op`, `target op= value`. The target is `$x`, `@x` or `@x[…]`.
    Assign {
        /// A `Var` or `Map` expression.
        target: Expr,
        /// The operator of a compound assignment.
        op: Option<BinaryOp>,
        /// The right side.
        value: Expr,
    },
    /// `let $x`, `let $x : type`, `let $x = value`.
    Let {
        /// The variable.
        name: Ident,
        /// Its declared type.
        ty: Option<TypeName>,
        /// Its first value.
        value: Option<Expr>,
    },
    /// `if cond { … } else { … }`; `else if` is an `otherwise` of one `If`.
    If {
        /// The condition.
        cond: Expr,
        /// Statements run if the condition is true.
        then: Vec<Stmt>,
        /// Statements run if the condition is false.
        otherwise: Vec<Stmt>,
    },
    /// `unroll (n) { … }`.
    Unroll {
        /// Number of copies.
        count: Expr,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// `while (cond) { … }`.
    While {
        /// The condition.
        cond: Expr,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// `for $i : a..b { … }`.
    ForRange {
        /// The loop variable.
        name: Ident,
        /// First value.
        start: Expr,
        /// One past the last value.
        end: Expr,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// `for $kv : @map { … }`, `for $s : span { … }`.
    ForMap {
        /// The loop variable: a (key, value) tuple, or an open span.
        name: Ident,
        /// The map, a `Map` expression without keys; or the `Name` of a span.
        map: Expr,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// A bare `{ … }`.
    Block(Vec<Stmt>),
    /// `return` with or without a value.
    Return(Option<Expr>),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
}

/// The declared variable, of a shared or a mutable statement.
macro_rules! variable {
    ($kind:expr) => {
        match $kind {
            StmtKind::Let { name, .. } | StmtKind::ForRange { name, .. } | StmtKind::ForMap { name, .. } => Some(name),
            StmtKind::Expr(_)
            | StmtKind::Assign { .. }
            | StmtKind::If { .. }
            | StmtKind::Unroll { .. }
            | StmtKind::While { .. }
            | StmtKind::Block(_)
            | StmtKind::Return(_)
            | StmtKind::Break
            | StmtKind::Continue => None,
        }
    };
}

/// The children, of a shared or a mutable statement.
macro_rules! for_each_part {
    ($kind:expr, $visit:ident, $part:ident, $parts_of_type:ident) => {
        match $kind {
            StmtKind::Expr(expr) | StmtKind::Return(Some(expr)) => $visit($part::Expr(expr)),
            StmtKind::Assign { target, value, .. } => {
                $visit($part::Expr(target));
                $visit($part::Expr(value));
            }
            StmtKind::Let { ty, value, .. } => {
                if let Some(ty) = ty {
                    $parts_of_type(ty, $visit);
                }
                if let Some(value) = value {
                    $visit($part::Expr(value));
                }
            }
            StmtKind::If { cond, then, otherwise } => {
                $visit($part::Expr(cond));
                $visit($part::Stmts(then));
                $visit($part::Stmts(otherwise));
            }
            StmtKind::Unroll { count: head, body }
            | StmtKind::While { cond: head, body }
            | StmtKind::ForMap { map: head, body, .. } => {
                $visit($part::Expr(head));
                $visit($part::Stmts(body));
            }
            StmtKind::ForRange { start, end, body, .. } => {
                $visit($part::Expr(start));
                $visit($part::Expr(end));
                $visit($part::Stmts(body));
            }
            StmtKind::Block(body) => $visit($part::Stmts(body)),
            StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue => {}
        }
    };
}

impl StmtKind {
    /// The variable that it declares.
    pub fn variable(&self) -> Option<&Ident> {
        variable!(self)
    }

    /// The same, to rename it.
    pub fn variable_mut(&mut self) -> Option<&mut Ident> {
        variable!(self)
    }

    /// The variable that it declares or assigns to, with its source span.
    pub fn bound_variable(&self) -> Option<(&str, Span)> {
        match self {
            StmtKind::Assign { target: Expr { kind: ExprKind::Var(name), span }, .. } => Some((name, *span)),
            declaring => declaring.variable().map(|name| (name.text.as_str(), name.span)),
        }
    }

    /// Visits its direct children in source order.
    pub fn for_each_part<'a>(&'a self, visit: &mut dyn FnMut(Part<'a>)) {
        for_each_part!(self, visit, Part, parts_of_type);
    }

    /// The same, to change them.
    pub fn for_each_part_mut<'a>(&'a mut self, visit: &mut dyn FnMut(PartMut<'a>)) {
        for_each_part!(self, visit, PartMut, parts_of_type_mut);
    }
}
