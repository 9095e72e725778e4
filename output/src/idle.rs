//! What people read instead of tables without rows.
//!
//! In: tables, and the windows that they cover. Out: lines.
//! Guarantee: a window in which nothing happened is one line, whatever the number of its tables;
//! outside of windows, each sentence is one line.

use profiler_model::output::Table;

/// Tables without rows that follow each other, and cover the same window.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    window: Option<String>,
    sentences: Vec<String>,
    /// Titles of tables without a sentence.
    titles: Vec<String>,
}

impl Idle {
    /// Whether a table has nothing to show, and a line is enough to say so. The table at the end of
    /// a run keeps its heading unless the view has a sentence for this.
    pub(crate) fn is(table: &Table, window: Option<&String>) -> bool {
        let is_empty = table.rows.is_empty() && table.rest.is_none();
        let explains = table.withheld.is_some() || !table.notes.is_empty();
        is_empty && !explains && (table.empty.is_some() || window.is_some())
    }

    /// A table alone.
    pub(crate) fn of(table: &Table, window: Option<String>) -> Idle {
        let mut idle = Idle::default();
        idle.add(table, window);
        idle
    }

    /// Adds a table; `false` if it covers another window than those before.
    pub(crate) fn add(&mut self, table: &Table, window: Option<String>) -> bool {
        if !self.is_empty() && self.window != window {
            return false;
        }
        self.window = window;
        match &table.empty {
            Some(sentence) if sentence.is_empty() || self.sentences.contains(sentence) => {}
            Some(sentence) => self.sentences.push(sentence.clone()),
            None => self.titles.push(table.title.clone()),
        }
        true
    }

    /// Whether there is nothing to say.
    pub(crate) fn is_empty(&self) -> bool {
        self.sentences.is_empty() && self.titles.is_empty()
    }

    /// Its lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut parts = self.sentences.clone();
        if !self.titles.is_empty() {
            parts.push(format!("{} (no rows)", self.titles.join(", ")));
        }
        match &self.window {
            Some(_) if parts.is_empty() => Vec::new(),
            Some(window) => vec![format!("{window}: {}", parts.join("; "))],
            None => parts,
        }
    }
}

#[cfg(test)]
#[path = "idle_tests.rs"]
mod tests;
