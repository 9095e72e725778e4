//! What a script takes from outside: parameters, and modules with their public names.
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
    /// What it is when nothing is given: one value, or several of a set.
    pub default: Vec<ParamValue>,
    /// What it is for.
    pub help: Ident,
    /// Least and most value.
    pub range: Option<(ParamValue, ParamValue)>,
    /// All of it.
    pub span: Span,
}

/// A value in the declaration of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamValue {
    /// Its characters, without quotes.
    pub text: String,
    /// Whether it stands in quotes.
    pub quoted: bool,
    /// Its place.
    pub span: Span,
}

/// `use a/b as c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The module, as written.
    pub module: Ident,
    /// The name that its names get here, when the script chooses it.
    pub alias: Option<Ident>,
    /// All of it.
    pub span: Span,
}

impl Use {
    /// The name before the dot in front of the module's names: the last part of its path, or the chosen one.
    pub fn prefix(&self) -> String {
        self.alias.as_ref().map_or_else(|| default_prefix(&self.module.text), |alias| alias.text.clone())
    }
}

/// The last part of a module's path as a name.
pub fn default_prefix(module: &str) -> String {
    module.rsplit('/').next().unwrap_or(module).replace('-', "_")
}

/// A name that those who use this file may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Public {
    /// What it is the name of.
    pub kind: PublicKind,
    /// The name, without sigil.
    pub name: Ident,
}

/// What can be public.
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
    /// `pub view "title" { … }`: what is shown to those who use the module. Its name is the title.
    View,
}

/// A module that the script, or another of its modules, uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// Its path: `lock/mutex`.
    pub path: String,
    /// What it says.
    pub script: Script,
}
