//! Writes tokens in order, with the comments between them.
//!
//! In: tokens and the gap before each. Out: text.
//! Guarantee: every piece is written once and in order; comments between two tokens are written
//! with the second token; there are no two consecutive blank lines; no line ends with blanks.

use super::gaps::Gap;
use super::tokens::{Between, Tokens};
use crate::source::Span;
use std::ops::Range;

/// Maximum width of a line that is joined from shorter ones, in columns.
pub(super) const WIDTH: usize = 100;

/// Displayed width of a tab, in columns.
const TAB_WIDTH: usize = 8;

/// Saved state of the writer for `go_back`.
pub(super) struct Checkpoint {
    written: usize,
    next_between: usize,
    prev_end: usize,
    must_break: bool,
    after_open: bool,
    line_indent: usize,
}

/// The output under construction.
pub(super) struct Writer<'a> {
    pub(super) tokens: Tokens<'a>,
    out: String,
    /// Tabs at the start of the current line.
    line_indent: usize,
    next_between: usize,
    /// Offset in the source where the last piece ended.
    prev_end: usize,
    /// Whether a line break must follow.
    must_break: bool,
    /// Whether the last piece was a `{`.
    after_open: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(tokens: Tokens<'a>) -> Writer<'a> {
        Writer {
            tokens,
            out: String::with_capacity(tokens.text.len()),
            line_indent: 0,
            next_between: 0,
            prev_end: 0,
            must_break: false,
            after_open: false,
        }
    }

    // ── Trials ───────────────────────────────────────────────────────────────────────────────────

    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            written: self.out.len(),
            next_between: self.next_between,
            prev_end: self.prev_end,
            must_break: self.must_break,
            after_open: self.after_open,
            line_indent: self.line_indent,
        }
    }

    pub(super) fn go_back(&mut self, to: &Checkpoint) {
        self.out.truncate(to.written);
        self.next_between = to.next_between;
        self.prev_end = to.prev_end;
        self.must_break = to.must_break;
        self.after_open = to.after_open;
        self.line_indent = to.line_indent;
    }

    pub(super) fn line_indent(&self) -> usize {
        self.line_indent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Whether the text written since the checkpoint takes several lines.
    pub(super) fn has_lines(&self, since: &Checkpoint) -> bool {
        self.out[since.written..].trim_start_matches('\n').contains('\n')
    }

    /// Inserts a line break at the checkpoint.
    pub(super) fn insert_line(&mut self, at: &Checkpoint) {
        self.out.insert(at.written, '\n');
    }

    /// Whether the text written since the checkpoint is one line that fits.
    pub(super) fn fits(&self, since: &Checkpoint) -> bool {
        !self.has_lines(since) && !self.is_wide()
    }

    /// Whether the current line is too long.
    pub(super) fn is_wide(&self) -> bool {
        self.is_wider_by(0)
    }

    /// Whether the line would be too long with `more` more columns.
    pub(super) fn is_wider_by(&self, more: usize) -> bool {
        let width = |letter: char| if letter == '\t' { TAB_WIDTH } else { 1 };
        self.line().is_none_or(|line| line.chars().map(width).sum::<usize>() + more > WIDTH)
    }

    /// The current line; `None` if it is much longer than `WIDTH`.
    fn line(&self) -> Option<&str> {
        let bytes = self.out.as_bytes();
        let tail = &bytes[bytes.len().saturating_sub(4 * WIDTH)..];
        match tail.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => self.out.get(bytes.len() - tail.len() + at + 1..),
            None if tail.len() == bytes.len() => Some(&self.out),
            None => None,
        }
    }

    // ── Writing ──────────────────────────────────────────────────────────────────────────────────

    /// Writes a token; if it must begin a line, the line gets `indent` tabs.
    pub(super) fn token(&mut self, at: usize, gap: Gap, indent: usize) {
        let span = self.tokens.span(at);
        let closes_block = self.tokens.word(at) == "}";
        let flushed = self.flush(span.start, indent + usize::from(closes_block && gap != Gap::Space));
        let is_closer = matches!(self.tokens.word(at), ")" | "]" | ";" | ",");
        let gap = match gap {
            Gap::Glue if flushed && !is_closer => Gap::Space,
            // A comment at the start of a line belongs to the token that follows it on that line.
            Gap::Break | Gap::Paragraph if flushed && !closes_block && self.comment_begins_line() => Gap::Space,
            gap => gap,
        };
        self.gap(gap, span.start as usize, indent, closes_block);
        self.out.push_str(self.tokens.word(at));
        self.prev_end = span.end as usize;
        self.after_open = self.tokens.word(at) == "{";
    }

    /// Writes a range of the source unchanged, except for trailing blanks.
    pub(super) fn verbatim(&mut self, span: Span) {
        self.flush(span.start, 0);
        self.gap(Gap::Paragraph, span.start as usize, 0, false);
        self.lines(&self.tokens.text[span.start as usize..span.end as usize]);
        self.prev_end = span.end as usize;
        self.after_open = false;
        while self.tokens.pieces.between.get(self.next_between).is_some_and(|(_, inside)| inside.start < span.end) {
            self.next_between += 1;
        }
    }

    /// Writes what follows the last token, and ends the last line.
    pub(super) fn finish(mut self) -> String {
        self.flush(u32::MAX, 0);
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    /// Writes tokens without blanks, such as the semicolons that follow a block.
    pub(super) fn glued(&mut self, range: Range<usize>) {
        for at in range {
            self.token(at, Gap::Glue, 0);
        }
    }

    /// Writes blanks.
    pub(super) fn pad(&mut self, columns: usize) {
        self.out.extend(std::iter::repeat_n(' ', columns));
    }

    fn gap(&mut self, gap: Gap, start: usize, indent: usize, closes_block: bool) {
        let must_break = std::mem::take(&mut self.must_break);
        match gap {
            _ if self.out.is_empty() => {}
            Gap::Paragraph => {
                let blank = !closes_block && !self.after_open && self.newlines(start) > 1;
                self.newline(blank, indent);
            }
            Gap::Break => self.newline(false, indent),
            _ if must_break => self.newline(false, indent),
            Gap::Space => self.out.push(' '),
            Gap::Glue => {}
        }
    }

    /// Whether the current line starts with a block comment.
    fn comment_begins_line(&self) -> bool {
        self.line().is_some_and(|line| line.trim_start().starts_with("/*"))
    }

    fn newlines(&self, until: usize) -> usize {
        self.tokens.text[self.prev_end..until].matches('\n').count()
    }

    fn newline(&mut self, blank: bool, indent: usize) {
        self.out.push_str(if blank { "\n\n" } else { "\n" });
        self.out.extend(std::iter::repeat_n('\t', indent));
        self.line_indent = indent;
    }

    /// Writes comments and directives that begin before `until`; returns whether a token may follow
    /// the last one on its line.
    fn flush(&mut self, until: u32, indent: usize) -> bool {
        let mut flushed = false;
        while let Some((what, span)) =
            self.tokens.pieces.between.get(self.next_between).filter(|(_, span)| span.start < until)
        {
            self.next_between += 1;
            let start = span.start as usize;
            let newlines = self.newlines(start);
            let is_lines = *what == Between::Lines;
            if self.out.is_empty() {
            } else if newlines > 0 || self.must_break || is_lines {
                self.newline(newlines > 1 && !self.after_open, if is_lines { 0 } else { indent });
            } else if !self.out.ends_with(['(', '[']) {
                self.out.push(' ');
            }
            let text = &self.tokens.text[start..span.end as usize];
            if *what == Between::BlockComment {
                self.block_comment(text);
            } else {
                self.lines(text);
            }
            self.prev_end = span.end as usize;
            self.after_open = false;
            let behind = &self.tokens.text[self.prev_end..];
            let blanks = behind.len() - behind.trim_start().len();
            self.must_break = *what != Between::BlockComment || behind[..blanks].contains('\n');
            flushed = !self.must_break;
        }
        flushed
    }

    /// Writes lines unchanged, except for trailing blanks.
    fn lines(&mut self, text: &str) {
        for (number, line) in text.split('\n').enumerate() {
            self.out.push_str(if number == 0 { "" } else { "\n" });
            self.out.push_str(line.trim_end());
        }
    }

    /// Writes a block comment. It is re-indented if all further lines begin with `*`; otherwise
    /// they do not change.
    fn block_comment(&mut self, text: &str) {
        let is_starred = text.split('\n').skip(1).all(|line| line.trim_start().starts_with('*'));
        if !is_starred {
            return self.lines(text);
        }
        let indent = "\t".repeat(self.line_indent);
        for (number, line) in text.split('\n').enumerate() {
            if number == 0 {
                self.out.push_str(line.trim_end());
            } else {
                self.out.push('\n');
                self.out.push_str(&indent);
                self.out.push(' ');
                self.out.push_str(line.trim());
            }
        }
    }
}
