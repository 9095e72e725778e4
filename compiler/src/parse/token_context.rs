//! Token context around a parse error.
//!
//! In: an item's tokens and the failure. Out: the tokens before and after it, and the open
//! brackets.
//! Guarantee: no query fails; beyond either end the text is empty.

use super::tokens::{Token, TokenKind};
use super::tree::Failure;
use crate::keywords;
use crate::source::{Source, Span};

/// The tokens around a failure.
pub(super) struct TokenContext<'a> {
    pub source: &'a Source,
    pub tokens: &'a [Token],
    /// The token that does not fit; one past the last if the item ends too early.
    pub at: usize,
    pub failure: &'a Failure,
    /// Whether no `{` is open yet.
    pub in_header: bool,
    /// The innermost open bracket.
    pub open: Option<usize>,
    /// The first token of the current statement.
    pub statement: usize,
}

impl<'a> TokenContext<'a> {
    pub(super) fn new(source: &'a Source, tokens: &'a [Token], at: usize, failure: &'a Failure) -> TokenContext<'a> {
        let mut scene = TokenContext { source, tokens, at, failure, in_header: true, open: None, statement: 0 };
        let mut opened = Vec::new();
        for here in 0..at.min(tokens.len()) {
            match scene.mark(here) {
                "{" => {
                    opened.push(here);
                    scene.in_header = false;
                    scene.statement = here + 1;
                }
                "(" | "[" => opened.push(here),
                ")" | "]" => {
                    opened.pop();
                }
                "}" => {
                    opened.pop();
                    scene.statement = here + 1;
                }
                ";" if opened.last().is_none_or(|open| scene.mark(*open) == "{") => {
                    scene.statement = here + 1;
                }
                _ => {}
            }
        }
        scene.open = opened.last().copied();
        scene
    }

    pub(super) fn token(&self, at: usize) -> Option<Token> {
        self.tokens.get(at).copied()
    }

    pub(super) fn kind(&self, at: usize) -> Option<TokenKind> {
        self.token(at).map(|token| token.kind)
    }

    pub(super) fn text(&self, at: usize) -> &'a str {
        self.token(at).map_or("", |token| self.source.slice(token.span))
    }

    /// The text of an operator or punctuation token; empty for other tokens.
    pub(super) fn mark(&self, at: usize) -> &'a str {
        if self.kind(at) == Some(TokenKind::Mark) { self.text(at) } else { "" }
    }

    pub(super) fn word(&self, at: usize) -> &'a str {
        if self.kind(at) == Some(TokenKind::Word) { self.text(at) } else { "" }
    }

    /// The span of a token; past the end, that of the last one.
    pub(super) fn span(&self, at: usize) -> Span {
        let token = self.token(at).or_else(|| self.tokens.last().copied());
        token.map_or(Span::new(self.failure.offset, self.failure.offset), |token| token.span)
    }

    /// The token before the failure, if there is one.
    pub(super) fn before(&self) -> Option<usize> {
        self.at.checked_sub(1)
    }

    /// Whether a value can end with this token.
    pub(super) fn ends_value(&self, at: usize) -> bool {
        match self.kind(at) {
            Some(TokenKind::Word) => !keywords::is_statement(self.text(at)),
            Some(TokenKind::Number | TokenKind::Str | TokenKind::Var | TokenKind::Map | TokenKind::Part) => true,
            Some(TokenKind::Mark) => matches!(self.text(at), ")" | "]" | "++" | "--"),
            _ => false,
        }
    }

    /// Whether a value or a statement can begin with this token.
    pub(super) fn begins_value(&self, at: usize) -> bool {
        match self.kind(at) {
            Some(TokenKind::Word | TokenKind::Number | TokenKind::Str | TokenKind::Var | TokenKind::Map) => true,
            Some(TokenKind::Mark) => matches!(self.text(at), "++" | "--" | "!" | "~"),
            _ => false,
        }
    }

    pub(super) fn is_infix(&self, at: usize) -> bool {
        const INFIX: [&str; 23] = [
            "||", "&&", "|", "^", "&", "==", "!=", "<", ">", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "=",
            "+=", "-=", "?", ":",
        ];
        INFIX.contains(&self.mark(at))
    }
}
