//! Views that are drawn as a picture of their stacks.
//!
//! In: `flame`, and the columns of the view. Out: the column with the widths.
//! Guarantee: the rows of such a view have a stack each, and a number that adds up.

use super::Reader;
use super::functions::is_stack;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::statistics::Statistic;
use crate::typed::MapValue;
use crate::types::Type;
use crate::view::{Column, Measure, Source};

/// The column whose numbers are the widths: the first one that adds up.
pub(super) fn column(reader: &Reader<'_>, columns: &[Column], span: Span) -> Result<usize, Diagnostic> {
    let shows_stack = |source| matches!(source, Source::Key(part) if reader.key_type(part).is_some_and(is_stack));
    if !columns.iter().any(|column| shows_stack(column.source)) {
        return Err(without_stack(reader, span));
    }
    columns.iter().position(|column| adds_up(reader, column.source)).ok_or_else(|| {
        Diagnostic::error(Code(274), span, "no column of this view is a number that adds up")
            .help("show `count`, `sum`, or the `value` of a map of numbers: they are the widths of the picture")
    })
}

fn without_stack(reader: &Reader<'_>, span: Span) -> Diagnostic {
    let has_stack = (0..reader.map_parts()).any(|part| reader.key_type(part).is_some_and(is_stack));
    if reader.written.by.is_none() && has_stack {
        return Diagnostic::error(Code(274), span, "this view shows no stack that could be drawn")
            .help("add the stack to the columns after `show`");
    }
    let error = if reader.written.by.is_some() {
        Diagnostic::error(Code(274), span, "the rows of a view by function are no stacks")
    } else {
        let message = format!("the keys of `{}` have no stack that could be drawn", reader.map(0).name);
        Diagnostic::error(Code(274), span, message)
    };
    error.help("draw a map with a stack in its key: `@samples[ustack, kstack] = count()`")
}

fn adds_up(reader: &Reader<'_>, source: Source) -> bool {
    match source {
        Source::Measure { map, measure: Measure::Value } => {
            matches!(reader.map(map).value, MapValue::Plain(Type::Int(_)))
        }
        Source::Measure { measure: Measure::Statistic(statistic), .. } => {
            matches!(statistic, Statistic::Count | Statistic::Sum)
        }
        _ => false,
    }
}
