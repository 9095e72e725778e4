//! Finds each token's role: whether a `-` is a sign or an operator, whether a `)` closes a cast.
//!
//! In: an item's tokens. Out: a [`Role`] for each, and the partner of each bracket.
//! Guarantee: always gives a role; a wrong guess changes a blank, never a token.

use super::tokens::{Class, is_c_type};
use crate::keywords;

/// Role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A value: a name, number, string, variable, map.
    Value,
    /// A keyword that is followed by a blank.
    Keyword,
    /// A prefix operator.
    Prefix,
    /// A postfix `++` or `--`.
    Postfix,
    /// An infix operator, with blanks around it.
    Infix,
    /// `.`, `->`, `..`
    Dot,
    /// The `*` of a type.
    Pointer,
    /// `(` and `[`
    Open,
    /// `)` and `]`
    Close,
    /// The `)` of a cast.
    CastClose,
    /// `{`
    BraceOpen,
    /// `}`
    BraceClose,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// The `:` before a type.
    Colon,
    /// The `/` that opens a predicate.
    PredicateOpen,
    /// The `/` that closes it.
    PredicateClose,
}

/// Whether a word is followed by a blank, even before a parenthesis.
fn takes_operand(word: &str) -> bool {
    use keywords::Role::{Compound, Else, Let, Return};
    matches!(keywords::role(word), Some(Compound(_) | Else | Let | Return))
}

/// Whether a word is followed by a variable, a colon and what it iterates over.
fn is_iteration(word: &str) -> bool {
    keywords::head(word) == Some(keywords::Head::Iteration)
}

/// Types that a cast may name, in addition to those of `is_c_type`.
const TYPES: [&str; 13] =
    ["buffer", "dev_t", "gid_t", "inet", "loff_t", "pid_t", "s16", "s32", "s64", "s8", "ssize_t", "uid_t", "uintptr_t"];

/// An open bracket.
struct Frame {
    open: usize,
    questions: u32,
    /// Whether the current statement begins with a word that takes a block (`if`, `while`), or with
    /// `{`.
    compound: bool,
    /// Whether a statement begins at the next token.
    fresh: bool,
}

/// The roles of tokens.
pub(super) struct Roles {
    /// One role per token.
    pub role: Vec<Role>,
    /// For each bracket, the index of its partner; for other tokens, their own index.
    pub partner: Vec<usize>,
}

/// Determines the roles of an item's tokens.
pub(super) fn roles(tokens: &[(Class, &str)], predicates: &[(usize, usize)]) -> Roles {
    let mut finder = Finder {
        tokens,
        predicates,
        frames: vec![Frame { open: usize::MAX, questions: 0, compound: false, fresh: true }],
        out: Roles { role: Vec::with_capacity(tokens.len()), partner: (0..tokens.len()).collect() },
    };
    for at in 0..tokens.len() {
        let role = finder.role(at);
        finder.out.role.push(role);
    }
    finder.out
}

struct Finder<'a> {
    tokens: &'a [(Class, &'a str)],
    predicates: &'a [(usize, usize)],
    frames: Vec<Frame>,
    out: Roles,
}

