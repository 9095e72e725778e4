//! Writes pieces one after the other.
//!
//! In: pieces and the gap in front of each. Out: text.
//! Guarantee: every piece is written once and in order; what stands between two tokens comes with the second one; at most one blank
//! line follows another line; no line ends with blanks.

use super::roles::{Role, Roles};
use crate::parse::pieces::{Between, Class, Pieces};
use crate::source::Span;

/// The longest line that is put together from shorter ones.
pub(super) const WIDTH: usize = 100;

/// How wide a tab is shown.
const TAB_WIDTH: usize = 8;

/// What stands in front of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nothing.
    Glue,
    /// A blank.
    Space,
    /// A line break.
    Break,
    /// A line break, and a blank line if there was one.
    Paragraph,
}

/// The item that is being written.
pub(super) struct Item {
    /// Its first token.
    pub start: usize,
    /// What its tokens do.
    pub roles: Roles,
    /// Whether it is C, whose blanks are kept.
    pub is_c: bool,
}

/// What was written up to a place.
pub(super) struct Checkpoint {
    written: usize,
    next_between: usize,
    prev_end: usize,
    must_break: bool,
    after_open: bool,
    line_indent: usize,
}

/// Text under construction.
pub(super) struct Printer<'a> {
    pub(super) text: &'a str,
    pub(super) pieces: &'a Pieces,
    pub(super) out: String,
    pub(super) item: Item,
    /// Whether blocks are being tried on one line.
    pub(super) inline: bool,
    /// Tabs at the beginning of the present line.
    pub(super) line_indent: usize,
    next_between: usize,
    /// Where in the text the last piece ended.
    prev_end: usize,
    /// Whether nothing may follow on this line.
    must_break: bool,
    /// Whether the last piece was a `{`.
    after_open: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(text: &'a str, pieces: &'a Pieces) -> Printer<'a> {
        let roles = Roles { role: Vec::new(), partner: Vec::new() };
        Printer {
            text,
            pieces,
            out: String::with_capacity(text.len()),
            item: Item { start: 0, roles, is_c: false },
            inline: false,
            line_indent: 0,
            next_between: 0,
            prev_end: 0,
            must_break: false,
            after_open: false,
        }
    }

    // ── Questions ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) fn span(&self, at: usize) -> Span {
        self.pieces.tokens[at].1
    }

    pub(super) fn word(&self, at: usize) -> &'a str {
        let text = self.text;
        self.pieces.tokens.get(at).map_or("", |(_, span)| &text[span.start as usize..span.end as usize])
    }

    pub(super) fn class(&self, at: usize) -> Option<Class> {
        self.pieces.tokens.get(at).map(|(class, _)| *class)
    }

    pub(super) fn role(&self, at: usize) -> Role {
        self.item.roles.role[at - self.item.start]
    }

    /// The bracket that belongs to this one.
    pub(super) fn partner(&self, at: usize) -> usize {
        self.item.roles.partner[at - self.item.start] + self.item.start
    }

    /// Whether the text has a line break between two tokens.
    pub(super) fn broken(&self, from: usize, to: usize) -> bool {
        self.text[self.span(from).end as usize..self.span(to).start as usize].contains('\n')
    }

    /// Whether two tokens touch in the text.
    pub(super) fn adjacent(&self, at: usize) -> bool {
        at > 0 && self.span(at - 1).end == self.span(at).start
    }

    /// Whether a comment or a directive stands between two tokens.
    pub(super) fn commented(&self, from: usize, to: usize) -> bool {
        let (from, to) = (self.span(from).end, self.span(to).start);
        let at = self.pieces.between.partition_point(|(_, span)| span.start < from);
        self.pieces.between.get(at).is_some_and(|(_, span)| span.start < to)
    }

    /// The present line, unless it is far longer than lines are.
    fn line(&self) -> Option<&str> {
        let bytes = self.out.as_bytes();
        let tail = &bytes[bytes.len().saturating_sub(4 * WIDTH)..];
        match tail.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => self.out.get(bytes.len() - tail.len() + at + 1..),
            None if tail.len() == bytes.len() => Some(&self.out),
            None => None,
        }
    }

    /// Whether the present line is longer than lines should be.
    pub(super) fn is_wide(&self) -> bool {
        self.is_wider_by(0)
    }

    /// Whether it would be with so many more characters.
    pub(super) fn is_wider_by(&self, more: usize) -> bool {
        let width = |letter: char| if letter == '\t' { TAB_WIDTH } else { 1 };
        self.line().is_none_or(|line| line.chars().map(width).sum::<usize>() + more > WIDTH)
    }

    // ── Trials ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────

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

    /// Whether what was written since is one line that fits.
    pub(super) fn fits(&self, since: &Checkpoint) -> bool {
        !self.out[since.written..].trim_start_matches('\n').contains('\n') && !self.is_wide()
    }

    // ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Writes a token; where it must begin a line, that has `indent` tabs.
    pub(super) fn token(&mut self, at: usize, gap: Gap, indent: usize) {
        let span = self.span(at);
        let closes_block = self.word(at) == "}";
        let flushed = self.flush(span.start, indent + usize::from(closes_block && gap != Gap::Space));
        let is_closer = matches!(self.word(at), ")" | "]" | ";" | ",");
        let gap = match gap {
            Gap::Glue if flushed && !is_closer => Gap::Space,
            // A comment at the beginning of a line belongs to what follows it there.
            Gap::Break | Gap::Paragraph if flushed && !closes_block && self.comment_begins_line() => Gap::Space,
            gap => gap,
        };
        self.gap(gap, span.start as usize, indent, closes_block);
        self.out.push_str(self.word(at));
        self.prev_end = span.end as usize;
        self.after_open = self.word(at) == "{";
    }

    /// Writes a stretch of the text as it is, but for blanks at the end of lines.
    pub(super) fn verbatim(&mut self, span: Span) {
        self.flush(span.start, 0);
        self.gap(Gap::Paragraph, span.start as usize, 0, false);
        self.lines(&self.text[span.start as usize..span.end as usize]);
        self.prev_end = span.end as usize;
        self.after_open = false;
        while self.pieces.between.get(self.next_between).is_some_and(|(_, inside)| inside.start < span.end) {
            self.next_between += 1;
        }
    }

    /// Writes what stands behind the last token, and ends the last line.
    pub(super) fn finish(mut self) -> String {
        self.flush(u32::MAX, 0);
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
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

    /// Whether the present line has comments only.
    fn comment_begins_line(&self) -> bool {
        self.line().is_some_and(|line| line.trim_start().starts_with("/*"))
    }

    fn newlines(&self, until: usize) -> usize {
        self.text[self.prev_end..until].matches('\n').count()
    }

    fn newline(&mut self, blank: bool, indent: usize) {
        self.out.push_str(if blank { "\n\n" } else { "\n" });
        self.out.extend(std::iter::repeat_n('\t', indent));
        self.line_indent = indent;
    }

    /// Writes comments and directives that begin before `until`; says whether the last is on the present line.
    fn flush(&mut self, until: u32, indent: usize) -> bool {
        let mut flushed = false;
        while let Some((what, span)) = self.pieces.between.get(self.next_between).filter(|(_, span)| span.start < until)
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
            let text = &self.text[start..span.end as usize];
            if *what == Between::BlockComment {
                self.block_comment(text);
            } else {
                self.lines(text);
            }
            self.prev_end = span.end as usize;
            self.after_open = false;
            let behind = &self.text[self.prev_end..];
            let blanks = behind.len() - behind.trim_start().len();
            self.must_break = *what != Between::BlockComment || behind[..blanks].contains('\n');
            flushed = !self.must_break;
        }
        flushed
    }

    /// Lines as they are, but for blanks at their ends.
    fn lines(&mut self, text: &str) {
        for (number, line) in text.split('\n').enumerate() {
            self.out.push_str(if number == 0 { "" } else { "\n" });
            self.out.push_str(line.trim_end());
        }
    }

    /// A comment whose lines begin with `*` moves as a whole; any other keeps its further lines.
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
