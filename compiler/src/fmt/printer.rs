//! Writes a script's items in order.
//!
//! In: the tokens. Out: the whole script.
//! Guarantee: an item of unknown kind keeps its text.

use super::form::Form;
use super::gaps::Gap;
use super::item::Item;
use super::params::{self, Columns};
use super::tokens::Tokens;
use super::writer::Writer;
use std::ops::Range;

/// Writes one item; the other files of this directory have its methods for each form.
pub(super) struct Printer<'w, 'a> {
    pub(super) tokens: Tokens<'a>,
    pub(super) item: Item<'a>,
    pub(super) writer: &'w mut Writer<'a>,
    /// Whether blocks are currently written on one line.
    pub(super) inline: bool,
}

/// The script in canonical form; if not `with_structure`, items keep their text.
pub(super) fn script(tokens: Tokens<'_>, with_structure: bool) -> String {
    let mut writer = Writer::new(tokens);
    let (mut next, mut was_long) = (0, false);
    let columns = if with_structure { params::columns(tokens) } else { Vec::new() };
    for (number, range) in tokens.pieces.items.iter().enumerate() {
        // Tokens that belong to no item: semicolons.
        writer.glued(next..range.start);
        next = range.end;
        let form = if with_structure { Form::of(tokens, range) } else { Form::Unknown };
        let (before, is_first) = (writer.checkpoint(), writer.is_empty());
        match form {
            Form::Unknown => writer.verbatim(tokens.span(range.start).to(tokens.span(range.end - 1))),
            form => item(&mut writer, range, &form, columns.get(number).copied().unwrap_or_default()),
        }
        // Separates items that shared a line by a blank line if one of them now takes several
        // lines.
        let is_long = writer.has_lines(&before);
        let shared = !is_first && !tokens.broken(range.start - 1, range.start);
        if shared && (is_long || was_long) {
            writer.insert_line(&before);
        }
        was_long = is_long;
    }
    writer.glued(next..tokens.pieces.tokens.len());
    writer.finish()
}

fn item(writer: &mut Writer<'_>, range: &Range<usize>, form: &Form, columns: Columns) {
    let tokens = writer.tokens;
    let mut printer = Printer { tokens, item: Item::new(tokens, range, form), writer, inline: false };
    match form {
        Form::Probe { predicate, body } => printer.probe_block(range, *predicate, *body),
        Form::Param => printer.param(range, columns),
        Form::Words => printer.words(range),
        Form::State { body } => printer.state(range, *body),
        Form::View { body } => printer.view(range, *body),
        Form::Span(parts) => printer.span_item(range, parts),
        Form::Code | Form::Definition | Form::Unknown => printer.run(range.clone(), Gap::Paragraph, 0, true),
    }
}
