//! Splits a script's text into pieces, comments included, for the formatter.
//!
//! In: the text. Out: its tokens, the comments and directive lines between them, and the token
//! range of each item.
//! Guarantee: pieces are in source order and do not overlap; text outside of all pieces is blank.

use super::tokens::{self, TokenKind};
use super::{expressions, items};
use crate::source::{Source, Span};
use std::ops::Range;

/// Class of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A name or keyword.
    Word,
    /// A number, a string, a variable, a map, or a part of an attach point.
    Value,
    /// An operator or punctuation.
    Mark,
}

/// Kind of text between tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// `// …`
    LineComment,
    /// `/* … */`
    BlockComment,
    /// Directive lines, and the lines that they deactivate.
    Lines,
}

/// A text split into pieces.
pub(crate) struct Pieces {
    pub tokens: Vec<(Class, Span)>,
    /// Comments and directive lines.
    pub between: Vec<(Between, Span)>,
    /// The tokens of each top-level item.
    pub items: Vec<Range<usize>>,
}

/// Splits a text into pieces.
pub(crate) fn pieces(text: &str) -> Pieces {
    let lexed = tokens::lex(text);
    let kept: Vec<_> = lexed.tokens.iter().filter(|token| token.kind != TokenKind::Boundary).copied().collect();
    let source = Source::new("", text);
    // Boundaries separate items and are not pieces themselves.
    let boundaries: Vec<usize> = lexed
        .tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| token.kind == TokenKind::Boundary)
        .map(|(at, _)| at)
        .collect();
    let piece = |at: usize| at - boundaries.partition_point(|boundary| *boundary < at);
    let items = items::split(&source, &lexed.tokens).into_iter().map(|item| item.tokens);
    let items = items.map(|item| piece(item.start)..piece(item.end)).filter(|item| !item.is_empty()).collect();
    let class = |kind| match kind {
        TokenKind::Word => Class::Word,
        TokenKind::Mark | TokenKind::Stray | TokenKind::Boundary => Class::Mark,
        TokenKind::Number | TokenKind::Str | TokenKind::Var | TokenKind::Map | TokenKind::Part => Class::Value,
    };
    let mut between: Vec<(Between, Span)> = lines(text, &lexed.directives.blanks);
    for span in &lexed.comments {
        let is_line = source.slice(*span).starts_with("//");
        between.push((if is_line { Between::LineComment } else { Between::BlockComment }, trimmed(text, *span)));
    }
    between.sort_by_key(|(_, span)| span.start);
    Pieces { tokens: kept.iter().map(|token| (class(token.kind), token.span)).collect(), between, items }
}

/// Whether a C declaration can begin with this word.
pub(crate) fn is_c_type(word: &str) -> bool {
    expressions::is_c_type(word)
}

/// The ranges that are hidden from the grammar; adjacent ones are merged.
fn lines(text: &str, blanks: &[Span]) -> Vec<(Between, Span)> {
    let mut joined: Vec<Span> = Vec::new();
    for span in blanks.iter().filter(|span| !text[span.start as usize..].starts_with('\u{feff}')) {
        match joined.last_mut().filter(|last| last.end == span.start) {
            Some(last) => last.end = span.end,
            None => joined.push(*span),
        }
    }
    joined.into_iter().map(|span| (Between::Lines, trimmed(text, span))).collect()
}

/// The span without trailing blanks.
fn trimmed(text: &str, span: Span) -> Span {
    let slice = text.get(span.start as usize..span.end as usize).unwrap_or("");
    Span::new(span.start as usize, span.start as usize + slice.trim_end().len())
}
