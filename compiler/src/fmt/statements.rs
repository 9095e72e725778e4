//! Statements, blocks and expressions.
//!
//! In: ranges of an item's tokens. Out: lines.
//! Guarantee: a line break within a statement stays where it was, unless the next token belongs to the line before it; a block is on one
//! line only if it was, has at most one statement, and fits.

use super::printer::{Gap, Printer, WIDTH};
use super::roles::Role;
use crate::parse::pieces::Class;
use std::ops::Range;

/// An open bracket of an expression.
struct Open {
    at: usize,
    /// Whether its line ends with it.
    hangs: bool,
}

impl Printer<'_> {
    /// Writes the tokens of a statement, or of an item around its block; lines that continue it have more tabs than `base`.
    pub(super) fn run(&mut self, range: Range<usize>, first: Gap, base: usize, blocks_at_base: bool) {
        let mut opens: Vec<Open> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            // Below a condition stands its block: lines that continue the condition stand further right.
            let further = if blocks_at_base && !self.item.is_c { 2 } else { 1 };
            let indent = if at == range.start { base } else { self.continuation(&opens, at, base, further) };
            let gap = if at == range.start { first } else { self.gap_before(at, &opens) };
            match self.role(at) {
                Role::BraceOpen => {
                    let inner = if blocks_at_base { base } else { self.line_indent };
                    let inner = if at == range.start { base } else { inner };
                    self.block(at, gap, inner);
                    at = self.partner(at);
                }
                role => {
                    self.token(at, gap, indent);
                    match role {
                        Role::Open => {
                            let closes_at_once = self.partner(at) == at + 1;
                            let hangs =
                                !self.inline && !closes_at_once && at + 1 < range.end && self.broken(at, at + 1);
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

    /// The tabs of a line that begins with this token in the middle of a statement.
    fn continuation(&self, opens: &[Open], at: usize, base: usize, further: usize) -> usize {
        let hanging = opens.iter().filter(|open| open.hangs).count();
        match opens.last() {
            Some(open) if open.hangs && self.partner(open.at) == at => base + hanging - 1,
            Some(open) if open.hangs && (open.at + 1 == at || self.role(at - 1) == Role::Comma) => base + hanging,
            None if self.item.is_c && self.role(at - 1) == Role::Comma => base,
            None if self.role(at) == Role::Keyword && self.word(at) == "else" => base,
            _ => base + hanging + further,
        }
    }

    fn gap_before(&self, at: usize, opens: &[Open]) -> Gap {
        let gap = if self.item.is_c { self.c_gap(at) } else { self.code_gap(at) };
        if !self.inline && self.broken(at - 1, at) && self.may_break(at, opens) { Gap::Break } else { gap }
    }

    /// Whether a line break in front of this token is the author's to make.
    fn may_break(&self, at: usize, opens: &[Open]) -> bool {
        use Role::{
            BraceClose, BraceOpen, CastClose, Close, Colon, Comma, Dot, Keyword, Open, Pointer, Postfix,
            PredicateClose, PredicateOpen, Prefix, Semicolon, Value,
        };
        match (self.role(at - 1), self.role(at)) {
            (_, Comma | Semicolon | Postfix | Pointer | Colon | PredicateClose | BraceOpen) => false,
            (Prefix | Dot | CastClose | Keyword | PredicateOpen | BraceClose, _) => false,
            (_, Close | CastClose) => opens.last().is_some_and(|open| open.hangs),
            (Value | Close, Open) => false,
            _ => true,
        }
    }

    fn code_gap(&self, at: usize) -> Gap {
        use Role::{
            BraceClose, BraceOpen, CastClose, Close, Colon, Comma, Dot, Infix, Keyword, Open, Pointer, Postfix,
            PredicateClose, PredicateOpen, Prefix, Semicolon, Value,
        };
        let (before, here) = (self.role(at - 1), self.role(at));
        if self.would_merge(at) {
            return Gap::Space;
        }
        // `2%` is a percentage, which a blank would make a remainder.
        if self.word(at) == "%" && matches!(self.word(at + 1), ")" | "]" | "," | ";" | "}") {
            return if self.adjacent(at) { Gap::Glue } else { Gap::Space };
        }
        match (before, here) {
            (_, Comma | Semicolon | Postfix | Dot | Close | Colon | PredicateClose) | (Open | Dot, _) => Gap::Glue,
            // `?:`
            (Infix, Infix) if self.word(at) == ":" && self.word(at - 1) == "?" => Gap::Glue,
            (Pointer, CastClose | Pointer) | (_, CastClose) => Gap::Glue,
            (Prefix | CastClose | PredicateOpen, _) => Gap::Glue,
            (Value | Close, Open) => Gap::Glue,
            (BraceClose, Open) if self.word(at) == "[" => Gap::Glue,
            (Keyword | BraceOpen | BraceClose, _) => Gap::Space,
            _ => Gap::Space,
        }
    }

    /// In C definitions, blanks are where the author has them.
    fn c_gap(&self, at: usize) -> Gap {
        match (self.role(at - 1), self.role(at)) {
            (_, Role::Comma | Role::Semicolon | Role::Close | Role::CastClose) | (Role::Open, _) => Gap::Glue,
            (Role::Comma | Role::Semicolon | Role::BraceOpen | Role::BraceClose, _) => Gap::Space,
            (_, Role::BraceOpen | Role::BraceClose) => Gap::Space,
            _ if self.adjacent(at) => Gap::Glue,
            _ => Gap::Space,
        }
    }

    /// Whether this token and the one before would be read as something else without a blank between them.
    fn would_merge(&self, at: usize) -> bool {
        let (before, here) = (self.word(at - 1), self.word(at));
        let marks = self.class(at - 1) == Some(Class::Mark) && self.class(at) == Some(Class::Mark);
        let (last, first) = (before.chars().next_back(), here.chars().next());
        let sticky = |letter: Option<char>| letter.is_some_and(|letter| "+-*/&|=<>!%^.".contains(letter));
        let is_plain = matches!(before, "!" | "~" | "*") && matches!(here, "!" | "~" | "-" | "&" | "*");
        let comment = last == Some('/') && matches!(first, Some('*' | '/'));
        let power = before == "*" && here == "*" && self.role(at) != Role::Pointer && !self.adjacent(at);
        marks && (comment || power || (sticky(last) && sticky(first) && !is_plain && !self.adjacent(at)))
    }

    // ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Writes a block, on one line if that is its form; its lines have one tab more than `base`.
    pub(super) fn block(&mut self, open: usize, gap: Gap, base: usize) {
        if self.inline {
            return self.short_block(open, gap, base);
        }
        let start = self.checkpoint();
        if self.is_short(open) {
            self.inline = true;
            self.short_block(open, gap, base);
            self.inline = false;
            if self.fits(&start) {
                return;
            }
            self.go_back(&start);
        }
        self.long_block(open, gap, base);
    }

    fn short_block(&mut self, open: usize, gap: Gap, base: usize) {
        let close = self.partner(open);
        self.token(open, gap, base);
        if close > open + 1 {
            self.run(open + 1..close, Gap::Space, base, true);
        }
        self.token(close, Gap::Space, base);
    }

    pub(super) fn long_block(&mut self, open: usize, gap: Gap, base: usize) {
        let close = self.partner(open);
        self.token(open, gap, base);
        self.statements(open + 1..close, base + 1);
        self.token(close, Gap::Break, base);
    }

    /// Whether a block may be on one line: it was, and so are the blocks in it, each with at most one statement.
    pub(super) fn is_short(&self, open: usize) -> bool {
        let close = self.partner(open);
        if close == open + 1 && !self.commented(open, close) {
            return true;
        }
        let bytes = (self.span(close).start - self.span(open).start) as usize;
        let inner = (open + 1..close).filter(|at| self.role(*at) == Role::BraceOpen);
        bytes <= 4 * WIDTH
            && !self.broken(open, close)
            && std::iter::once(open).chain(inner).all(|open| self.has_one_statement(open))
    }

    fn has_one_statement(&self, open: usize) -> bool {
        let close = self.partner(open);
        let end = self.statement_end(open + 1, close);
        (end..close).all(|at| self.role(at) == Role::Semicolon)
    }

    fn statements(&mut self, range: Range<usize>, indent: usize) {
        let mut at = range.start;
        while at < range.end {
            let end = self.statement_end(at, range.end);
            if self.role(at) == Role::Semicolon {
                self.token(at, if at == range.start { Gap::Break } else { Gap::Glue }, indent);
            } else if self.is_compound(at) {
                self.compound(at..end, indent);
            } else {
                self.run(at..end, Gap::Paragraph, indent, false);
            }
            at = end;
        }
    }

    fn is_compound(&self, at: usize) -> bool {
        !self.item.is_c
            && (self.role(at) == Role::BraceOpen || matches!(self.word(at), "if" | "while" | "for" | "unroll"))
    }

    /// One past the last token of the statement that begins here.
    fn statement_end(&self, start: usize, limit: usize) -> usize {
        let is_compound = start < limit && self.is_compound(start);
        let mut at = start;
        while at < limit {
            match self.role(at) {
                Role::Semicolon => return at + 1,
                Role::BraceOpen => {
                    let is_body = at == start || self.is_body(at);
                    at = self.partner(at);
                    let goes_on = self.word(at + 1) == "else" && at + 1 < limit;
                    if is_compound && is_body && !goes_on {
                        return at + 1;
                    }
                }
                Role::Open => at = self.partner(at),
                _ => {}
            }
            at += 1;
        }
        limit
    }

    /// Whether the block that begins here is what a condition leads to, not a value.
    fn is_body(&self, open: usize) -> bool {
        !matches!(self.role(open - 1), Role::Infix | Role::Prefix | Role::Open | Role::Comma | Role::Dot)
    }

    /// `if`, `while`, `for`, `unroll` with all of their blocks: on one line if all of it was and fits.
    fn compound(&mut self, range: Range<usize>, indent: usize) {
        let last = range.end - 1;
        let blocks: Vec<usize> = range.clone().filter(|at| self.role(*at) == Role::BraceOpen).collect();
        let start = self.checkpoint();
        if !self.broken_line(range.start, last) && blocks.iter().all(|open| self.is_short(*open)) {
            self.inline = true;
            self.run(range.clone(), Gap::Paragraph, indent, true);
            self.inline = false;
            if self.fits(&start) {
                return;
            }
            self.go_back(&start);
        }
        self.long_compound(range, indent);
    }

    fn broken_line(&self, first: usize, last: usize) -> bool {
        let bytes = (self.span(last).end - self.span(first).start) as usize;
        bytes > 4 * WIDTH || (last > first && self.broken(first, last))
    }

    /// The parts between the blocks, and the blocks, each on lines of its own.
    fn long_compound(&mut self, range: Range<usize>, indent: usize) {
        let (mut at, mut gap) = (range.start, Gap::Paragraph);
        while at < range.end {
            let brace = self.next_body(at, range.end);
            if at < brace {
                self.run(at..brace, gap, indent, true);
                gap = Gap::Space;
            }
            if brace < range.end {
                let close = self.partner(brace);
                if close == brace + 1 && !self.commented(brace, close) {
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

    fn next_body(&self, from: usize, limit: usize) -> usize {
        let mut at = from;
        while at < limit {
            match self.role(at) {
                Role::BraceOpen if at == from || self.is_body(at) => return at,
                Role::BraceOpen | Role::Open => at = self.partner(at),
                _ => {}
            }
            at += 1;
        }
        limit
    }
}
