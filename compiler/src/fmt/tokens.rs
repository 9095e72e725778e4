//! The tokens of a script and how they are arranged in the source.
//!
//! In: the text and its pieces. Out: answers about tokens, by index.
//! Guarantee: an index after the last token gives an empty word.

pub(super) use crate::parse::pieces::{Between, Class, Pieces, is_c_type, pieces};
use crate::source::Span;
use std::ops::Range;

/// A script's text and its pieces.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'a> {
    pub text: &'a str,
    pub pieces: &'a Pieces,
}

impl<'a> Tokens<'a> {
    pub(super) fn span(self, at: usize) -> Span {
        self.pieces.tokens[at].1
    }

    pub(super) fn word(self, at: usize) -> &'a str {
        self.pieces.tokens.get(at).map_or("", |(_, span)| &self.text[span.start as usize..span.end as usize])
    }

    pub(super) fn class(self, at: usize) -> Option<Class> {
        self.pieces.tokens.get(at).map(|(class, _)| *class)
    }

    pub(super) fn is_mark(self, at: usize, mark: &str) -> bool {
        self.class(at) == Some(Class::Mark) && self.word(at) == mark
    }

    /// Whether the source has a line break between two tokens.
    pub(super) fn broken(self, from: usize, to: usize) -> bool {
        self.text[self.span(from).end as usize..self.span(to).start as usize].contains('\n')
    }

    pub(super) fn broken_within(self, first: usize, last: usize) -> bool {
        last > first && self.broken(first, last)
    }

    /// Whether this token is adjacent to the previous one in the source.
    pub(super) fn adjacent(self, at: usize) -> bool {
        at > 0 && self.span(at - 1).end == self.span(at).start
    }

    /// Whether a comment or a directive is between two tokens.
    pub(super) fn commented(self, from: usize, to: usize) -> bool {
        let (from, to) = (self.span(from).end, self.span(to).start);
        let at = self.pieces.between.partition_point(|(_, span)| span.start < from);
        self.pieces.between.get(at).is_some_and(|(_, span)| span.start < to)
    }

    /// Whether the whole item is on one line and contains no comment.
    pub(super) fn is_on_one_line(self, range: &Range<usize>) -> bool {
        !self.broken(range.start, range.end - 1) && !(range.start + 1..range.end).any(|at| self.commented(at - 1, at))
    }

    /// The bracket that closes the one at `open`.
    pub(super) fn closing(self, open: usize, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (open..close).find(|at| {
            if self.class(*at) == Some(Class::Mark) {
                match self.word(*at) {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth -= 1,
                    _ => {}
                }
            }
            depth == 0
        })
    }
}
