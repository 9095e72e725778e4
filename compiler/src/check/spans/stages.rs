//! The stages of a span at one probe, with their handlers, as a program.
//!
//! In: a [`Part`]. Out: a [`typed::Probe`] with a [`typed::SpanStep`] for each stage.
//! Guarantee: predicates, keys, kept fields and handlers are all checked in the context of the stage's probe; all stages agree on
//! the types of the key's parts and of kept fields.

use super::declare::key_of;
use super::{Active, Event, Part};
use crate::ast::{self, ProbeBlock, StageKind};
use crate::check::types::MAX_VALUE_BYTES;
use crate::check::{Body, facts, unify};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::source::Span;
use crate::typed::{
    self, Restart, SpanAction, SpanEviction, SpanIndex, SpanKeep, SpanStep, SpanValues, StmtKind, VarIndex,
};
use crate::types::{Int, Type};

/// Most bytes of a key: it is put together on the stack or in scratch memory, and compared as a whole.
const MAX_KEY_BYTES: u32 = 512;

impl Body<'_, '_> {
    /// Checks the stages of a part, or its sweep.
    pub(in crate::check) fn check_span(mut self, part: &Part<'_>) -> typed::Probe {
        let mut body = Vec::new();
        for stage in &part.stages {
            let stmts = self.in_own_scope(|cx| cx.stage(part, stage));
            body.extend(stmts);
        }
        if part.point.is_none() {
            let stmt = self.in_own_scope(|cx| cx.sweep(part));
            body.push(stmt);
        }
        self.probe(None, body, part.span)
    }

    fn stage(&mut self, part: &Part<'_>, stage: &ast::Stage) -> Vec<typed::Stmt> {
        let condition = stage.predicate.as_ref().map(|predicate| self.condition(predicate));
        let (key, assigned) = self.span_key(part, stage);
        let event = Event::Stage(stage.kind.event().to_owned());
        let action = match &stage.kind {
            StageKind::Start => SpanAction::Start,
            StageKind::End => SpanAction::End,
            StageKind::Mark(name) => {
                let stages = &self.env.spans.list[part.index].stages;
                SpanAction::Mark(stages.iter().position(|stage| *stage == name.text).unwrap_or(0) as u8 + 1)
            }
        };
        self.events.push(Active::new(part.index, event.clone(), key));
        let keeps = self.keeps(part.index, stage);
        let (values, handlers) = self.handled(part, &event);
        let may_replace = self.env.spans.list[part.index].restart == Restart::Replace && action == SpanAction::Start;
        let has_replaced = may_replace && part.has_handlers(&Event::Replace);
        let replaced = has_replaced.then(|| {
            self.events.push(Active::new(part.index, Event::Replace, key));
            self.handled(part, &Event::Replace)
        });
        let evicts = self.env.spans.list[part.index].evicts && action == SpanAction::Start;
        let evicted = evicts.then(|| {
            let ty = self.env.spans.list[part.index].key_type();
            let key = self.span_variable(part.index, "oldest", ty);
            self.events.push(Active::new(part.index, Event::Evict, key));
            let (values, handlers) = self.handled(part, &Event::Evict);
            SpanEviction { key, values, handlers }
        });
        let step = SpanStep { span: SpanIndex(part.index), action, key, keeps, values, handlers, replaced, evicted };
        let step = typed::Stmt { kind: StmtKind::Span(Box::new(step)), span: stage.span };
        let stmts = vec![assigned, step];
        match condition {
            None => stmts,
            Some(condition) => {
                vec![typed::Stmt { kind: StmtKind::If(condition, stmts, Vec::new()), span: stage.span }]
            }
        }
    }

    fn sweep(&mut self, part: &Part<'_>) -> typed::Stmt {
        let ty = self.env.spans.list[part.index].key_type();
        let key = self.span_variable(part.index, "key", ty);
        self.events.push(Active::new(part.index, Event::Expire, key));
        let (values, handlers) = self.handled(part, &Event::Expire);
        let step = SpanStep {
            span: SpanIndex(part.index),
            action: SpanAction::Sweep,
            key,
            keeps: Vec::new(),
            values,
            handlers,
            replaced: None,
            evicted: None,
        };
        typed::Stmt { kind: StmtKind::Span(Box::new(step)), span: part.span }
    }

