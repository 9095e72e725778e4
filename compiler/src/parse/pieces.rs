//! A script's text as pieces, comments included, for those who write it anew.
//!
//! In: the text. Out: its tokens, what stands between them, and which tokens make up an item.
//! Guarantee: pieces are in order and do not overlap; what no piece covers is blank.

use super::tokens::{self, Kind};
use super::{expressions, items};
use crate::source::{Source, Span};
use std::ops::Range;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A name or keyword.
    Word,
    /// A number, a string, a variable, a map, a part of an attach point.
    Value,
    /// An operator or a mark of punctuation.
    Mark,
}

/// What is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// `// …`
    LineComment,
    /// `/* … */`
    BlockComment,
    /// Directive lines, and lines that they switch off.
    Lines,
}

/// A text in pieces.
pub(crate) struct Pieces {
    /// The tokens.
    pub tokens: Vec<(Class, Span)>,
    /// Comments and directive lines.
    pub between: Vec<(Between, Span)>,
    /// The tokens of each top-level item.
    pub items: Vec<Range<usize>>,
}

/// Takes a text apart.
pub(crate) fn pieces(text: &str) -> Pieces {
    let lexed = tokens::lex(text);
    let kept: Vec<_> = lexed.tokens.iter().filter(|token| token.kind != Kind::Boundary).copied().collect();
    let source = Source::new("", text);
    // Boundaries tell items apart, and are no pieces.
    let boundaries: Vec<usize> =
        lexed.tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Boundary).map(|(at, _)| at).collect();
    let piece = |at: usize| at - boundaries.partition_point(|boundary| *boundary < at);
    let items = items::split(&source, &lexed.tokens).into_iter().map(|item| item.tokens);
    let items = items.map(|item| piece(item.start)..piece(item.end)).filter(|item| !item.is_empty()).collect();
    let class = |kind| match kind {
        Kind::Word => Class::Word,
        Kind::Mark | Kind::Stray | Kind::Boundary => Class::Mark,
        Kind::Number | Kind::Str | Kind::Var | Kind::Map | Kind::Part => Class::Value,
    };
    let mut between: Vec<(Between, Span)> = lines(text, &lexed.directives.blanks);
    for span in &lexed.comments {
        let is_line = source.slice(*span).starts_with("//");
        between.push((if is_line { Between::LineComment } else { Between::BlockComment }, trimmed(text, *span)));
    }
    between.sort_by_key(|(_, span)| span.start);
    Pieces { tokens: kept.iter().map(|token| (class(token.kind), token.span)).collect(), between, items }
}

/// Whether C programmers begin a declaration with this word.
pub(crate) fn is_c_type(word: &str) -> bool {
    expressions::is_c_type(word)
}

/// The lines that the grammar does not see; those that follow each other immediately are one.
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

/// A span without the blanks at its end.
fn trimmed(text: &str, span: Span) -> Span {
    let slice = text.get(span.start as usize..span.end as usize).unwrap_or("");
    Span::new(span.start as usize, span.start as usize + slice.trim_end().len())
}
