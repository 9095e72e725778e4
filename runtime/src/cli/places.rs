//! Where the bytes of a script are, for programs: lines and columns.
//!
//! In: a source; bytes, or lines and columns in UTF-16 as editors count them. Out: the one from the other.
//! Guarantee: any number has a place: what lies behind the text is its end, what lies in a character is its beginning.

use std::ops::Range;

use profiler_compiler::source::{Source, Span};

use super::excerpt::place;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// From 0.
    pub line: usize,
    /// Characters in front of it on its line.
    pub characters: usize,
    /// The same in units of UTF-16.
    pub utf16: usize,
    /// Bytes in front of it in its file.
    pub bytes: usize,
}

/// The lines of a source.
pub struct Places<'a> {
    source: &'a Source,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    pub fn new(source: &'a Source) -> Places<'a> {
        let breaks = source.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Places { source, lines: std::iter::once(0).chain(breaks).collect() }
    }

    /// Where something is wrong: the file of a span, and its first and one past its last character. What is missing at the end of the
    /// text is missing behind its last word.
    pub fn range(&self, span: Span) -> (&'a str, Position, Position) {
        self.range_of(place(&self.source.text, span))
    }

    /// The file of bytes on boundaries of characters, their first and one past their last character.
    pub fn range_of(&self, bytes: Range<usize>) -> (&'a str, Position, Position) {
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

/// The byte of a text at a line and a column in UTF-16, both from 0.
pub fn byte_at(text: &str, line: usize, utf16: usize) -> usize {
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
    use super::{Places, byte_at};
    use profiler_compiler::source::{Source, Span};

    #[test]
    fn columns_are_counted_in_characters_and_in_utf_16() {
        let text = "one\n😀é x\n";
        let source = Source::new("a", text);
        let at = text.find('x').expect("it is there");
        let (_, start, end) = Places::new(&source).range(Span::new(at, at + 1));
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
        let (file, start, _) = Places::new(&source).range(Span::new(9, 13));
        assert_eq!((file, start.line, start.characters, start.bytes), ("b", 1, 0, 5));
    }
}