    /// The handlers of the event that was pushed last, and what they read. A stage that hangs on the event comes behind the blocks; it
    /// sees the event's values, while its own handlers see those of its own event only.
    fn handled(&mut self, part: &Part<'_>, event: &Event) -> (SpanValues, Vec<Vec<typed::Stmt>>) {
        let outer = self.events.drain(..self.events.len().saturating_sub(1)).collect::<Vec<_>>();
        let mut handlers: Vec<_> =
            part.handlers(event).map(|block| self.in_own_scope(|cx| cx.handler(block))).collect();
        for (inner, stage) in part.stages_on(event) {
            handlers.push(self.in_own_scope(|cx| cx.stage(&inner, stage)));
        }
        let values = self.events.pop().map(|event| event.values).unwrap_or_default();
        self.events = outer;
        (values, handlers)
    }

    fn handler(&mut self, block: &ProbeBlock) -> Vec<typed::Stmt> {
        let condition = block.predicate.as_ref().map(|predicate| self.condition(predicate));
        let body = self.stmts(&block.body);
        match condition {
            None => body,
            Some(condition) => vec![typed::Stmt { kind: StmtKind::If(condition, body, Vec::new()), span: block.span }],
        }
    }

    /// The variable with the key, and the statement that gives it its value.
    fn span_key(&mut self, part: &Part<'_>, stage: &ast::Stage) -> (VarIndex, typed::Stmt) {
        let written = key_of(part.definition, stage);
        let wanted = self.env.spans.list[part.index].parts.len();
        // That there is none was said of the definition.
        if written.len() != wanted && !written.is_empty() {
            self.wrong_key_length(part, stage, written.len());
        }
        let mut values = Vec::with_capacity(written.len());
        let mut identity: Option<crate::words::Identity> = None;
        for (at, key) in written.iter().enumerate().take(wanted) {
            values.push(self.span_key_part(part.index, at, key));
            identity = self.identity(part.index, at, key.value.span, identity);
        }
        let span = stage.span;
        if let Some(identity) = identity {
            values.push(identity.value);
            self.env.spans.list[part.index].identified = true;
        }
        let ty = self.env.spans.list[part.index].key_type();
        self.check_key_size(&ty, stage.span);
        let key = self.span_variable(part.index, "key", ty.clone());
        let value = typed::Expr { kind: typed::ExprKind::Tuple(values), ty, span };
        (key, typed::Stmt { kind: StmtKind::AssignVar(key, value), span })
    }

    fn check_key_size(&mut self, ty: &Type, span: Span) {
        let size_bytes = layout::of(ty, self.env.target.btf_if_needed(ty)).size_bytes;
        if size_bytes > MAX_KEY_BYTES {
            let message = format!("the key of this span takes {size_bytes} bytes, the limit is {MAX_KEY_BYTES}");
            self.error(Diagnostic::error(Code(244), span, message).help("use a pointer, a number or a shorter string"));
        }
    }

    fn wrong_key_length(&mut self, part: &Part<'_>, stage: &ast::Stage, found: usize) {
        let info = &self.env.spans.list[part.index];
        let count = |n: usize| if n == 1 { "one part".to_string() } else { format!("{n} parts") };
        let message =
            format!("the key of `{}` has {}, here it has {}", info.name, count(info.parts.len()), count(found));
        let first = info.parts.first().map_or(info.span, |part| part.span);
        let diagnostic = Diagnostic::error(Code(240), stage.span, message).related(first, "the key");
        self.error(diagnostic.help("every stage gives the same parts in the same order"));
    }

