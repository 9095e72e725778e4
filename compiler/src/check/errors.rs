//! Collects diagnostics.
//!
//! In: diagnostics as they are found. Out: each once, in source order.
//! Guarantee: a block that is checked for many attach points reports an error once.

use crate::diagnostic::Diagnostic;

/// The diagnostics of a check.
#[derive(Debug, Default)]
pub struct Report {
    list: Vec<Diagnostic>,
}

impl Report {
    /// Adds a diagnostic, unless an equal one is present.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if !self.list.contains(&diagnostic) {
            self.list.push(diagnostic);
        }
    }

    /// Adds several diagnostics.
    pub fn extend(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        for diagnostic in diagnostics {
            self.push(diagnostic);
        }
    }

    /// Whether any is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(Diagnostic::is_error)
    }

    /// Whether there is an error after a mark.
    pub fn has_errors_since(&self, mark: usize) -> bool {
        self.list.iter().skip(mark).any(Diagnostic::is_error)
    }

    /// The current length, for [`Report::rewind`].
    pub fn mark(&self) -> usize {
        self.list.len()
    }

    /// Drops everything after a mark.
    pub fn rewind(&mut self, mark: usize) {
        self.list.truncate(mark);
    }

    /// Drops those after a mark that say what an earlier one says about another place.
    pub fn say_once(&mut self, mark: usize) {
        let (before, after) = self.list.split_at(mark.min(self.list.len()));
        let is_new = |d: &&Diagnostic| before.iter().all(|said| (said.code, &said.message) != (d.code, &d.message));
        let kept: Vec<Diagnostic> = after.iter().filter(is_new).cloned().collect();
        self.list.truncate(mark);
        self.list.extend(kept);
    }

    /// All diagnostics, sorted by source position.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|d| (d.span, d.code));
        self.list
    }
}
