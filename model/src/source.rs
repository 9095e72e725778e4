//! Script text and positions in it.
//!
//! In: the bytes of a script. Out: [`Span`]s, which every later stage uses, and line/column lookup.
//! Guarantee: a span made by the parser lies on character boundaries of its source, within one
//! file.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A script with its name in diagnostics (`stdin`, a path, or `-e`), followed by the files that it
/// imports.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name of the script in diagnostics.
    pub name: String,
    /// The text of the script, then those of the imported files, each starting on a new line.
    pub text: String,
    /// For each imported file, in order: its name, the offset of its first byte, and its module
    /// path if it is a module.
    imported: Vec<(String, u32, Option<String>)>,
}

/// A half-open byte range `start..end` of a [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of bytes `start..end`.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// The smallest span that covers both.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

impl Source {
    /// Whether the file is in our own language, which is stricter than bpftrace's.
    pub fn is_declarative(&self) -> bool {
        Path::new(&self.name).extension().is_some_and(|extension| extension == "prof")
    }

    /// A source called `name` with this text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into(), imported: Vec::new() }
    }

    /// Appends an imported file.
    pub fn append(&mut self, name: impl Into<String>, text: &str) {
        self.add(name.into(), text, None);
    }

    /// Appends a module that `use path` names.
    pub fn append_module(&mut self, name: impl Into<String>, text: &str, path: impl Into<String>) {
        self.add(name.into(), text, Some(path.into()));
    }

    fn add(&mut self, name: String, text: &str, module: Option<String>) {
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.imported.push((name, self.text.len() as u32, module));
        self.text.push_str(text);
    }

    /// The script and the imported files, each with its byte range.
    pub fn files(&self) -> impl Iterator<Item = (&str, Range<u32>)> {
        let starts = std::iter::once((self.name.as_str(), 0))
            .chain(self.imported.iter().map(|(name, start, _)| (name.as_str(), *start)));
        let ends = self.imported.iter().map(|(_, start, _)| *start).chain([self.text.len() as u32]);
        starts.zip(ends).map(|((name, start), end)| (name, start..end))
    }

    /// The module path of each of [`Source::files`]; `None` for the script and for files that it
    /// imports.
    pub fn modules(&self) -> impl Iterator<Item = Option<&str>> {
        std::iter::once(None).chain(self.imported.iter().map(|(_, _, module)| module.as_deref()))
    }

    /// The name and first byte of the file that contains an offset.
    pub fn file_at(&self, offset: u32) -> (&str, u32) {
        let behind = self.imported.partition_point(|(_, start, _)| *start <= offset);
        behind.checked_sub(1).map_or((self.name.as_str(), 0), |at| {
            let (name, start, _) = &self.imported[at];
            (name, *start)
        })
    }

    /// Line and column of a byte offset in its file, both counted from 1, columns in characters.
    pub fn line_column(&self, offset: u32) -> (u32, u32) {
        let upto = (offset as usize).min(self.text.len());
        let start = self.file_at(offset).1 as usize;
        let before = self.text.as_bytes().get(start..upto).unwrap_or_default();
        let line = before.split(|b| *b == b'\n').count() as u32;
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() as u32 + 1;
        (line, column)
    }

    /// The text of a 1-based line of the script without its line ending; empty past the end.
    pub fn line(&self, line: u32) -> &str {
        self.text.lines().nth(line.saturating_sub(1) as usize).unwrap_or("")
    }

    /// The text of a span; empty if the span is not in this source.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn places_in_imported_files_count_from_their_own_start() {
        let mut source = Source::new("a.bt", "one\ntwo");
        source.append("b.bt", "drei\nvier\n");
        source.append("c.bt", "");
        assert_eq!(source.text, "one\ntwo\ndrei\nvier\n");
        assert_eq!((source.file_at(5), source.line_column(5)), (("a.bt", 0), (2, 2)));
        assert_eq!((source.file_at(14), source.line_column(14)), (("b.bt", 8), (2, 2)));
        let files: Vec<_> = source.files().collect();
        assert_eq!(files, [("a.bt", 0..8), ("b.bt", 8..18), ("c.bt", 18..18)]);
    }
}