    fn span_key_part(&mut self, index: usize, at: usize, key: &ast::KeyPart) -> typed::Expr {
        let value = self.value_for(&key.value);
        let part = self.env.spans.list[index].parts[at].clone();
        if let (Some(here), Some(there)) = (&key.name, &part.name)
            && here.text != *there
            && key.name.as_ref().is_some_and(|name| name.span.start != key.value.span.start)
            && here.span.end <= key.value.span.start
        {
            let message = format!("this part of the key is called `{there}`, not `{}`", here.text);
            let diagnostic = Diagnostic::error(Code(240), here.span, message).related(part.span, "first here");
            self.error(diagnostic.help("every stage gives the same parts in the same order"));
        }
        let found = span_type(&value.ty);
        let Some(unified) = unify(&part.ty, &found) else {
            let name = part.name.as_deref().unwrap_or("this part of the key");
            let message = format!("`{name}` is {} here, and {} in another stage", self.one(&found), self.one(&part.ty));
            let diagnostic = Diagnostic::error(Code(240), key.value.span, message).related(part.span, "first here");
            return self.fail(diagnostic.help("all stages need one type for each part of the key"));
        };
        if unified != part.ty {
            self.env.spans.list[index].parts[at].ty = unified.clone();
            self.env.changed = true;
        }
        Self::convert(value, &unified)
    }

    /// What tells the process or thread of a part from later ones; a thread's tells more than a process's.
    fn identity(
        &mut self,
        index: usize,
        at: usize,
        span: Span,
        known: Option<crate::words::Identity>,
    ) -> Option<crate::words::Identity> {
        let word = self.env.spans.list[index].parts[at].builtin.clone();
        let word = word.and_then(|word| self.env.catalogue.builtin(&word));
        let found = word.and_then(|word| word.identity(self, span));
        match (&known, &found) {
            (Some(known), Some(found)) if found.of_thread && !known.of_thread => {}
            (Some(_), _) => return known,
            _ => {}
        }
        found
    }

    fn keeps(&mut self, index: usize, stage: &ast::Stage) -> Vec<SpanKeep> {
        let mut keeps = Vec::with_capacity(stage.keeps.len());
        let mut own = Vec::with_capacity(stage.keeps.len());
        for keep in &stage.keeps {
            let value = self.value_for(&keep.value);
            let Some(value) = self.kept_value(index, keep, value) else { continue };
            let unit = self.unit_of(&keep.value);
            if let Some(kept) = self.env.spans.list[index].kept.iter_mut().find(|kept| kept.name == keep.name.text) {
                kept.unit = unit;
            }
            let var = self.span_variable(index, &keep.name.text, value.ty.clone());
            let mut reads_span = false;
            let name = &self.env.spans.list[index].name;
            facts::walk_expr(&keep.value, &mut |e| {
                reads_span |= matches!(&e.kind, ast::ExprKind::Name(read) if read == name);
            });
            let stored = self.env.spans.list[index].stored(&keep.name.text).filter(|_| stage.kind != StageKind::End);
            keeps.push(SpanKeep { var, stored, value, reads_span });
            own.push((keep.name.text.clone(), var));
        }
        if let Some(event) = self.events.last_mut() {
            event.own = own;
        }
        keeps
    }

    fn kept_value(&mut self, index: usize, keep: &ast::Keep, value: typed::Expr) -> Option<typed::Expr> {
        let at = self.env.spans.list[index].kept.iter().position(|kept| kept.name == keep.name.text)?;
        let known = self.env.spans.list[index].kept[at].clone();
        let found = span_type(&value.ty);
        let Some(unified) = unify(&known.ty, &found) else {
            let message =
                format!("`{}` is {} here, and {} in another stage", known.name, self.one(&found), self.one(&known.ty));
            let diagnostic = Diagnostic::error(Code(242), value.span, message).related(known.span, "first here");
            self.error(diagnostic.help("use another name for it"));
            return None;
        };
        let size_bytes = layout::of(&unified, self.env.target.btf_if_needed(&unified)).size_bytes;
        if size_bytes > MAX_VALUE_BYTES / 32 {
            let message =
                format!("`{}` takes {size_bytes} bytes, a span keeps {} at most", known.name, MAX_VALUE_BYTES / 32);
            self.error(Diagnostic::error(Code(243), value.span, message).help("give the string a size: `str(p, 64)`"));
            return None;
        }
        if unified != known.ty {
            self.env.spans.list[index].kept[at].ty = unified.clone();
            self.env.changed = true;
        }
        Some(Self::convert(value, &unified))
    }
}

/// The type that a value has in a span: booleans and enums stay what they are, numbers keep their width.
fn span_type(ty: &Type) -> Type {
    match ty {
        Type::Int(Int { size_bytes: 1 | 2, signed }) => Type::Int(Int { size_bytes: 4, signed: *signed }),
        other => other.clone(),
    }
}
