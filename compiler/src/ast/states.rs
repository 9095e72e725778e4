//! `state NAME by KEY { field: type, … }`, as written.
//!
//! In: made by `parse`. Out: read by `check` and the printers.
//! Guarantee: as for the whole tree; types are still names.

use crate::ast::{Expr, Ident, TypeName};
use crate::source::Span;

/// Name prefix of the maps that contain states. A script cannot write a map name with this prefix.
pub const STATE_MARK: char = '~';

/// A declared record per key.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub name: Ident,
    /// The parts of its key; at least one.
    pub key: Vec<StatePart>,
    /// The fields of its records.
    pub fields: Vec<StatePart>,
    /// Maximum number of keys: `limit N`.
    pub limit: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// A part of a state's key, or a field of its records.
#[derive(Debug, Clone, PartialEq)]
pub struct StatePart {
    pub name: Ident,
    /// Its type; a key part without one has the type of the builtin with its name.
    pub ty: Option<TypeName>,
}
