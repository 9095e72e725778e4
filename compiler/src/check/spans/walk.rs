//! `for $s : span`: a loop over the open starts of a span.
//!
//! In: the loop variable and the span. Out: a typed loop, whose variables hold the key and the
//! values that the body reads.
//! Guarantee: the loop variable has no value of its own, only the fields that handlers of the span
//! can read.

use super::event::Event;
use super::{Active, values};
use crate::ast::{Ident, Stmt};
use crate::check::{Body, loops};
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;
use crate::typed::{self, Restart, SpanIndex, StmtKind, VarIndex};
use crate::types::Type;

/// Finds the span that a loop iterates over; reports a name that is not a span, and spans with
/// `restart nest`.
pub(in crate::check) fn find(cx: &mut Body<'_, '_>, name: &str, span: Span) -> Option<usize> {
    let Some(index) = cx.env.spans.index(name) else {
        let names: Vec<&str> = cx.env.spans.list.iter().map(|info| info.name.as_str()).collect();
        let help = match similar::nearest(name, names.iter().copied(), 1).first() {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "maps begin with `@`: `for $kv : @map { … }`".to_string(),
            None => format!("the spans of this script: {}", names.join(", ")),
        };
        let message = format!("`for` iterates over a map or a span, and there is no span `{name}`");
        cx.error(Diagnostic::error(Code(241), span, message).help(help));
        return None;
    };
    let info = &cx.env.spans.list[index];
    if info.restart == Restart::Nest {
        let message = format!("`for` cannot iterate over `{name}`, which has several starts per key");
        let help = "count what is open with `inflight`, or leave out `restart nest`";
        let diagnostic = Diagnostic::error(Code(251), span, message).related(info.span, "defined here");
        cx.error(diagnostic.help(help));
        return None;
    }
    Some(index)
}

/// Checks the loop.
pub(in crate::check) fn check(cx: &mut Body<'_, '_>, name: &Ident, index: usize, body: &[Stmt]) -> StmtKind {
    loops::is_new_variable(cx, name);
    cx.in_scope(|cx| {
        let ty = cx.env.spans.list[index].key_type();
        let key = values::variable(cx, index, "key", ty);
        let var = cx.vars.declare(&name.text, Type::U64);
        cx.spans.enter_walk(var, Active::new(index, Event::Open, key));
        let body = cx.scoped(body);
        let values = cx.spans.leave_walk();
        StmtKind::ForSpan { span: SpanIndex(index), key, values, body }
    })
}

/// The index of the span that a loop variable iterates over, and the variable.
fn walked(cx: &Body<'_, '_>, name: &str) -> Option<(usize, VarIndex)> {
    let var = cx.vars.find(name)?;
    Some((cx.spans.walked_span(var)?, var))
}

/// The name of the span that a loop variable iterates over.
pub(in crate::check) fn span_of<'b>(cx: &'b Body<'_, '_>, name: &str) -> Option<&'b str> {
    walked(cx, name).map(|(index, _)| cx.env.spans.list[index].name.as_str())
}

/// `$s.field`; `None` if the variable is not that of a loop over a span.
pub(in crate::check) fn value(cx: &mut Body<'_, '_>, name: &str, field: &Ident, span: Span) -> Option<typed::Expr> {
    let (index, var) = walked(cx, name)?;
    cx.spans.take_walk(var);
    let value = values::value(cx, index, field, span);
    cx.spans.put_back(var);
    Some(value)
}

/// Reports a loop variable that is used without a field; returns whether it is one.
pub(in crate::check) fn refuse_bare(cx: &mut Body<'_, '_>, name: &str, span: Span) -> bool {
    let Some(of) = span_of(cx, name) else { return false };
    let message = format!("`${name}` is an open start of `{of}`, and has no value of its own");
    let help = format!("take one of its values, such as `${name}.elapsed`");
    cx.error(Diagnostic::error(Code(238), span, message).help(help));
    true
}
