//! Script text and positions in it.
//!
//! In: the bytes of a script. Out: [`Span`]s that every later stage carries, and line/column look-up.
//! Guarantee: a span made by the parser lies on character boundaries of its source.

/// One script with the name that diagnostics show (`stdin`, a path, or `-e`).
#[derive(Debug, Clone)]
pub struct Source {
    /// What a user calls this text.
    pub name: String,
    /// The text itself.
    pub text: String,
}

/// A half-open byte range `start..end` of a [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
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
    /// A source called `name` with this text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into() }
    }

    /// Line and column of a byte offset, both counted from 1, columns in characters.
    pub fn line_column(&self, offset: u32) -> (u32, u32) {
        let upto = (offset as usize).min(self.text.len());
        let before = self.text.as_bytes().get(..upto).unwrap_or_default();
        let line = before.split(|b| *b == b'\n').count() as u32;
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() as u32 + 1;
        (line, column)
    }

    /// The text of a 1-based line without its line end; empty past the end.
    pub fn line(&self, line: u32) -> &str {
        self.text.lines().nth(line.saturating_sub(1) as usize).unwrap_or("")
    }

    /// The text that a span covers; empty when the span is not of this source.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }
}
