//! The whitespace before each token of an item.
//!
//! In: tokens with roles, and the brackets that are open. Out: the gap, and the indentation if a
//! line begins.
//! Guarantee: a blank is never left out where two tokens would merge into another one.

use super::item::Item;
use super::roles::Role;
use super::tokens::Class;

/// The whitespace before a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nothing.
    Glue,
    /// A blank.
    Space,
    /// A line break.
    Break,
    /// A line break, preceded by a blank line if the source had one.
    Paragraph,
}

/// An open bracket of an expression.
pub(super) struct Open {
    pub at: usize,
    /// Whether a line break follows the bracket.
    pub hangs: bool,
}

impl Item<'_> {
    /// The gap before a token of a statement; `inline` drops line breaks.
    pub(super) fn gap_before(&self, at: usize, opens: &[Open], inline: bool) -> Gap {
        let gap = if self.is_c { self.c_gap(at) } else { self.code_gap(at) };
        if !inline && self.tokens.broken(at - 1, at) && self.may_break(at, opens) { Gap::Break } else { gap }
    }

    /// Indentation, in tabs, of a continuation line that begins with this token.
    pub(super) fn continuation(&self, opens: &[Open], at: usize, base: usize, further: usize) -> usize {
        let hanging = opens.iter().filter(|open| open.hangs).count();
        match opens.last() {
            Some(open) if open.hangs && self.partner(open.at) == at => base + hanging - 1,
            Some(open) if open.hangs && (open.at + 1 == at || self.role(at - 1) == Role::Comma) => base + hanging,
            None if self.is_c && self.role(at - 1) == Role::Comma => base,
            None if self.role(at) == Role::Keyword && self.tokens.word(at) == "else" => base,
            _ => base + hanging + further,
        }
    }

    /// Whether a line break of the source before this token is kept.
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
        // `2%` is a percentage; with a blank it would be a remainder.
        if self.tokens.word(at) == "%" && matches!(self.tokens.word(at + 1), ")" | "]" | "," | ";" | "}") {
            return if self.tokens.adjacent(at) { Gap::Glue } else { Gap::Space };
        }
        match (before, here) {
            (_, Comma | Semicolon | Postfix | Dot | Close | Colon | PredicateClose) | (Open | Dot, _) => Gap::Glue,
            // `?:`
            (Infix, Infix) if self.tokens.word(at) == ":" && self.tokens.word(at - 1) == "?" => Gap::Glue,
            (Pointer, CastClose | Pointer) | (_, CastClose) => Gap::Glue,
            (Prefix | CastClose | PredicateOpen, _) => Gap::Glue,
            (Value | Close, Open) => Gap::Glue,
            (BraceClose, Open) if self.tokens.word(at) == "[" => Gap::Glue,
            (Keyword | BraceOpen | BraceClose, _) => Gap::Space,
            _ => Gap::Space,
        }
    }

    /// The gap in a C definition, where the author's blanks are kept.
    fn c_gap(&self, at: usize) -> Gap {
        match (self.role(at - 1), self.role(at)) {
            (_, Role::Comma | Role::Semicolon | Role::Close | Role::CastClose) | (Role::Open, _) => Gap::Glue,
            (Role::Comma | Role::Semicolon | Role::BraceOpen | Role::BraceClose, _) => Gap::Space,
            (_, Role::BraceOpen | Role::BraceClose) => Gap::Space,
            _ if self.tokens.adjacent(at) => Gap::Glue,
            _ => Gap::Space,
        }
    }

    /// Whether this token and the one before would merge into another token without a blank.
    fn would_merge(&self, at: usize) -> bool {
        let (before, here) = (self.tokens.word(at - 1), self.tokens.word(at));
        let marks = self.tokens.class(at - 1) == Some(Class::Mark) && self.tokens.class(at) == Some(Class::Mark);
        let (last, first) = (before.chars().next_back(), here.chars().next());
        let sticky = |letter: Option<char>| letter.is_some_and(|letter| "+-*/&|=<>!%^.".contains(letter));
        let is_plain = matches!(before, "!" | "~" | "*") && matches!(here, "!" | "~" | "-" | "&" | "*");
        let comment = last == Some('/') && matches!(first, Some('*' | '/'));
        let power = before == "*" && here == "*" && self.role(at) != Role::Pointer && !self.tokens.adjacent(at);
        marks && (comment || power || (sticky(last) && sticky(first) && !is_plain && !self.tokens.adjacent(at)))
    }

    /// The gap in an entry of a state or a clause of a view that begins with the token `start`.
    pub(super) fn clause_gap(&self, at: usize, start: usize) -> Gap {
        let follows_comma = self.tokens.is_mark(at - 1, ",");
        match (self.role(at - 1), self.role(at)) {
            _ if [",", ";", ":"].iter().any(|mark| self.tokens.is_mark(at, mark)) => Gap::Glue,
            (_, Role::Infix) | (Role::Infix, _) => Gap::Space,
            (_, Role::Close) | (Role::Open | Role::Prefix, _) => Gap::Glue,
            (_, Role::Open) if at == start + 1 || follows_comma => Gap::Space,
            (_, Role::Open) => Gap::Glue,
            _ if self.tokens.adjacent(at) && !self.is_separate(at) => Gap::Glue,
            _ => Gap::Space,
        }
    }

    /// Whether a blank precedes this token although the source has none.
    fn is_separate(&self, at: usize) -> bool {
        let is_text = |at: usize| self.tokens.word(at).starts_with('"');
        is_text(at) || is_text(at - 1) || self.tokens.is_mark(at - 1, ",") || self.tokens.is_mark(at - 1, ":")
    }
}
