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
}

/// The look-ups whose results are still valid at this point of the code.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    known: Vec<Lookup>,
    /// Nesting depth of conditional code.
    depth: u32,
}

impl Lookups {
    /// The result of an earlier look-up of the same key.
    pub(super) fn known(&self, map: MapIndex, key: Option<&Expr>) -> Option<VReg> {
        let key = key?;
        self.known.iter().find(|l| l.map == map && is_same(&l.key, key)).map(|l| l.found)
    }

    /// Remembers a look-up.
    pub(super) fn remember(&mut self, catalogue: &Catalogue, map: MapIndex, key: Option<&Expr>, found: VReg) {
        if let Some(key) = key.filter(|key| is_constant(catalogue, key)) {
            self.known.push(Lookup { map, key: key.clone(), found, depth: self.depth });
        }
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
