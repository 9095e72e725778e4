//! Shared code of `printf`, `cat`, `system`, `errorf` and `warnf`: formats and their text.
//!
//! In: a call's arguments; a record. Out: the checked call; the text.
//! Guarantee: a checked call has a conversion for each of its values.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::object::{Constant, Event};
use crate::results::{Record, Sink};
use crate::source::Span;
use crate::text::controls::Escapes;
use crate::typed;
use crate::types::Type;

/// Checks a call of `word` with a format and its values.
pub(super) fn check(
    word: &'static dyn Function,
    cx: &mut check::Body<'_, '_>,
    args: &[ast::Expr],
    span: Span,
) -> typed::Expr {
    let Some((format, args)) = cx.format_call(word.name(), args, span) else { return typed::Expr::poison(span) };
    typed::Expr::call(word.name(), args, vec![Constant::Format(format)], Type::None, span)
}

/// The text of a record, unescaped.
pub(super) fn text(event: &Event, record: &Record<'_>, sink: &dyn Sink) -> Option<Vec<u8>> {
    render(event, record, sink, Escapes::Nothing)
}

/// The text of a record for output; what the sink requires is escaped.
pub(super) fn shown(event: &Event, record: &Record<'_>, sink: &dyn Sink) -> Option<Vec<u8>> {
    render(event, record, sink, sink.escapes())
}

fn render(event: &Event, record: &Record<'_>, sink: &dyn Sink, escapes: Escapes) -> Option<Vec<u8>> {
    let [Constant::Format(format)] = event.constants.as_slice() else { return None };
    let mut text = Vec::new();
    format.render_record(record, sink.symbols(), escapes, &mut text);
    Some(text)
}
