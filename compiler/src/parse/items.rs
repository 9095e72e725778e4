//! Splits a script into top-level items, so that an error in one does not hide those in others.
//!
//! In: tokens. Out: items, each with its tokens and the diagnostics for its brackets.
//! Guarantee: in an item without problems every bracket is closed, nesting is at most
//! [`NESTING_LIMIT`] levels deep, and no expression has more than [`CHAIN_LIMIT`] operators in a
//! row. These limits bound the recursion of every later stage.

use super::errors::{self, PROBLEM_LIMIT};
use super::tokens::{Token, TokenKind};
use crate::diagnostic::Diagnostic;
use crate::keywords;
use crate::source::{Source, Span};
use std::ops::Range;

/// Maximum number of brackets and `?` that are open at the same time.
pub(super) const NESTING_LIMIT: usize = 128;

/// Maximum number of operators in a row, summed over all open levels.
pub(super) const CHAIN_LIMIT: usize = 300;

/// One top-level item.
pub(super) struct Item {
    pub tokens: Range<usize>,
    /// From its first to its last character.
    pub span: Span,
    /// Diagnostics for its brackets; if there are any, the item is not parsed.
    pub problems: Vec<Diagnostic>,
}

/// An open bracket.
struct Level {
    /// The bracket's token; `None` for the top level.
    open: Option<usize>,
    /// Operators since the last statement or comma.
    chain: usize,
    /// Open `?` since the last statement or comma.
    questions: usize,
}

/// Splits `tokens` into items.
pub(super) fn split(source: &Source, tokens: &[Token]) -> Vec<Item> {
    let mut splitter = Splitter {
        source,
        tokens,
        start: 0,
        suspect: None,
        levels: vec![Level::new(None)],
        nesting: 0,
        chain: 0,
        items: Vec::new(),
        wrong_items: 0,
        problems: Vec::new(),
    };
    for at in 0..tokens.len() {
        splitter.take(at);
        if splitter.wrong_items > PROBLEM_LIMIT {
            return splitter.items;
        }
    }
    splitter.close_all();
    splitter.end_item(tokens.len());
    splitter.items
}

/// The bracket that closes `open`.
fn partner(open: &str) -> &'static str {
    match open {
        "{" => "}",
        "(" => ")",
        _ => "]",
    }
}

impl Level {
    fn new(open: Option<usize>) -> Level {
        Level { open, chain: 0, questions: 0 }
    }
}

struct Splitter<'a> {
    source: &'a Source,
    tokens: &'a [Token],
    /// First token of the current item.
    start: usize,
    /// A `{` whose closing brace is indented less than the line of the `{`.
    suspect: Option<Span>,
    levels: Vec<Level>,
    /// Open brackets and `?` of all levels.
    nesting: usize,
    /// Operators of all levels.
    chain: usize,
    items: Vec<Item>,
    /// Number of items with a problem.
    wrong_items: usize,
    /// Bracket diagnostics of the current item; only the first is kept.
    problems: Vec<Diagnostic>,
}

