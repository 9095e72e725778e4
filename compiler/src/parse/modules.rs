//! Finds the modules that a file uses without parsing the rest of the file.
//!
//! In: a text. Out: its `use` items.
//! Guarantee: finds the same items as [`super::parse`] and reports no errors.

use super::items;
use super::tokens::{self, Token};
use super::tree::{self, Known, Parsed};
use crate::ast::Use;
use crate::source::Source;

/// The `use` items of a script's text.
pub fn uses(text: &str) -> Vec<Use> {
    let source = Source::new("", text);
    uses_in(&source, text, &tokens::lex(text).tokens)
}

/// The same for a file that is already tokenized; `visible` is its text as the grammar sees it.
pub(super) fn uses_in(source: &Source, visible: &str, tokens: &[Token]) -> Vec<Use> {
    if !tokens.iter().any(|token| source.slice(token.span) == "use") {
        return Vec::new();
    }
    let items = items::split(source, tokens);
    let of_use = items.iter().filter(|item| {
        item.problems.is_empty() && tokens.get(item.tokens.start).is_some_and(|first| source.slice(first.span) == "use")
    });
    let parsed = of_use
        .map(|item| tree::item(visible, item.span, &tokens[item.tokens.clone()], Known::default(), &mut Vec::new()));
    parsed.filter_map(|item| if let Ok(Some(Parsed::Use(of))) = item { Some(of) } else { None }).collect()
}
