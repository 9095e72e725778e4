//! Values of a span that handlers read: `request.elapsed`, `request.lap`, key parts, kept fields.
//!
//! In: a span's name and a field. Out: a variable of the program, declared at its first read.
//! Guarantee: reading a span's values outside of its handlers is a diagnostic; it never yields
//! zero.

use super::event::Event;
use super::inferred::InferredSpan;
use crate::ast::Ident;
use crate::check::{Body, fields};
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;
use crate::typed::{self, SpanValues, VarIndex};
use crate::types::Type;

/// `request.field`.
pub(in crate::check) fn value(cx: &mut Body<'_, '_>, index: usize, field: &Ident, span: Span) -> typed::Expr {
    let is_out_of_reach = cx.spans.of_span(index).is_none();
    let info = &cx.env.spans.list[index];
    if is_out_of_reach {
        let name = &info.name;
        let message = format!("`{name}.{}` has a value in the handlers of `{name}` only", field.text);
        let help = format!("write a handler: `{name}:end {{ … {name}.{} … }}`", field.text);
        return cx.fail(Diagnostic::error(Code(238), span, message).help(help));
    }
    if let Some(part) = info.parts.iter().position(|part| part.name.as_deref() == Some(&field.text)) {
        return key_part(cx, index, part, span);
    }
    match field.text.as_str() {
        "elapsed" => time(cx, index, field, span, |values| &mut values.elapsed),
        "lap" => time(cx, index, field, span, |values| &mut values.lap),
        _ => kept_field(cx, index, field, span),
    }
}

fn key_part(cx: &mut Body<'_, '_>, index: usize, part: usize, span: Span) -> typed::Expr {
    let ty = cx.env.spans.list[index].key_type();
    let Some(key) = cx.spans.of_span(index).map(|event| event.key) else { return typed::Expr::poison(span) };
    let key = typed::Expr { kind: typed::ExprKind::Var(key), ty, span };
    fields::part(cx, key, part, span)
}

fn time(
    cx: &mut Body<'_, '_>,
    index: usize,
    field: &Ident,
    span: Span,
    place: impl Fn(&mut SpanValues) -> &mut Option<VarIndex>,
) -> typed::Expr {
    let known = cx.spans.of_span(index).and_then(|event| *place(&mut event.values));
    let var = known.unwrap_or_else(|| variable(cx, index, &field.text, Type::U64));
    if let Some(event) = cx.spans.of_span(index) {
        *place(&mut event.values) = Some(var);
    }
    typed::Expr { kind: typed::ExprKind::Var(var), ty: Type::U64, span }
}

/// Declares a variable that scripts cannot refer to.
pub(in crate::check) fn variable(cx: &mut Body<'_, '_>, index: usize, field: &str, ty: Type) -> VarIndex {
    let name = format!("{}.{field}", cx.env.spans.list[index].name);
    cx.vars.declare(&name, ty)
}

fn kept_field(cx: &mut Body<'_, '_>, index: usize, field: &Ident, span: Span) -> typed::Expr {
    let info = &cx.env.spans.list[index];
    let Some(ty) = info.kept.iter().find(|kept| kept.name == field.text).map(|kept| kept.ty.clone()) else {
        let diagnostic = no_field(info, field);
        return cx.fail(diagnostic);
    };
    let stored = info.stored(&field.text);
    let known = cx.spans.of_span(index).and_then(|event| {
        let own = event.own.iter().find(|(name, _)| *name == field.text);
        if let Some((_, var)) = own {
            return Some(*var);
        }
        let at = event.fields.iter().position(|name| *name == field.text)?;
        event.values.kept.get(at).map(|(_, var)| *var)
    });
    let var = known.unwrap_or_else(|| {
        let var = variable(cx, index, &field.text, ty.clone());
        if let Some(event) = cx.spans.of_span(index) {
            let is_old = event.event != Event::Stage("start".into());
            event.values.kept.push((stored.filter(|_| is_old), var));
            event.fields.push(field.text.clone());
        }
        var
    });
    typed::Expr { kind: typed::ExprKind::Var(var), ty, span }
}

/// Reports a builtin or function of the current thread in an `expire` handler: the sweep runs
/// for keys of all threads.
pub(in crate::check) fn refuse_of_thread(cx: &mut Body<'_, '_>, name: &str, span: Span) -> Option<typed::Expr> {
    let index = cx.spans.expired_span()?;
    if !cx.env.catalogue.is_of_thread(name) {
        return None;
    }
    let span_name = cx.env.spans.list[index].name.clone();
    let message =
        format!("`{name}` has no value here: expired starts are found by a timer, not by the thread that started them");
    let help = format!("store it at the start, `start PROBE {{ who = {name}; }}`, and read `{span_name}.who`");
    Some(cx.fail(Diagnostic::error(Code(438), span, message).help(help)))
}

fn no_field(info: &InferredSpan, field: &Ident) -> Diagnostic {
    let mut names = vec!["elapsed", "lap"];
    names.extend(info.parts.iter().filter_map(|part| part.name.as_deref()));
    names.extend(info.kept.iter().map(|kept| kept.name.as_str()));
    let message = format!("the span `{}` has no value `{}`", info.name, field.text);
    let help = match similar::nearest(&field.text, names.iter().copied(), 1).first() {
        Some(near) => format!("did you mean `{near}`? It has: {}", names.join(", ")),
        None => format!("it has: {}; a stage keeps more with `{{ {} = …; }}`", names.join(", "), field.text),
    };
    Diagnostic::error(Code(237), field.span, message).help(help)
}
