//! What handlers read of a span: `request.elapsed`, `request.lap`, parts of the key, kept fields.
//!
//! In: a span's name and a field. Out: a variable of the program, declared when it is first read.
//! Guarantee: outside of a span's handlers its values are a diagnostic, never zero.

use super::{Event, SpanInfo};
use crate::ast::Ident;
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::similar;
use crate::source::Span;
use crate::typed::{self, SpanValues, VarIndex};
use crate::types::Type;

/// The event whose handlers are being checked.
#[derive(Debug)]
pub struct Active {
    /// The span.
    pub index: usize,
    /// The event.
    pub(super) event: Event,
    /// The variable with the key.
    pub key: VarIndex,
    /// What was read so far.
    pub values: SpanValues,
    /// Fields read so far, beside their variables in `values`.
    pub fields: Vec<String>,
    /// Fields that this stage has just kept.
    pub own: Vec<(String, VarIndex)>,
}

impl Active {
    pub(super) fn new(index: usize, event: Event, key: VarIndex) -> Active {
        Active { index, event, key, values: SpanValues::default(), fields: Vec::new(), own: Vec::new() }
    }
}

impl Body<'_, '_> {
    /// The event of a span whose values are in reach.
    fn active(&mut self, index: usize) -> Option<&mut Active> {
        self.events.iter_mut().rev().find(|event| event.index == index)
    }

    /// `request.field`.
    pub fn span_value(&mut self, index: usize, field: &Ident, span: Span) -> typed::Expr {
        let is_out_of_reach = self.active(index).is_none();
        let info = &self.env.spans.list[index];
        if is_out_of_reach {
            let name = &info.name;
            let message = format!("`{name}.{}` has a value in the handlers of `{name}` only", field.text);
            let help = format!("write a handler: `{name}:end {{ … {name}.{} … }}`", field.text);
            return self.fail(Diagnostic::error(Code(238), span, message).help(help));
        }
        if let Some(part) = info.parts.iter().position(|part| part.name.as_deref() == Some(&field.text)) {
            return self.key_part(index, part, span);
        }
        match field.text.as_str() {
            "elapsed" => self.span_time(index, field, span, |values| &mut values.elapsed),
            "lap" => self.span_time(index, field, span, |values| &mut values.lap),
            _ => self.kept_field(index, field, span),
        }
    }

    fn key_part(&mut self, index: usize, part: usize, span: Span) -> typed::Expr {
        let ty = self.env.spans.list[index].key_type();
        let Some(key) = self.active(index).map(|event| event.key) else { return Self::poison(span) };
        let key = typed::Expr { kind: typed::ExprKind::Var(key), ty, span };
        self.part(key, part, span)
    }

    fn span_time(
        &mut self,
        index: usize,
        field: &Ident,
        span: Span,
        place: impl Fn(&mut SpanValues) -> &mut Option<VarIndex>,
    ) -> typed::Expr {
        let known = self.active(index).and_then(|event| *place(&mut event.values));
        let var = known.unwrap_or_else(|| self.span_variable(index, &field.text, Type::U64));
        if let Some(event) = self.active(index) {
            *place(&mut event.values) = Some(var);
        }
        typed::Expr { kind: typed::ExprKind::Var(var), ty: Type::U64, span }
    }

    /// A variable that no script can name.
    pub(super) fn span_variable(&mut self, index: usize, field: &str, ty: Type) -> VarIndex {
        let name = format!("{}.{field}", self.env.spans.list[index].name);
        self.declare(&name, ty)
    }

    fn kept_field(&mut self, index: usize, field: &Ident, span: Span) -> typed::Expr {
        let info = &self.env.spans.list[index];
        let Some(ty) = info.kept.iter().find(|kept| kept.name == field.text).map(|kept| kept.ty.clone()) else {
            let diagnostic = no_field(info, field);
            return self.fail(diagnostic);
        };
        let stored = info.stored(&field.text);
        let known = self.active(index).and_then(|event| {
            let own = event.own.iter().find(|(name, _)| *name == field.text);
            if let Some((_, var)) = own {
                return Some(*var);
            }
            let at = event.fields.iter().position(|name| *name == field.text)?;
            event.values.kept.get(at).map(|(_, var)| *var)
        });
        let var = known.unwrap_or_else(|| {
            let var = self.span_variable(index, &field.text, ty.clone());
            if let Some(event) = self.active(index) {
                let is_old = event.event != Event::Stage("start".into());
                event.values.kept.push((stored.filter(|_| is_old), var));
                event.fields.push(field.text.clone());
            }
            var
        });
        typed::Expr { kind: typed::ExprKind::Var(var), ty, span }
    }

    /// Says that there is no current thread in a sweep, whose program runs for keys of all of them.
    pub fn refuse_of_thread(&mut self, name: &str, span: Span) -> Option<typed::Expr> {
        let event = self.events.iter().find(|event| event.event == Event::Expire)?;
        if !self.env.catalogue.is_of_thread(name) {
            return None;
        }
        let span_name = self.env.spans.list[event.index].name.clone();
        let message =
            format!("`{name}` has no value here: what expires is found by a timer, not by the thread that started it");
        let help = format!("keep it when it starts, `start PROBE {{ who = {name}; }}`, and read `{span_name}.who`");
        Some(self.fail(Diagnostic::error(Code(438), span, message).help(help)))
    }
}

fn no_field(info: &SpanInfo, field: &Ident) -> Diagnostic {
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
