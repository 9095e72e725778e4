//! What `printf`, `cat`, `system`, `errorf` and `warnf` have in common: a format, its values, the text that they make.
//!
//! In: a call's arguments; a record. Out: the checked call; the text.
//! Guarantee: a call that was checked has a format for each of its values.

use crate::ast;
use crate::check;
use crate::object::{Constant, Event};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Function, Record, Sink};

/// A call of `word` with a format and its values.
pub(super) fn check(
    word: &'static dyn Function,
    cx: &mut check::Body<'_, '_>,
    args: &[ast::Expr],
    span: Span,
) -> typed::Expr {
    let Some((format, args)) = cx.format_call(word.name(), args, span) else { return check::Body::poison(span) };
    cx.call_of(word, args, vec![Constant::Format(format)], Type::None, span)
}

/// The text of a record.
pub(super) fn text(event: &Event, record: &Record<'_>, sink: &dyn Sink) -> Option<Vec<u8>> {
    let [Constant::Format(format)] = event.constants.as_slice() else { return None };
    let mut text = Vec::new();
    format.render_record(record, sink.symbols(), &mut text);
    Some(text)
}
