//! Reuses map look-ups within one run of a program.
//!
//! In: maps and keys as they are looked up. Out: the register with the earlier result.
//! Guarantee: a result is reused only if it was computed on every path to this point, for a key
//! that cannot have changed, with no write to the map by this program in between.
//! Example: `/@start[tid]/ { … nsecs - @start[tid] … }` looks up once.

use crate::catalogue::Catalogue;
use crate::ir::VReg;
use crate::typed::{Expr, ExprKind, MapIndex};

/// An earlier look-up.
#[derive(Debug, Clone)]
struct Lookup {
    map: MapIndex,
    key: Expr,
    found: VReg,
    /// Nesting depth of conditional code at the look-up.
    depth: u32,
    /// Whether the key was inserted if it was missing. Then inserting other keys cannot change the
    /// result; it is 0 only if the map is full.
    is_inserted: bool,
}

/// The look-ups whose results are still valid at this point of the code.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    known: Vec<Lookup>,
    /// Nesting depth of conditional code.
    depth: u32,
}

impl Lookups {
    /// The result of the latest look-up of the same key.
    pub(super) fn known(&self, map: MapIndex, key: Option<&Expr>) -> Option<VReg> {
        let key = key?;
        self.known.iter().rev().find(|l| l.map == map && is_same(&l.key, key)).map(|l| l.found)
    }

    /// The address of the key's value, or 0 if the map is full, if the key was inserted earlier.
    pub(super) fn inserted(&self, map: MapIndex, key: Option<&Expr>) -> Option<VReg> {
        let key = key?;
        let is_it = |l: &&Lookup| l.is_inserted && l.map == map && is_same(&l.key, key);
        self.known.iter().rev().find(is_it).map(|l| l.found)
    }

    /// Remembers a look-up.
    pub(super) fn remember(&mut self, catalogue: &Catalogue, map: MapIndex, key: Option<&Expr>, found: VReg) {
        self.add(catalogue, map, key, found, false);
    }

    /// Remembers the address of a value that was inserted if it was missing, and is never removed;
    /// 0 if the map is full.
    pub(super) fn remember_inserted(&mut self, catalogue: &Catalogue, map: MapIndex, key: Option<&Expr>, found: VReg) {
        self.add(catalogue, map, key, found, true);
    }

    fn add(&mut self, catalogue: &Catalogue, map: MapIndex, key: Option<&Expr>, found: VReg, is_inserted: bool) {
        if let Some(key) = key.filter(|key| is_constant(catalogue, key)) {
            self.known.push(Lookup { map, key: key.clone(), found, depth: self.depth, is_inserted });
        }
    }

    /// Forgets the look-ups in a map that a new key may change, except those with the result
    /// `kept`, which are of that key. Two keys that are written differently can be the same.
    pub(super) fn forget_missing(&mut self, map: MapIndex, kept: Option<VReg>) {
        self.known.retain(|l| l.map != map || l.is_inserted || Some(l.found) == kept);
    }

    /// Forgets the look-ups in a map that is about to be written.
    pub(super) fn forget(&mut self, map: MapIndex) {
        self.known.retain(|l| l.map != map);
    }

    /// Forgets all look-ups.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    /// Begins code that may not run.
    pub(super) fn enter(&mut self) {
        self.depth += 1;
    }

    /// Ends code that may not run, and forgets the look-ups made there.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
        self.known.retain(|l| l.depth <= self.depth);
    }
}

/// Whether an expression has the same value throughout one run: it consists of constants, builtins
/// that do not change, and the probe's arguments.
fn is_constant(catalogue: &Catalogue, expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Builtin(word, _) => catalogue.builtin_of(word).is_constant(),
        ExprKind::Convert(inner) => is_constant(catalogue, inner),
        ExprKind::Tuple(parts) => parts.iter().all(|part| is_constant(catalogue, part)),
        _ => is_same(expr, expr),
    }
}

/// Whether two expressions are the same, for the kinds that can be constant during a run.
fn is_same(a: &Expr, b: &Expr) -> bool {
    if a.ty != b.ty {
        return false;
    }
    match (&a.kind, &b.kind) {
        (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
        (ExprKind::Str(a), ExprKind::Str(b)) => a == b,
        (ExprKind::Param(a), ExprKind::Param(b)) => a == b,
        (ExprKind::Builtin(a, x), ExprKind::Builtin(b, y)) => a == b && x == y,
        (ExprKind::Convert(a), ExprKind::Convert(b)) => is_same(a, b),
        (ExprKind::Register(a), ExprKind::Register(b))
        | (ExprKind::SyscallRegister(a), ExprKind::SyscallRegister(b))
        | (ExprKind::ContextField(a), ExprKind::ContextField(b))
        | (ExprKind::ContextArg(a), ExprKind::ContextArg(b)) => a == b,
        (ExprKind::Tuple(a), ExprKind::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        _ => false,
    }
}