impl Finder<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.1)
    }

    fn role(&mut self, at: usize) -> Role {
        let fresh = self.frames.last_mut().is_some_and(|frame| std::mem::take(&mut frame.fresh));
        if fresh && let Some(text) = self.tokens.get(at).map(|token| token.1) {
            let compound = keywords::is_compound(text) || matches!(text, "{" | "else");
            if let Some(frame) = self.frames.last_mut() {
                (frame.compound, frame.questions) = (compound, 0);
            }
        }
        match self.tokens[at].0 {
            // A field may have the name of a keyword.
            Class::Word if takes_operand(self.text(at)) && self.out.role.last() != Some(&Role::Dot) => Role::Keyword,
            Class::Word | Class::Value => Role::Value,
            Class::Mark => self.mark(at, fresh),
        }
    }

    fn mark(&mut self, at: usize, fresh: bool) -> Role {
        for (open, close) in self.predicates {
            if at == *open {
                return Role::PredicateOpen;
            }
            if at == *close {
                return Role::PredicateClose;
            }
        }
        let binary = !fresh && self.ends_value(at);
        match self.tokens[at].1 {
            text @ ("(" | "[" | "{") => {
                let is_brace = text == "{";
                self.frames.push(Frame { open: at, questions: 0, compound: false, fresh: is_brace });
                if is_brace { Role::BraceOpen } else { Role::Open }
            }
            text @ (")" | "]" | "}") => self.close(at, text),
            "," => self.reset(Role::Comma),
            ";" => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.fresh = true;
                }
                Role::Semicolon
            }
            "." | "->" | ".." => Role::Dot,
            "++" | "--" if binary => Role::Postfix,
            "*" if self.ends_type(at) => Role::Pointer,
            "!" | "~" | "++" | "--" => Role::Prefix,
            "-" | "+" | "*" | "&" if !binary => Role::Prefix,
            "?" => {
                self.question(1);
                Role::Infix
            }
            ":" => self.colon(),
            _ => Role::Infix,
        }
    }

    fn reset(&mut self, role: Role) -> Role {
        if let Some(frame) = self.frames.last_mut() {
            frame.questions = 0;
        }
        role
    }

    fn question(&mut self, by: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.questions += by;
        }
    }

    fn colon(&mut self) -> Role {
        match self.frames.last_mut() {
            Some(frame) if frame.questions > 0 => {
                frame.questions -= 1;
                Role::Infix
            }
            // `for $x : 0..10`, `for ($x : @map)`
            Some(frame) if frame.compound => Role::Infix,
            Some(frame)
                if frame.open != usize::MAX && frame.open > 0 && is_iteration(self.tokens[frame.open - 1].1) =>
            {
                Role::Infix
            }
            _ => Role::Colon,
        }
    }

    fn close(&mut self, at: usize, text: &str) -> Role {
        let Some(frame) = (if self.frames.len() > 1 { self.frames.pop() } else { None }) else { return Role::Close };
        (self.out.partner[frame.open], self.out.partner[at]) = (at, frame.open);
        if text == "}" {
            if let Some(outer) = self.frames.last_mut()
                && outer.compound
                && self.tokens.get(at + 1).is_none_or(|next| next.1 != "else")
            {
                outer.fresh = true;
            }
            return Role::BraceClose;
        }
        if text == ")" && self.is_cast(frame.open, at) { Role::CastClose } else { Role::Close }
    }

    /// Whether a value can end before this token.
    fn ends_value(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.out.role.get(before));
        matches!(before, Some(Role::Value | Role::Close | Role::Postfix | Role::BraceClose | Role::Pointer))
    }

    /// Whether this `*` belongs to a type: no operand follows it.
    fn ends_type(&self, at: usize) -> bool {
        let next = (at + 1..self.tokens.len()).map(|next| self.text(next)).find(|text| *text != "*");
        matches!(next, None | Some(")" | "," | ";" | "=" | "}"))
    }

    /// Whether the parentheses contain a type and a value follows them.
    fn is_cast(&self, open: usize, close: usize) -> bool {
        let is_call = open > 0 && self.tokens[open - 1].0 == Class::Word && self.out.role[open - 1] == Role::Value;
        let inside = &self.tokens[open + 1..close];
        let (Some(first), Some(last)) = (inside.first(), inside.last()) else { return false };
        let plain = inside.iter().all(|(class, text)| {
            *class == Class::Word || matches!(*text, "*" | "[" | "]") || text.bytes().all(|b| b.is_ascii_digit())
        });
        let Some(next) = self.tokens.get(close + 1) else { return false };
        let begins_value = next.0 != Class::Mark && !takes_operand(next.1);
        let operand = begins_value || matches!(next.1, "(" | "-" | "*" | "&" | "!" | "~" | "++" | "--");
        let known = is_c_type(first.1) || TYPES.contains(&first.1);
        let is_array = last.1 == "]" && begins_value;
        !is_call && operand && (first.1 == "typeof" || (plain && (known || last.1 == "*" || is_array)))
    }
}
