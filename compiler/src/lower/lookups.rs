//! Look-ups that can be shared within one run of a program.
//!
//! In: maps and keys as they are looked up. Out: the register with the earlier result.
//! Guarantee: a result is reused only where it was certainly computed before, for a key that cannot have changed, and
//! with no write to the map by this program in between. `/@start[tid]/ { … nsecs - @start[tid] … }` looks up once.

use crate::ir::VReg;
use crate::lower::Body;
use crate::typed::{Expr, ExprKind, MapIndex};

/// A look-up made earlier.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    map: MapIndex,
    key: Expr,
    found: VReg,
    /// How many conditions it is under.
    depth: u32,
}

impl Body<'_, '_> {
    /// The result of an earlier look-up of the same key.
    pub(super) fn known_lookup(&self, map: MapIndex, key: Option<&Expr>) -> Option<VReg> {
        let key = key?;
        self.lookups.iter().find(|l| l.map == map && same_value(&l.key, key)).map(|l| l.found)
    }

    /// Remembers a look-up.
    pub(super) fn remember_lookup(&mut self, map: MapIndex, key: Option<&Expr>, found: VReg) {
        if let Some(key) = key.filter(|key| same_value(key, key)) {
            self.lookups.push(Lookup { map, key: key.clone(), found, depth: self.depth });
        }
    }

    /// Forgets what was looked up in a map that is about to be written.
    pub(super) fn forget_lookups(&mut self, map: MapIndex) {
        self.lookups.retain(|l| l.map != map);
    }

    /// Lowers code that may not run; look-ups made there are not known afterwards.
    pub(super) fn conditionally<T>(&mut self, lower: impl FnOnce(&mut Self) -> T) -> T {
        self.depth += 1;
        let result = lower(self);
        self.depth -= 1;
        let depth = self.depth;
        self.lookups.retain(|l| l.depth <= depth);
        result
    }
}

/// Whether two expressions surely have the same value in one run: made of constants, of builtins that do not change, and of
/// the probe's arguments.
fn same_value(a: &Expr, b: &Expr) -> bool {
    if a.ty != b.ty {
        return false;
    }
    match (&a.kind, &b.kind) {
        (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
        (ExprKind::Str(a), ExprKind::Str(b)) => a == b,
        (ExprKind::Param(a), ExprKind::Param(b)) => a == b,
        (ExprKind::Builtin(a, x), ExprKind::Builtin(b, y)) => a.name() == b.name() && a.is_constant() && x == y,
        (ExprKind::Convert(a), ExprKind::Convert(b)) => same_value(a, b),
        (ExprKind::Register(a), ExprKind::Register(b))
        | (ExprKind::SyscallRegister(a), ExprKind::SyscallRegister(b))
        | (ExprKind::ContextField(a), ExprKind::ContextField(b))
        | (ExprKind::ContextArg(a), ExprKind::ContextArg(b)) => a == b,
        (ExprKind::Tuple(a), ExprKind::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        _ => false,
    }
}
