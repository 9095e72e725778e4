//! Script lines of instructions.
//!
//! In: a source and the spans of a function's instructions. Out: the instructions at which the line changes.
//! Guarantee: the first instruction always has a line.

use super::EmittedFunction;
use crate::source::Source;

/// The script line from one instruction on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStart {
    /// Index of the instruction.
    pub insn: usize,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// Finds lines in one source quickly.
pub struct LineTable<'a> {
    source: &'a Source,
    starts: Vec<u32>,
}

impl<'a> LineTable<'a> {
    /// Scans the source once.
    pub fn new(source: &'a Source) -> LineTable<'a> {
        let ends = source.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1)).collect();
        LineTable { source, starts }
    }

    /// Where the line changes along a function's instructions.
    pub fn of(&self, function: &EmittedFunction) -> Vec<LineStart> {
        let mut found: Vec<LineStart> = Vec::new();
        for (insn, span) in function.spans.iter().enumerate() {
            let index = self.starts.partition_point(|start| *start <= span.start).saturating_sub(1);
            let line = index as u32 + 1;
            if found.last().is_none_or(|last| last.line != line) {
                let column = self.column(index, span.start);
                found.push(LineStart { insn, line, column });
            }
        }
        found
    }

    /// The text of a line, from 1.
    pub fn text(&self, line: u32) -> &'a str {
        let start = self.starts.get(line.saturating_sub(1) as usize).copied().unwrap_or(0) as usize;
        let rest = self.source.text.get(start..).unwrap_or("");
        rest.lines().next().unwrap_or("")
    }

    fn column(&self, index: usize, offset: u32) -> u32 {
        let text = self.source.text.as_bytes();
        let end = (offset as usize).min(text.len());
        let before = text.get(self.starts[index] as usize..end).unwrap_or_default();
        String::from_utf8_lossy(before).chars().count() as u32 + 1
    }
}
