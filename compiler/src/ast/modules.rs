//! Parameters, and modules with their public names.
//!
//! In: made by `parse`. Out: read by `expand`, `check` and the printers.
//! Guarantee: free of the parser generator; every node knows its span.

use super::{Ident, Script};
use crate::source::Span;

/// `param NAME: TYPE = DEFAULT "help" in LOW..HIGH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name, without sigil.
    pub name: Ident,
    /// Its type's name.
    pub ty: Ident,
    /// The default value: one value, or several for a set.
    pub default: Vec<ParamValue>,
    /// The help text.
    pub help: Ident,
    /// Minimum and maximum value.
    pub range: Option<(ParamValue, ParamValue)>,
    /// All of it.
    pub span: Span,
}

/// A value in the declaration of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamValue {
    /// Its characters, without quotes.
    pub text: String,
    /// Whether it is quoted.
    pub quoted: bool,
    /// Its source span.
    pub span: Span,
}

/// `use a/b as c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The module, as written.
    pub module: Ident,
    /// The prefix for its names, if the script chooses one.
    pub alias: Option<Ident>,
    /// All of it.
    pub span: Span,
}

impl Use {
    /// The prefix before the dot in the module's names: the alias, or the last part of the path.
    pub fn prefix(&self) -> String {
        self.alias.as_ref().map_or_else(|| default_prefix(&self.module.text), |alias| alias.text.clone())
    }
}

/// The last part of a module's path, as an identifier.
pub fn default_prefix(module: &str) -> String {
    module.rsplit('/').next().unwrap_or(module).replace('-', "_")
}

/// A name that users of this file may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Public {
    /// The kind of item that it names.
    pub kind: PublicKind,
    /// The name, without sigil.
    pub name: Ident,
}

/// The kinds of items that can be public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicKind {
    /// `pub macro name(…) { … }`.
    Macro,
    /// `pub @name`, or a public declaration of it.
    Map,
    /// `pub param name: …`.
    Param,
    /// `pub span name …`.
    Span,
    /// `pub view "title" { … }`: a view shown to users of the module. Its name is the title.
    View,
}

/// A module used by the script or by another module.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// Its path: `lock/mutex`.
    pub path: String,
    /// Its syntax tree.
    pub script: Script,
}
