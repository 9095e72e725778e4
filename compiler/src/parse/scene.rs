//! Where a failure happened: the tokens around it and what is open there.
//!
//! In: an item's tokens and the failure. Out: questions about them, for finding the words.
//! Guarantee: no question fails; past either end there is empty text.

use super::tokens::{Kind, Token};
use super::tree::Failure;
use crate::source::{Source, Span};

/// Words that begin a statement and are no functions.
pub(super) const STATEMENT_WORDS: [&str; 9] =
    ["if", "else", "while", "for", "unroll", "return", "break", "continue", "let"];

/// The surroundings of a failure.
pub(super) struct Scene<'a> {
    pub source: &'a Source,
    pub tokens: &'a [Token],
    /// The token that does not fit; one past the last when the item ends too early.
    pub at: usize,
    pub failure: &'a Failure,
    /// Whether no `{` is open yet.
    pub in_header: bool,
    /// The innermost open bracket.
    pub open: Option<usize>,
    /// The first token of the statement at hand.
    pub statement: usize,
}

impl<'a> Scene<'a> {
    pub(super) fn new(source: &'a Source, tokens: &'a [Token], at: usize, failure: &'a Failure) -> Scene<'a> {
        let mut scene = Scene { source, tokens, at, failure, in_header: true, open: None, statement: 0 };
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

    pub(super) fn kind(&self, at: usize) -> Option<Kind> {
        self.token(at).map(|token| token.kind)
    }

    pub(super) fn text(&self, at: usize) -> &'a str {
        self.token(at).map_or("", |token| self.source.slice(token.span))
    }

    /// The text of a mark; empty for other tokens.
    pub(super) fn mark(&self, at: usize) -> &'a str {
        if self.kind(at) == Some(Kind::Mark) { self.text(at) } else { "" }
    }

    pub(super) fn word(&self, at: usize) -> &'a str {
        if self.kind(at) == Some(Kind::Word) { self.text(at) } else { "" }
    }

    /// The place of a token; past the end, the last one's.
    pub(super) fn span(&self, at: usize) -> Span {
        let token = self.token(at).or_else(|| self.tokens.last().copied());
        token.map_or(Span::new(self.failure.offset, self.failure.offset), |token| token.span)
    }

    /// The token before the failure, when there is one.
    pub(super) fn before(&self) -> Option<usize> {
        self.at.checked_sub(1)
    }

    /// Whether a value may end with this token.
    pub(super) fn ends_value(&self, at: usize) -> bool {
        match self.kind(at) {
            Some(Kind::Word) => !STATEMENT_WORDS.contains(&self.text(at)),
            Some(Kind::Number | Kind::Str | Kind::Var | Kind::Map | Kind::Part) => true,
            Some(Kind::Mark) => matches!(self.text(at), ")" | "]" | "++" | "--"),
            _ => false,
        }
    }

    /// Whether a value or a statement may begin with this token.
    pub(super) fn begins_value(&self, at: usize) -> bool {
        match self.kind(at) {
            Some(Kind::Word | Kind::Number | Kind::Str | Kind::Var | Kind::Map) => true,
            Some(Kind::Mark) => matches!(self.text(at), "++" | "--" | "!" | "~"),
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
