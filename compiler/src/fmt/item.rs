//! An item whose tokens have roles: where its statements end, and what is one block.
//!
//! In: the tokens and their roles. Out: answers about statements and blocks.
//! Guarantee: a wrong role changes blanks and line breaks, never a token.

use super::form::Form;
use super::roles::{Role, Roles, roles};
use super::tokens::Tokens;
use super::writer::WIDTH;
use crate::keywords;
use std::ops::Range;

/// The item that is being written.
pub(super) struct Item<'a> {
    pub tokens: Tokens<'a>,
    /// Its first token.
    start: usize,
    /// The roles of its tokens.
    roles: Roles,
    /// Whether it is a C definition, whose blanks are kept.
    pub is_c: bool,
}

impl<'a> Item<'a> {
    /// The item of this form with the tokens in `range`.
    pub(super) fn new(tokens: Tokens<'a>, range: &Range<usize>, form: &Form) -> Item<'a> {
        let predicates: Vec<(usize, usize)> = match form {
            Form::Probe { predicate, .. } => predicate.iter().copied().collect(),
            Form::Span(parts) => parts.stages.iter().filter_map(|stage| stage.predicate).collect(),
            _ => Vec::new(),
        };
        let predicates: Vec<_> =
            predicates.iter().map(|(open, close)| (open - range.start, close - range.start)).collect();
        let words: Vec<_> = range.clone().map(|at| (tokens.pieces.tokens[at].0, tokens.word(at))).collect();
        let is_c = matches!(form, Form::Definition);
        Item { tokens, start: range.start, roles: roles(&words, &predicates), is_c }
    }

    pub(super) fn role(&self, at: usize) -> Role {
        self.roles.role[at - self.start]
    }

    /// The matching bracket.
    pub(super) fn partner(&self, at: usize) -> usize {
        self.roles.partner[at - self.start] + self.start
    }

    /// Whether a block may be on one line: it was, and it and all blocks in it have at most one
    /// statement. Empty blocks may, too.
    pub(super) fn is_short(&self, open: usize) -> bool {
        let close = self.partner(open);
        if close == open + 1 && !self.tokens.commented(open, close) {
            return true;
        }
        let bytes = (self.tokens.span(close).start - self.tokens.span(open).start) as usize;
        let inner = (open + 1..close).filter(|at| self.role(*at) == Role::BraceOpen);
        bytes <= 4 * WIDTH
            && !self.tokens.broken(open, close)
            && std::iter::once(open).chain(inner).all(|open| self.has_one_statement(open))
    }

    fn has_one_statement(&self, open: usize) -> bool {
        let close = self.partner(open);
        let end = self.statement_end(open + 1, close);
        (end..close).all(|at| self.role(at) == Role::Semicolon)
    }

    pub(super) fn is_compound(&self, at: usize) -> bool {
        !self.is_c && (self.role(at) == Role::BraceOpen || keywords::is_compound(self.tokens.word(at)))
    }

    /// One past the last token of the statement that begins at `start`.
    pub(super) fn statement_end(&self, start: usize, limit: usize) -> usize {
        let is_compound = start < limit && self.is_compound(start);
        let mut at = start;
        while at < limit {
            match self.role(at) {
                Role::Semicolon => return at + 1,
                Role::BraceOpen => {
                    let is_body = at == start || self.is_body(at);
                    at = self.partner(at);
                    let continues = self.tokens.word(at + 1) == "else" && at + 1 < limit;
                    if is_compound && is_body && !continues {
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

    /// Whether the block that begins here is the body of a condition or loop, not a value.
    pub(super) fn is_body(&self, open: usize) -> bool {
        !matches!(self.role(open - 1), Role::Infix | Role::Prefix | Role::Open | Role::Comma | Role::Dot)
    }

    pub(super) fn next_body(&self, from: usize, limit: usize) -> usize {
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
