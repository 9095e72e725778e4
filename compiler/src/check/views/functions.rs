//! Views whose rows are functions.
//!
//! In: `by function`, and the map that the view shows. Out: the two more parts of its key, and the
//! map a second time, for the values whose innermost function is that of the row.
//! Guarantee: the key of such a view has a stack, whose place is hidden.

use super::Reader;
use crate::ast::{Ident, STATE_MARK};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::types::Type;
use crate::view::Source;

/// What follows `by`.
const FUNCTION: &str = "function";
/// The names of the two more parts of the key.
const PARTS: [&str; 2] = [FUNCTION, "module"];
/// What is counted for the innermost function only is `self.count`.
const INNERMOST: &str = "self";

/// Reads `by function`, when the maps are known.
pub(super) fn read(reader: &mut Reader<'_>, by: &Ident) -> Result<(), Diagnostic> {
    if by.text != FUNCTION {
        let message = format!("the rows of a view cannot be by `{}`", by.text);
        return Err(Diagnostic::error(Code(273), by.span, message)
            .help("write `by function`; rows are by key without it, and `show` chooses the parts of the key"));
    }
    if let [_, second, ..] = reader.written.of.as_slice() {
        return Err(Diagnostic::error(Code(273), second.span, "a view by function shows one map")
            .help("write a view for each map"));
    }
    let has_stack = (0..reader.map_parts()).any(|part| reader.key_type(part).is_some_and(is_stack));
    if !has_stack {
        let message = format!("the keys of `{}` have no stack, and so no functions", reader.map(0).name);
        return Err(Diagnostic::error(Code(273), by.span, message)
            .help("add a stack to the key: `@samples[ustack, kstack] = count()`"));
    }
    reader.shown.push(reader.shown[0]);
    Ok(())
}

/// Refuses a stack as a column: a row is of many stacks.
pub(super) fn shows_no_stack(reader: &Reader<'_>, source: Source, span: Span) -> Result<(), Diagnostic> {
    let Source::Key(part) = source else { return Ok(()) };
    if reader.written.by.is_none() || !reader.key_type(part).is_some_and(is_stack) {
        return Ok(());
    }
    let message = "a row of a view by function is of many stacks";
    Err(Diagnostic::error(Code(273), span, message).help("show `function`, or write another view for the stacks"))
}

/// How many different maps the view shows.
pub(super) fn different_maps(reader: &Reader<'_>) -> usize {
    if reader.written.by.is_some() { 1 } else { reader.shown.len() }
}

/// The part of the key with this name that only a view by function has.
pub(super) fn part(reader: &Reader<'_>, name: &str) -> Option<usize> {
    let at = PARTS.iter().position(|part| *part == name)?;
    reader.written.by.as_ref().map(|_| reader.map_parts() + at)
}

/// The name of a part of the key that only a view by function has.
pub(super) fn part_name(reader: &Reader<'_>, part: usize) -> Option<&'static str> {
    reader.written.by.as_ref()?;
    PARTS.get(part.checked_sub(reader.map_parts())?).copied()
}

/// The place of the map for innermost functions, if `map` means it.
pub(super) fn innermost(reader: &Reader<'_>, map: &str) -> Option<usize> {
    // Names private to a module contain a quote.
    let name = map.strip_prefix(STATE_MARK)?.rsplit('\'').next();
    (reader.written.by.is_some() && name == Some(INNERMOST)).then_some(1)
}

/// What precedes the name of a measure in a header.
pub(super) fn prefix(reader: &Reader<'_>, place: usize) -> String {
    match &reader.written.by {
        None if reader.shown.len() > 1 => format!("{}.", super::spelled(&super::id(reader.map(place)))),
        Some(_) if place == 1 => format!("{INNERMOST}."),
        _ => String::new(),
    }
}

/// How many parts the key has that only a view by function has.
pub(super) fn more_parts(reader: &Reader<'_>) -> usize {
    if reader.written.by.is_some() { PARTS.len() } else { 0 }
}

pub(super) fn is_stack(ty: &Type) -> bool {
    matches!(ty, Type::Stack(_))
}
