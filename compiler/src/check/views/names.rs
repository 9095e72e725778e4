//! Names for the key parts of maps, collected from the script.
//!
//! In: a script's expressions. Out: names by map and key part.
//! Guarantee: names are in source order.

use std::collections::BTreeMap;

use crate::ast::visit;
use crate::ast::{Expr, ExprKind, STATE_MARK, Script};

/// Names by map and key part.
#[derive(Debug, Default)]
pub(super) struct KeyNames {
    parts: BTreeMap<String, Vec<Vec<String>>>,
}

impl KeyNames {
    /// Collects the names.
    pub(super) fn of(script: &Script) -> KeyNames {
        let mut names = KeyNames::default();
        for state in &script.states {
            let parts = state.key.iter().map(|part| vec![part.name.text.clone()]).collect();
            names.parts.insert(format!("{STATE_MARK}{}", state.name.text), parts);
        }
        let mut note = |e: &Expr| names.note(e);
        for block in &script.blocks {
            block.predicate.iter().for_each(|e| visit::walk_expr(e, &mut note));
            visit::walk_stmts(&block.body, &mut note);
        }
        names
    }

    fn note(&mut self, e: &Expr) {
        let ExprKind::Map { name, keys } = &e.kind else { return };
        // A key written as one tuple is equivalent to its parts.
        let keys = match keys.as_slice() {
            [Expr { kind: ExprKind::Tuple(parts), .. }] => parts,
            _ => keys,
        };
        let parts = self.parts.entry(name.clone()).or_default();
        parts.resize(parts.len().max(keys.len()), Vec::new());
        for (known, key) in parts.iter_mut().zip(keys) {
            known.extend(name_of(key).filter(|name| !known.contains(name)));
        }
    }

    /// The first name of a key part.
    pub(super) fn first(&self, map: &str, part: usize) -> Option<String> {
        self.parts.get(map)?.get(part)?.first().cloned()
    }

    /// The part of the key that is the id of a thread.
    pub(super) fn thread(&self, map: &str) -> Option<usize> {
        let parts = self.parts.get(map)?;
        parts.iter().position(|names| names.iter().any(|name| name == "tid"))
    }

    /// Whether a key part has this name.
    pub(super) fn has(&self, map: &str, part: usize, name: &str) -> bool {
        self.parts.get(map).and_then(|parts| parts.get(part)).is_some_and(|names| names.iter().any(|it| it == name))
    }
}

/// A name for an expression: a builtin, variable or field by its name; a call by that of its first
/// argument, or else its own.
fn name_of(e: &Expr) -> Option<String> {
    match &e.kind {
        ExprKind::Name(name) => Some(name.clone()),
        // A variable of a macro has a number appended to its name.
        ExprKind::Var(name) => Some(name.split('\'').next().unwrap_or_default().to_owned()),
        ExprKind::Field(_, field) => Some(field.text.clone()),
        ExprKind::Cast(_, inner) => name_of(inner),
        ExprKind::Call { name, args } => args.first().and_then(name_of).or_else(|| Some(name.text.clone())),
        _ => None,
    }
}