impl Splitter<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| self.source.slice(token.span))
    }

    fn take(&mut self, at: usize) {
        match self.tokens[at].kind {
            TokenKind::Boundary => {
                self.close_all();
                self.end_item(at);
                self.start = at + 1;
            }
            TokenKind::Mark => self.mark(at),
            _ => {}
        }
    }

    fn mark(&mut self, at: usize) {
        match self.source.slice(self.tokens[at].span) {
            "{" | "(" | "[" => {
                self.count(at, 1, 0);
                self.levels.push(Level::new(Some(at)));
                self.nesting += 1;
                self.check_limits(at);
            }
            close @ ("}" | ")" | "]") => self.close(at, close),
            ";" => self.semicolon(at),
            "," => self.reset(),
            "?" => self.count(at, 1, 1),
            _ => self.count(at, 1, 0),
        }
    }

    /// Adds operators and open `?` to the current level.
    fn count(&mut self, at: usize, chain: usize, questions: usize) {
        if let Some(level) = self.levels.last_mut() {
            level.chain += chain;
            level.questions += questions;
        }
        self.chain += chain;
        self.nesting += questions;
        self.check_limits(at);
    }

    fn check_limits(&mut self, at: usize) {
        let span = self.tokens[at].span;
        if self.nesting > NESTING_LIMIT {
            self.report(errors::nested_too_deep(span, NESTING_LIMIT));
        } else if self.chain > CHAIN_LIMIT {
            self.report(errors::too_long(span, CHAIN_LIMIT));
        }
    }

    /// One wrong bracket makes others look wrong, so only the first of an item is reported.
    fn report(&mut self, problem: Diagnostic) {
        if self.problems.is_empty() {
            self.problems.push(problem);
        }
    }

    /// Resets the counters of the current level at a new statement or argument.
    fn reset(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            self.chain = self.chain.saturating_sub(level.chain);
            self.nesting = self.nesting.saturating_sub(level.questions);
            (level.chain, level.questions) = (0, 0);
        }
    }

    fn pop(&mut self) {
        self.reset();
        self.levels.pop();
        self.nesting = self.nesting.saturating_sub(1);
    }

    fn innermost(&self) -> Option<usize> {
        self.levels.last().and_then(|level| level.open)
    }

    fn semicolon(&mut self, at: usize) {
        self.reset();
        match self.innermost() {
            None => {
                let next = self.text(at + 1);
                if next != "{" && next != "/" {
                    self.end_item(at + 1);
                }
            }
            Some(open) if self.text(open) == "{" => {}
            // C's `for (a; b; c)` is reported as such later.
            Some(open) if open > 0 && keywords::head(self.text(open - 1)) == Some(keywords::Head::Iteration) => {}
            Some(_) => self.close_until_brace(),
        }
    }

    fn close(&mut self, at: usize, close: &str) {
        if close == "}" {
            self.close_until_brace();
        }
        // `(]`: the opening bracket is more likely wrong. Report it and close it here too.
        while close != "}"
            && let Some(open) = self.innermost()
            && self.text(open) != "{"
            && partner(self.text(open)) != close
        {
            self.report_unclosed(open);
            self.pop();
        }
        match self.innermost() {
            Some(open) if partner(self.text(open)) == close => self.close_matching(at, open, close),
            _ => {
                let opener = if close == "}" {
                    "{"
                } else if close == ")" {
                    "("
                } else {
                    "["
                };
                self.report(errors::unmatched_close(self.tokens[at].span, close, opener));
                if self.innermost().is_none() && close == "}" {
                    self.end_item(at + 1);
                }
            }
        }
    }

    fn close_matching(&mut self, at: usize, open: usize, close: &str) {
        if close == "}" && self.suspect.is_none() {
            self.compare_indentation(at, open);
        }
        self.pop();
        if close != "}" {
            if close == ")" && self.attributes_end_a_definition(at) {
                self.end_item(at + 1);
            }
            return;
        }
        // `{ … } + 1` continues the expression; anything else after a brace is a new statement.
        let source = self.source;
        let next = self.tokens.get(at + 1).map_or("", |token| source.slice(token.span));
        let continues = self.tokens.get(at + 1).is_some_and(|token| token.kind == TokenKind::Mark)
            && !matches!(next, "}" | "{" | ";" | "(");
        if !continues {
            self.reset();
        }
        if self.innermost().is_none() && !self.definition_goes_on(next) {
            let has_semicolon = next == ";";
            self.end_item(at + 1);
            if has_semicolon {
                self.start = at + 2;
            }
        }
    }

    /// Whether a C definition continues after its closing brace, up to a semicolon. Only `typedef`
    /// requires the semicolon.
    fn definition_goes_on(&self, next: &str) -> bool {
        match self.text(self.start) {
            "typedef" => true,
            "struct" | "union" | "enum" => matches!(next, ";" | "__attribute__"),
            _ => false,
        }
    }

    /// Whether a C definition ends with the attributes that close here, without a semicolon.
    fn attributes_end_a_definition(&self, at: usize) -> bool {
        self.innermost().is_none()
            && matches!(self.text(self.start), "struct" | "union" | "enum")
            && !matches!(self.text(at + 1), ";" | "__attribute__")
            && (self.start..at).any(|token| self.text(token) == "}")
    }

    /// Remembers a `{` whose line is indented more than its `}`: one of the two is likely
    /// misplaced.
    fn compare_indentation(&mut self, at: usize, open: usize) {
        let (open, close) = (self.tokens[open].span, self.tokens[at].span);
        if let Some(outer) = self.indentation(close.start, true)
            && let Some(inner) = self.indentation(open.start, false)
            && outer < inner
        {
            self.suspect = Some(open);
        }
    }

    /// Indentation of the line of `offset`; with `first`, only if nothing but blanks precedes
    /// `offset`.
    fn indentation(&self, offset: u32, first: bool) -> Option<usize> {
        let before = &self.source.text.as_bytes()[..offset as usize];
        let blanks_before = before.iter().rev().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let stands_first = matches!(before[..before.len() - blanks_before].last(), None | Some(b'\n'));
        if first {
            return stands_first.then_some(blanks_before);
        }
        let line = before.rsplit(|b| *b == b'\n').next().unwrap_or_default();
        Some(line.iter().take_while(|b| matches!(b, b' ' | b'\t')).count())
    }

    fn close_until_brace(&mut self) {
        while let Some(open) = self.innermost()
            && self.text(open) != "{"
        {
            self.report_unclosed(open);
            self.pop();
        }
    }

    fn close_all(&mut self) {
        while let Some(open) = self.innermost() {
            self.report_unclosed(open);
            self.pop();
        }
    }

    fn report_unclosed(&mut self, open: usize) {
        let opener = self.text(open);
        let span = self.tokens[open].span;
        let mut problem = errors::unclosed_bracket(span, opener, partner(opener));
        if let Some(suspect) = self.suspect.filter(|suspect| *suspect != span && opener == "{") {
            problem = problem.related(suspect, "judging by the indentation, it may be this one");
        }
        self.report(problem);
    }

    /// Ends the current item before token `end`.
    fn end_item(&mut self, end: usize) {
        if let (Some(first), Some(last)) =
            (self.tokens.get(self.start), end.checked_sub(1).and_then(|at| self.tokens.get(at)))
            && self.start < end
        {
            let span = first.span.to(last.span);
            self.wrong_items += usize::from(!self.problems.is_empty());
            self.items.push(Item { tokens: self.start..end, span, problems: std::mem::take(&mut self.problems) });
        }
        self.start = end;
        self.problems.clear();
        self.suspect = None;
    }
}
