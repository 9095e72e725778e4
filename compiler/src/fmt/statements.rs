//! Formats statements, blocks and expressions.
//!
//! In: token ranges of an item. Out: lines.
//! Guarantee: a line break within a statement is kept, unless the next token belongs to the
//! previous line. A block is on one line only if it was before, has at most one statement, and
//! fits.

use super::gaps::{Gap, Open};
use super::printer::Printer;
use super::roles::Role;
use super::writer::WIDTH;
use std::ops::Range;

impl Printer<'_, '_> {
    /// Writes the tokens of a statement, or of an item around its block; continuation lines have
    /// more tabs than `base`.
    pub(super) fn run(&mut self, range: Range<usize>, first: Gap, base: usize, blocks_at_base: bool) {
        let mut opens: Vec<Open> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            // A block follows a condition, so lines that continue the condition are indented
            // further than the block.
            let further = if blocks_at_base && !self.item.is_c { 2 } else { 1 };
            let indent = if at == range.start { base } else { self.item.continuation(&opens, at, base, further) };
            let gap = if at == range.start { first } else { self.item.gap_before(at, &opens, self.inline) };
            match self.item.role(at) {
                Role::BraceOpen => {
                    let inner = if blocks_at_base { base } else { self.writer.line_indent() };
                    let inner = if at == range.start { base } else { inner };
                    self.block(at, gap, inner);
                    at = self.item.partner(at);
                }
                role => {
                    self.writer.token(at, gap, indent);
                    match role {
                        Role::Open => {
                            let closes_at_once = self.item.partner(at) == at + 1;
                            let hangs =
                                !self.inline && !closes_at_once && at + 1 < range.end && self.tokens.broken(at, at + 1);
                            opens.push(Open { at, hangs });
                        }
                        Role::Close | Role::CastClose => {
                            opens.pop();
                        }
                        _ => {}
                    }
                }
            }
            at += 1;
        }
    }

    // ── Blocks ───────────────────────────────────────────────────────────────────────────────────

    /// Writes a block, on one line if possible; its statements have one more tab than `base`.
    pub(super) fn block(&mut self, open: usize, gap: Gap, base: usize) {
        if self.inline {
            return self.short_block(open, gap, base);
        }
        let start = self.writer.checkpoint();
        if self.item.is_short(open) {
            self.inline = true;
            self.short_block(open, gap, base);
            self.inline = false;
            if self.writer.fits(&start) {
                return;
            }
            self.writer.go_back(&start);
        }
        self.long_block(open, gap, base);
    }

    fn short_block(&mut self, open: usize, gap: Gap, base: usize) {
        let close = self.item.partner(open);
        self.writer.token(open, gap, base);
        if close > open + 1 {
            self.run(open + 1..close, Gap::Space, base, true);
        }
        self.writer.token(close, Gap::Space, base);
    }

    pub(super) fn long_block(&mut self, open: usize, gap: Gap, base: usize) {
        let close = self.item.partner(open);
        self.writer.token(open, gap, base);
        self.statements(open + 1..close, base + 1);
        self.writer.token(close, Gap::Break, base);
    }

    fn statements(&mut self, range: Range<usize>, indent: usize) {
        let mut at = range.start;
        while at < range.end {
            let end = self.item.statement_end(at, range.end);
            if self.item.role(at) == Role::Semicolon {
                self.writer.token(at, if at == range.start { Gap::Break } else { Gap::Glue }, indent);
            } else if self.item.is_compound(at) {
                self.compound(at..end, indent);
            } else {
                self.run(at..end, Gap::Paragraph, indent, false);
            }
            at = end;
        }
    }

    /// Writes `if`, `while`, `for` or `unroll` with all its blocks: on one line if all of it was
    /// and fits.
    fn compound(&mut self, range: Range<usize>, indent: usize) {
        let last = range.end - 1;
        let blocks: Vec<usize> = range.clone().filter(|at| self.item.role(*at) == Role::BraceOpen).collect();
        let start = self.writer.checkpoint();
        if !self.broken_line(range.start, last) && blocks.iter().all(|open| self.item.is_short(*open)) {
            self.inline = true;
            self.run(range.clone(), Gap::Paragraph, indent, true);
            self.inline = false;
            if self.writer.fits(&start) {
                return;
            }
            self.writer.go_back(&start);
        }
        self.long_compound(range, indent);
    }

    fn broken_line(&self, first: usize, last: usize) -> bool {
        let bytes = (self.tokens.span(last).end - self.tokens.span(first).start) as usize;
        bytes > 4 * WIDTH || (last > first && self.tokens.broken(first, last))
    }

    /// Writes the parts between the blocks, and the blocks, on separate lines.
    fn long_compound(&mut self, range: Range<usize>, indent: usize) {
        let (mut at, mut gap) = (range.start, Gap::Paragraph);
        while at < range.end {
            let brace = self.item.next_body(at, range.end);
            if at < brace {
                self.run(at..brace, gap, indent, true);
                gap = Gap::Space;
            }
            if brace < range.end {
                let close = self.item.partner(brace);
                if close == brace + 1 && !self.tokens.commented(brace, close) {
                    self.short_block(brace, gap, indent);
                } else {
                    self.long_block(brace, gap, indent);
                }
                gap = Gap::Space;
                at = close + 1;
            } else {
                at = range.end;
            }
        }
    }
}
