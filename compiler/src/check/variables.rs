//! The variables of one program: names, scopes, types, units.
//!
//! In: declarations and assignments, in the order of the script. Out: the list of variables with
//! their types.
//! Guarantee: a variable keeps its index from round to round, so that inference converges; a type
//! that changes asks for another round.

use std::collections::BTreeMap;

use crate::check::unify;
use crate::typed::{self, VarIndex};
use crate::types::Type;
use crate::units::Unit;

/// The variables of a body.
#[derive(Debug)]
pub(super) struct Variables {
    list: Vec<typed::Var>,
    /// Variables declared so far in this round.
    declared: usize,
    /// The units of variables, as far as known in this round.
    units: BTreeMap<VarIndex, Option<Unit>>,
    /// Variables whose type was declared.
    fixed: Vec<VarIndex>,
    /// Variables that have been assigned once so far, in their declaration: an argument of the
    /// probe, which does not change.
    arguments: BTreeMap<VarIndex, typed::Expr>,
    scopes: Vec<Vec<(String, VarIndex)>>,
    is_changed: bool,
}

impl Variables {
    /// Variables with their types from the previous round; none is in scope yet.
    pub(super) fn new(list: Vec<typed::Var>) -> Variables {
        Variables {
            list,
            declared: 0,
            units: BTreeMap::new(),
            fixed: Vec::new(),
            arguments: BTreeMap::new(),
            scopes: vec![Vec::new()],
            is_changed: false,
        }
    }

    /// All variables, and whether a type changed in this round.
    pub(super) fn finish(self) -> (Vec<typed::Var>, bool) {
        (self.list, self.is_changed)
    }

    /// Opens a scope inside the current one.
    pub(super) fn open_scope(&mut self) {
        self.scopes.push(Vec::new());
    }

    /// Closes the innermost scope.
    pub(super) fn close_scope(&mut self) {
        self.scopes.pop();
    }

    /// Finds a variable in scope by name.
    pub(super) fn find(&self, name: &str) -> Option<VarIndex> {
        let in_scope = |scope: &Vec<(String, VarIndex)>| scope.iter().rev().find(|(n, _)| n == name).map(|(_, v)| *v);
        self.scopes.iter().rev().find_map(in_scope)
    }

    /// Names of the variables in scope.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().flatten().map(|(name, _)| name.as_str())
    }

    /// The type of a variable.
    pub(super) fn ty(&self, var: VarIndex) -> &Type {
        &self.list[var.0].ty
    }

    /// Sets the type of a variable.
    pub(super) fn set_type(&mut self, var: VarIndex, ty: Type) {
        if self.list[var.0].ty != ty {
            self.list[var.0].ty = ty;
            self.is_changed = true;
        }
    }

    /// Fixes a variable's current type.
    pub(super) fn fix(&mut self, var: VarIndex) {
        self.fixed.push(var);
    }

    /// Whether a variable's type was declared.
    pub(super) fn is_fixed(&self, var: VarIndex) -> bool {
        self.fixed.contains(&var)
    }

    /// Records what a variable is declared with.
    pub(super) fn declared_as(&mut self, var: VarIndex, value: &typed::Expr) {
        if matches!(value.kind, typed::ExprKind::ContextArg(_)) {
            self.arguments.insert(var, value.clone());
        }
    }

    /// Records another assignment to a variable.
    pub(super) fn reassigned(&mut self, var: VarIndex) {
        self.arguments.remove(&var);
    }

    /// The argument of the probe that is a variable's value. A declaration comes before every use
    /// of its variable.
    pub(super) fn argument(&self, var: VarIndex) -> Option<&typed::Expr> {
        self.arguments.get(&var)
    }

    /// The unit of a variable's values.
    pub(super) fn unit(&self, var: VarIndex) -> Unit {
        self.units.get(&var).copied().flatten().unwrap_or_default()
    }

    /// Records the unit of a value that is assigned to a variable.
    pub(super) fn receive(&mut self, var: VarIndex, unit: Unit) {
        received(self.units.entry(var).or_default(), unit);
    }

    /// Declares a variable in the innermost scope.
    pub(super) fn declare(&mut self, name: &str, ty: Type) -> VarIndex {
        let var = VarIndex(self.declared);
        self.declared += 1;
        match self.list.get(var.0) {
            None => {
                self.list.push(typed::Var { name: name.into(), ty });
            }
            Some(known) => {
                let both = unify(&known.ty, &ty).unwrap_or(ty);
                self.set_type(var, both);
            }
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name.into(), var));
        }
        var
    }
}

/// Merges a unit into the known one; returns whether that changed anything. Bare numbers are
/// compatible with any unit.
pub(super) fn received(known: &mut Option<Unit>, unit: Unit) -> bool {
    let joined = match (*known, unit) {
        (known, Unit::None) => known,
        (None, unit) => Some(unit),
        (Some(known), unit) if known == unit => Some(unit),
        _ => Some(Unit::None),
    };
    std::mem::replace(known, joined) != joined
}
