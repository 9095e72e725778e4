//! The kinds of items that are laid out differently.
//!
//! In: an item's tokens. Out: its form.
//! Guarantee: an item that is not recognised is `Unknown`.

use super::stages::Parts;
use super::tokens::{Class, Tokens};
use std::ops::Range;

/// The layout class of an item.
pub(super) enum Form {
    /// Attach points, a predicate (its two slashes) and a block (its opening brace).
    Probe { predicate: Option<(usize, usize)>, body: usize },
    /// A macro, a map declaration, an import, the config block.
    Code,
    /// A C definition.
    Definition,
    /// A parameter.
    Param,
    /// `use`, and `pub` with a map's name.
    Words,
    /// A state; `body` is its opening brace.
    State { body: usize },
    /// A view; `body` is its opening brace.
    View { body: usize },
    /// A span.
    Span(Parts),
    /// Something else.
    Unknown,
}

impl Form {
    pub(super) fn of(tokens: Tokens<'_>, range: &Range<usize>) -> Form {
        let (first, second) = (tokens.word(range.start), tokens.word(range.start + 1));
        match first {
            "config" if second == "=" => Form::Code,
            "macro" if tokens.class(range.start + 1) == Some(Class::Word) => Form::Code,
            "import" if second.starts_with('"') => Form::Code,
            "let" if second.starts_with('@') => Form::Code,
            "struct" | "union" | "enum" | "typedef" => Form::Definition,
            _ => Form::declaration(tokens, range).unwrap_or_else(|| Form::probe(tokens, range)),
        }
    }

    /// The form of an item that begins with a keyword of the declarative layer, with or without
    /// `pub`.
    fn declaration(tokens: Tokens<'_>, range: &Range<usize>) -> Option<Form> {
        let is_public = tokens.word(range.start) == "pub";
        let at = range.start + usize::from(is_public);
        let (word, next) = (tokens.word(at), tokens.class(at + 1));
        let is_named = next == Some(Class::Word);
        let brace = range.clone().find(|at| tokens.is_mark(*at, "{"));
        let form = match word {
            "macro" if is_public && is_named => return Some(Form::Code),
            "let" if is_public => return Some(Form::Code),
            "param" if is_named => Form::Param,
            "use" if is_named => Form::Words,
            "state" if is_named => Form::State { body: brace? },
            "view" if tokens.word(at + 1).starts_with('"') => Form::View { body: brace? },
            "span" if is_named => Form::Span(Parts::of(tokens, range, brace?)?),
            _ if is_public && word.starts_with('@') => Form::Words,
            _ => return None,
        };
        let is_line = matches!(form, Form::Param | Form::Words);
        let is_plain = !is_line || !(range.start + 1..range.end).any(|at| tokens.commented(at - 1, at));
        is_plain.then_some(form)
    }

    fn probe(tokens: Tokens<'_>, range: &Range<usize>) -> Form {
        let begins =
            matches!(tokens.word(range.start + 1), ":" | "," | "{" | "/" | "=") || tokens.word(range.start) == ",";
        let mark = |at: usize| if tokens.class(at) == Some(Class::Mark) { tokens.word(at) } else { "" };
        let Some(first) = range.clone().find(|at| matches!(mark(*at), "{" | "/")) else { return Form::Unknown };
        if !begins {
            return Form::Unknown;
        }
        if mark(first) == "{" {
            return Form::Probe { predicate: None, body: first };
        }
        let body = (first + 2..range.end).find(|at| mark(*at) == "{" && mark(*at - 1) == "/");
        body.map_or(Form::Unknown, |body| Form::Probe { predicate: Some((first, body - 1)), body })
    }
}
