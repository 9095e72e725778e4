//! Maps instructions to script lines.
//!
//! In: a source and the spans of a function's instructions. Out: the instructions at which the line
//! changes.
//! Guarantee: the first instruction always has a line.

use super::EmittedFunction;
use crate::source::Source;

/// The script line that applies from an instruction on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineStart {
    /// Index of the instruction.
    pub insn: usize,
    /// Line number in its file, from 1.
    pub line: u32,
    /// Column number, from 1.
    pub column: u32,
    /// The byte offset of the line in the source.
    pub start: u32,
}

/// An index of the line starts of a source.
pub(super) struct LineTable<'a> {
    source: &'a Source,
    starts: Vec<u32>,
}

impl<'a> LineTable<'a> {
    /// Builds the index in one pass over the source.
    pub(super) fn new(source: &'a Source) -> LineTable<'a> {
        let ends = source.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1)).collect();
        LineTable { source, starts }
    }

    /// The instructions of a function at which the line changes.
    pub(super) fn of(&self, function: &EmittedFunction) -> Vec<LineStart> {
        let mut found: Vec<LineStart> = Vec::new();
        for (insn, span) in function.spans.iter().enumerate() {
            let index = self.starts.partition_point(|start| *start <= span.start).saturating_sub(1);
            let start = self.starts[index];
            if found.last().is_none_or(|last| last.start != start) {
                let first = self.source.file_at(start).1;
                let line = (index + 1 - self.starts.partition_point(|start| *start < first)) as u32;
                found.push(LineStart { insn, line, column: self.column(index, span.start), start });
            }
        }
        found
    }

    /// The text of a line, and the name of its file.
    pub(super) fn text(&self, line: &LineStart) -> (&'a str, &'a str) {
        let rest = self.source.text.get(line.start as usize..).unwrap_or("");
        (rest.lines().next().unwrap_or(""), self.source.file_at(line.start).0)
    }

    fn column(&self, index: usize, offset: u32) -> u32 {
        let text = self.source.text.as_bytes();
        let end = (offset as usize).min(text.len());
        let before = text.get(self.starts[index] as usize..end).unwrap_or_default();
        String::from_utf8_lossy(before).chars().count() as u32 + 1
    }
}
