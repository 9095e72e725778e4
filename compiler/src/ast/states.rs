//! `state NAME by KEY { field: type, … }`, as written.
//!
//! In: made by `parse`. Out: read by `check` and the printers.
//! Guarantee: as for the whole tree; types are still names.

use crate::ast::{Expr, Ident, TypeName};
use crate::source::Span;

/// What the names of the maps begin with that hold states; no map of a script is written so.
pub const STATE_MARK: char = '~';

/// A declared record for each key.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Its name.
    pub name: Ident,
    /// The parts of its key; at least one.
    pub key: Vec<StatePart>,
    /// The fields of its records.
    pub fields: Vec<StatePart>,
    /// Most keys: `limit N`.
    pub limit: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// A part of a state's key, or a field of its records.
#[derive(Debug, Clone, PartialEq)]
pub struct StatePart {
    /// Its name.
    pub name: Ident,
    /// Its type; a part of a key without one is the builtin of its name.
    pub ty: Option<TypeName>,
}
