//! A parsed top-level item.
//!
//! In: nothing. Out: the kinds of items.
//! Guarantee: each kind of item of the grammar has one variant.

use crate::ast::{
    ConfigEntry, Definition, Import, Macro, MapDeclaration, Param, ProbeBlock, Public, SpanDefinition, State, Use, View,
};

/// A parsed top-level item.
pub(in crate::parse) enum Parsed {
    /// The config block.
    Config(Vec<ConfigEntry>),
    /// `import`.
    Import(Import),
    /// `macro`.
    Macro(Macro),
    /// `let @x = …`.
    Map(MapDeclaration),
    /// A C definition.
    Definition(Definition),
    /// `state`.
    State(State),
    /// `span`.
    Span(SpanDefinition),
    /// A probe block.
    Block(ProbeBlock),
    /// `param`.
    Param(Param),
    /// `use`.
    Use(Use),
    /// `pub` before any of the others, or before a map's name alone.
    Public(Public, Option<Box<Parsed>>),
    /// `view "title" { … }`.
    View(Box<View>),
}
