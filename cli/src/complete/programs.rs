//! Arguments, results and types of probes in programs, from debug information.
//!
//! In: the attach points of a block, the text that names types. Out: types by name.
//! Guarantee: debug information is read only if a block has a probe in a program.

use std::collections::BTreeSet;

use profiler_compiler::CATALOGUE;
use profiler_compiler::ast::TypeTag;
use profiler_compiler::btf::{Btf, BtfId};
use profiler_compiler::catalogue::DescribedProbe;
use profiler_compiler::target::{ProgramType, Target};

use super::context::around_unless;

/// Limit of types in casts that are looked up.
const MOST_TYPES: usize = 32;

/// What the first probe of a block has.
pub(super) struct Program(DescribedProbe);

impl Program {
    /// The program of a block's first attach point, with the types of the casts in a text.
    pub(super) fn of(target: &dyn Target, header: &str, text: &str) -> Option<Program> {
        let point = around_unless(header.split(',').next()?.trim()).0;
        let (kind, name) = point.split_once(':')?;
        let kind = CATALOGUE.probe(kind)?;
        let casts = text.rmatch_indices('(').filter_map(|(at, _)| text[at + 1..].split_once(')'));
        let wanted: BTreeSet<ProgramType> = casts.filter_map(|(ty, _)| program_type(ty)).take(MOST_TYPES).collect();
        kind.described(target, name, &wanted).map(Program)
    }

    /// The kernel's types and the program's.
    pub(super) fn types(&self) -> &Btf {
        &self.0.types
    }

    /// Types and names of the members of `args`.
    pub(super) fn arguments(&self) -> Vec<(String, String)> {
        let described = |(name, ty): &(String, BtfId)| (self.0.types.describe(*ty), name.clone());
        self.0.arguments.iter().filter(|(name, _)| !name.is_empty()).map(described).collect()
    }

    /// The type of a member of `args`.
    pub(super) fn argument(&self, name: &str) -> Option<BtfId> {
        self.0.arguments.iter().find(|(known, _)| known == name).map(|(_, ty)| *ty)
    }

    /// The type of `retval`.
    pub(super) fn result(&self) -> Option<BtfId> {
        self.0.result
    }

    /// A type of the program as C writes it: `struct conn *`.
    pub(super) fn named(&self, ty: &str) -> Option<BtfId> {
        self.0.named.get(&program_type(ty)?).copied()
    }
}

/// A struct, union or typedef, without `const` and `*`.
fn program_type(ty: &str) -> Option<ProgramType> {
    let ty = ty.trim().trim_end_matches(|c: char| c == '*' || c.is_whitespace());
    let ty = ty.strip_prefix("const ").unwrap_or(ty).trim_start();
    let (tag, name) = match ty.split_once(char::is_whitespace) {
        Some(("struct", name)) => (TypeTag::Struct, name),
        Some(("union", name)) => (TypeTag::Union, name),
        _ => (TypeTag::None, ty),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = name.trim();
    (!name.is_empty() && name.chars().all(is_name)).then(|| ProgramType { tag, name: name.to_owned(), site: None })
}
