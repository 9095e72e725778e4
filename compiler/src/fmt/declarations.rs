//! Formats modules, states and views.
//!
//! In: token ranges of items. Out: lines.
//! Guarantee: the form depends only on the tokens and on whether braces were on one line.

use super::gaps::Gap;
use super::printer::Printer;
use super::roles::Role;
use super::tokens::Class;
use std::ops::Range;

/// Words that begin a clause of a view.
const CLAUSES: [&str; 9] = ["of", "by", "show", "where", "sort", "top", "every", "flame", "empty"];

impl Printer<'_, '_> {
    /// Writes words, separated by a blank unless they were adjacent.
    pub(super) fn words(&mut self, range: &Range<usize>) {
        for at in range.clone() {
            let gap = match () {
                () if at == range.start => Gap::Paragraph,
                () if self.tokens.adjacent(at) || self.tokens.is_mark(at, ";") => Gap::Glue,
                () => Gap::Space,
            };
            self.writer.token(at, gap, 0);
        }
    }

    /// Writes what precedes the braces of a declaration. `by` is a keyword here, not a function.
    pub(super) fn head(&mut self, range: Range<usize>) {
        self.inline = true;
        match range.clone().find(|at| self.tokens.word(*at) == "by") {
            Some(by) if by + 1 < range.end => {
                self.run(range.start..by + 1, Gap::Paragraph, 0, false);
                self.run(by + 1..range.end, Gap::Space, 0, false);
            }
            _ => self.run(range, Gap::Paragraph, 0, false),
        }
        self.inline = false;
    }

    /// A state: one entry per line, unless the whole item was on one line and fits.
    pub(super) fn state(&mut self, range: &Range<usize>, body: usize) {
        let close = self.item.partner(body);
        let mut entries = Vec::new();
        let mut start = body + 1;
        for at in body + 1..close {
            if self.tokens.is_mark(at, ",") || self.tokens.is_mark(at, ";") {
                entries.push(start..at + 1);
                start = at + 1;
            }
        }
        entries.push(start..close);
        self.braces(range, body, &entries, 1);
    }

    /// A view: one clause per line, unless the whole item was on one line and fits.
    pub(super) fn view(&mut self, range: &Range<usize>, body: usize) {
        let close = self.item.partner(body);
        let begins = |at: &usize| {
            let before = self.tokens.word(at - 1);
            CLAUSES.contains(&self.tokens.word(*at))
                && self.tokens.class(*at) == Some(Class::Word)
                && !matches!(before, "," | "." | "of" | "show" | "where" | "sort" | "as")
                && !matches!(self.item.role(*at - 1), Role::Infix | Role::Prefix | Role::Open)
        };
        let starts: Vec<usize> = (body + 1..close).filter(begins).collect();
        let ends = starts.iter().skip(1).copied().chain([close]);
        let clauses: Vec<Range<usize>> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
        self.braces(range, body, &clauses, 2);
    }

    /// Writes a head and parts in braces; parts on the same line are `apart` columns apart.
    fn braces(&mut self, range: &Range<usize>, body: usize, parts: &[Range<usize>], apart: usize) {
        let close = self.item.partner(body);
        self.head(range.start..body);
        let start = self.writer.checkpoint();
        if self.tokens.is_on_one_line(range) {
            self.writer.token(body, Gap::Space, 0);
            for (number, part) in parts.iter().filter(|part| !part.is_empty()).enumerate() {
                self.writer.pad(if number == 0 { 0 } else { apart - 1 });
                self.part(part, Gap::Space, true);
            }
            self.writer.token(close, Gap::Space, 0);
            if self.writer.fits(&start) {
                return self.writer.glued(close + 1..range.end);
            }
            self.writer.go_back(&start);
        }
        self.writer.token(body, Gap::Space, 0);
        for part in parts.iter().filter(|part| !part.is_empty()) {
            self.part(part, Gap::Paragraph, false);
        }
        self.writer.token(close, Gap::Break, 0);
        self.writer.glued(close + 1..range.end);
    }

    /// Writes a clause or an entry; a line that gets too long breaks after a comma.
    fn part(&mut self, part: &Range<usize>, first: Gap, on_one_line: bool) {
        self.inline = true;
        for at in part.clone() {
            let gap = if at == part.start { first } else { self.item.clause_gap(at, part.start) };
            let before = self.writer.checkpoint();
            self.writer.token(at, gap, 1);
            // A column extends to the next comma.
            let is_column = self.tokens.is_mark(at - 1, ",") && at > part.start;
            if is_column && !on_one_line && self.is_wide_until(at, part.end) {
                self.writer.go_back(&before);
                self.writer.token(at, Gap::Break, 2);
            }
        }
        self.inline = false;
    }

    /// Whether the line would be too long with the tokens after this one up to the next comma.
    fn is_wide_until(&self, at: usize, end: usize) -> bool {
        let stop = (at + 1..end).find(|next| self.tokens.is_mark(*next, ",")).map_or(end, |comma| comma + 1);
        let rest = self.tokens.span(stop - 1).end - self.tokens.span(at).end;
        self.writer.is_wider_by(rest as usize)
    }
}
