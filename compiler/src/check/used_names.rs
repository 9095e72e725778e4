//! Syntactic facts about a block: the names and arguments that it uses.
//!
//! In: a probe block. Out: [`UsedNames`], by which attach points choose between one shared program
//! and one program each.
//! Guarantee: reports a use whenever the checked body might have one.

use std::collections::BTreeSet;

use crate::ast::visit::{walk_expr, walk_stmts};
use crate::ast::{Expr, ExprKind, ProbeBlock, UnaryOp};

/// The names and `args` fields that a block uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedNames {
    /// Bare names and names of called functions (`pid`, `kstack`, `args`).
    pub names: BTreeSet<String>,
    /// Fields of `args` that are read.
    pub arg_fields: BTreeSet<String>,
    /// Names of which a field is read, or which are read through as pointers.
    followed: BTreeSet<String>,
    /// Occurrences of `args` minus its field accesses: above 0 if `args` is used as a whole.
    whole_args: i32,
}

impl UsedNames {
    /// Collects the facts of a block.
    pub fn of(block: &ProbeBlock) -> UsedNames {
        let mut facts = UsedNames::default();
        facts.add(block);
        facts
    }

    /// Adds the facts of a block.
    pub fn add(&mut self, block: &ProbeBlock) {
        let mut visit = |e: &Expr| self.note(e);
        if let Some(predicate) = &block.predicate {
            walk_expr(predicate, &mut visit);
        }
        walk_stmts(&block.body, &mut visit);
    }

    /// Adds the facts of an expression.
    pub fn add_expr(&mut self, expr: &Expr) {
        walk_expr(expr, &mut |e| self.note(e));
    }

    /// Whether a bare or called name occurs.
    pub fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether a name is used as a struct or pointer: `name->x`, `name.x` or `*name`.
    pub fn follows(&self, name: &str) -> bool {
        self.followed.contains(name)
    }

    /// Whether this field of `args` is read, alone or as part of all of `args`.
    pub fn takes_arg(&self, field: &str) -> bool {
        self.takes_all_args() || self.arg_fields.contains(field)
    }

    /// Whether `args` is used as a whole.
    pub fn takes_all_args(&self) -> bool {
        self.whole_args > 0
    }

    fn note(&mut self, expr: &Expr) {
        if let ExprKind::Field(base, _) | ExprKind::Unary(UnaryOp::Deref, base) = &expr.kind
            && let ExprKind::Name(name) = &base.kind
        {
            self.followed.insert(name.clone());
        }
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
