//! Converts between byte offsets and line/column positions.
//!
//! In: a source; byte offsets, or lines and UTF-16 columns as editors count them. Out: the other
//! representation.
//! Guarantee: every number is a valid position: past the end means the end; inside a character
//! means its first byte.

use std::ops::Range;

use profiler_compiler::source::{Source, Span};

use super::excerpt::place;

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Line, from 0.
    pub line: usize,
    /// Characters before it on its line.
    pub characters: usize,
    /// UTF-16 units before it on its line.
    pub utf16: usize,
    /// Bytes before it in its file.
    pub bytes: usize,
}

/// The lines of a source.
pub(super) struct Positions<'a> {
    source: &'a Source,
    /// Start offset of each line.
    lines: Vec<usize>,
}

impl<'a> Positions<'a> {
    /// The positions of a source.
    pub(super) fn new(source: &'a Source) -> Positions<'a> {
        let breaks = source.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Positions { source, lines: std::iter::once(0).chain(breaks).collect() }
    }

    /// The location of a diagnostic: the file of a span, the position of its first character and
    /// the position after its last. Something missing at the end of the text is located after its
    /// last word.
    pub(super) fn range(&self, span: Span) -> (&'a str, Position, Position) {
        self.range_of(place(&self.source.text, span))
    }

    /// The file of a byte range on character boundaries, with its start and end positions.
    pub(super) fn range_of(&self, bytes: Range<usize>) -> (&'a str, Position, Position) {
        let (file, start) = self.source.file_at(bytes.start as u32);
        let start = start as usize;
        (file, self.position(bytes.start, start), self.position(bytes.end, start))
    }

    fn position(&self, at: usize, file_start: usize) -> Position {
        let line_of = |at: usize| self.lines.partition_point(|start| *start <= at).saturating_sub(1);
        let line = line_of(at);
        let before = self.source.text.get(self.lines[line]..at).unwrap_or("");
        Position {
            line: line - line_of(file_start),
            characters: before.chars().count(),
            utf16: before.encode_utf16().count(),
            bytes: at - file_start,
        }
    }
}

/// The byte offset of a line and a UTF-16 column, both from 0.
pub(super) fn byte_at(text: &str, line: usize, utf16: usize) -> usize {
    let mut start = 0;
    for _ in 0..line {
        match text[start..].find('\n') {
            Some(end) => start += end + 1,
            None => return text.len(),
        }
    }
    let mut passed = 0;
    for (at, character) in text[start..].char_indices() {
        if passed >= utf16 || matches!(character, '\r' | '\n') {
            return start + at;
        }
        passed += character.len_utf16();
        if passed > utf16 {
            return start + at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{Positions, byte_at};
    use profiler_compiler::source::{Source, Span};

    #[test]
    fn columns_are_counted_in_characters_and_in_utf_16() {
        let text = "one\n😀é x\n";
        let source = Source::new("a", text);
        let at = text.find('x').expect("it is there");
        let (_, start, end) = Positions::new(&source).range(Span::new(at, at + 1));
        assert_eq!((start.line, start.characters, start.utf16, start.bytes), (1, 3, 4, at));
        assert_eq!((end.line, end.characters), (1, 4));
        assert_eq!(byte_at(text, 1, 4), at);
        assert_eq!(byte_at(text, 1, 1), 4, "the middle of a character is its beginning");
        assert_eq!(byte_at(text, 0, 99), 3);
        assert_eq!(byte_at(text, 9, 0), text.len());
    }

    #[test]
    fn imported_files_count_from_their_own_beginning() {
        let mut source = Source::new("a", "one\n");
        source.append("b", "zwei\ndrei\n");
        let (file, start, _) = Positions::new(&source).range(Span::new(9, 13));
        assert_eq!((file, start.line, start.characters, start.bytes), ("b", 1, 0, 5));
    }
}
