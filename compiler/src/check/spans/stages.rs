//! Checks the stages of a span at one probe, with their handlers, as one program.
//!
//! In: a [`Part`]. Out: a [`typed::Probe`] with a [`typed::SpanStep`] for each stage.
//! Guarantee: predicates, keys, kept fields and handlers are checked in the context of the stage's
//! probe; all stages agree on the types of the key parts and kept fields.

use super::declare::key_of;
use super::event::Event;
use super::{Active, Part, PartKind, values};
use crate::ast::{self, ProbeBlock, StageKind, visit};
use crate::check::types::MAX_VALUE_BYTES;
use crate::check::{Body, program, scope, unify, units};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::object::Attach;
use crate::scope::Scope;
use crate::source::Span;
use crate::typed::{
    self, KeyIdentity, Restart, SpanAction, SpanEviction, SpanIndex, SpanKeep, SpanStep, SpanValues, StmtKind, VarIndex,
};
use crate::types::{Int, Type};

/// Maximum size of a key in bytes: it is built on the BPF stack or in scratch memory, and compared
/// as a whole.
const MAX_KEY_BYTES: u32 = 512;

/// Checks the stages of a part, its sweep, or its program for ended tasks.
pub(in crate::check) fn check(mut cx: Body<'_, '_>, part: &Part<'_>) -> typed::Probe {
    let mut body = Vec::new();
    for stage in &part.stages {
        body.extend(cx.in_scope(|cx| check_stage(cx, part, stage, Scope::All)));
    }
    match part.kind {
        PartKind::Stages => {}
        PartKind::Sweep => body.push(cx.in_scope(|cx| sweep(cx, part))),
        PartKind::Ended => body.push(cx.in_scope(|cx| own_step(cx, part, SpanAction::Ended))),
    }
    let scope = scope::of(cx.env, None, &body);
    let in_other_processes = part.stages.iter().find(|stage| {
        let starts = &cx.env.spans.list[part.index].starts;
        stage.kind != StageKind::Start && stage.predicate.is_none() && *starts != Scope::All
    });
    if let Attach::Uprobe { scope: Scope::All, .. } = &cx.seed.attach
        && let Some(stage) = in_other_processes.filter(|_| scope == Scope::All)
    {
        cx.error(program::traps_everywhere(stage.span, "although the span starts in some processes only"));
    }
    program::within(cx, scope, None, body, part.span)
}

/// Checks a stage that is reached in these processes only.
fn check_stage(cx: &mut Body<'_, '_>, part: &Part<'_>, stage: &ast::Stage, reached: Scope) -> Vec<typed::Stmt> {
    let condition = stage.predicate.as_ref().map(|predicate| cx.condition(predicate));
    let (key, assigned) = key(cx, part, stage);
    let event = Event::Stage(stage.kind.event().to_owned());
    let action = match &stage.kind {
        StageKind::Start => SpanAction::Start,
        StageKind::End => SpanAction::End,
        StageKind::Mark(name) => {
            let stages = &cx.env.spans.list[part.index].stages;
            SpanAction::Mark(stages.iter().position(|stage| *stage == name.text).unwrap_or(0) as u8 + 1)
        }
    };
    cx.spans.enter(Active::new(part.index, event.clone(), key));
    let keeps = keeps(cx, part.index, stage);
    let (values, handlers) = handled(cx, part, &event);
    let may_replace = cx.env.spans.list[part.index].restart == Restart::Replace && action == SpanAction::Start;
    let has_replaced = may_replace && part.has_handlers(&Event::Replace);
    let replaced = has_replaced.then(|| {
        cx.spans.enter(Active::new(part.index, Event::Replace, key));
        handled(cx, part, &Event::Replace)
    });
    let evicts = cx.env.spans.list[part.index].evicts && action == SpanAction::Start;
    let evicted = evicts.then(|| {
        let ty = cx.env.spans.list[part.index].key_type();
        let key = values::variable(cx, part.index, "oldest", ty);
        cx.spans.enter(Active::new(part.index, Event::Evict, key));
        let (values, handlers) = handled(cx, part, &Event::Evict);
        SpanEviction { key, values, handlers }
    });
    let step = SpanStep { span: SpanIndex(part.index), action, key, keeps, values, handlers, replaced, evicted };
    let step = typed::Stmt { kind: StmtKind::Span(Box::new(step)), span: stage.span };
    let mut stmts = vec![assigned, step];
    if let Some(condition) = condition {
        stmts = vec![typed::Stmt { kind: StmtKind::If(condition, stmts, Vec::new()), span: stage.span }];
    }
    if action == SpanAction::Start {
        let scope = scope::of(cx.env, None, &stmts);
        cx.env.spans.list[part.index].has_start(reached.and(scope));
    }
    stmts
}

fn sweep(cx: &mut Body<'_, '_>, part: &Part<'_>) -> typed::Stmt {
    let mut stmt = own_step(cx, part, SpanAction::Sweep);
    if let StmtKind::Span(step) = &mut stmt.kind {
        cx.spans.enter(Active::new(part.index, Event::Expire, step.key));
        (step.values, step.handlers) = handled(cx, part, &Event::Expire);
    }
    stmt
}

/// The step of a program that the runtime triggers, without handlers.
fn own_step(cx: &mut Body<'_, '_>, part: &Part<'_>, action: SpanAction) -> typed::Stmt {
    let ty = cx.env.spans.list[part.index].key_type();
    let key = values::variable(cx, part.index, "key", ty);
    let step = SpanStep {
        span: SpanIndex(part.index),
        action,
        key,
        keeps: Vec::new(),
        values: SpanValues::default(),
        handlers: Vec::new(),
        replaced: None,
        evicted: None,
    };
    typed::Stmt { kind: StmtKind::Span(Box::new(step)), span: part.span }
}

/// Checks the handlers of the event that was pushed last; returns the span values that they
/// read, and their statements. Stages attached to the event follow the blocks. They see the
/// event's values; their own handlers see only the values of their own event.
fn handled(cx: &mut Body<'_, '_>, part: &Part<'_>, event: &Event) -> (SpanValues, Vec<Vec<typed::Stmt>>) {
    let outer = cx.spans.hide_outer();
    let mut handlers: Vec<_> = part.handlers(event).map(|block| cx.in_scope(|cx| handler(cx, block))).collect();
    // An open start is found only where it can be, at a task of its own.
    let is_later = !matches!(event, Event::Stage(name) if name == "start");
    let reached = if is_later { cx.env.spans.list[part.index].starts_in(cx.env.catalogue) } else { Scope::All };
    for (inner, stage) in part.stages_on(event) {
        handlers.push(cx.in_scope(|cx| check_stage(cx, &inner, stage, reached.clone())));
    }
    let values = cx.spans.restore(outer);
    (values, handlers)
}

fn handler(cx: &mut Body<'_, '_>, block: &ProbeBlock) -> Vec<typed::Stmt> {
    let condition = block.predicate.as_ref().map(|predicate| cx.condition(predicate));
    let body = cx.stmts(&block.body);
    match condition {
        None => body,
        Some(condition) => vec![typed::Stmt { kind: StmtKind::If(condition, body, Vec::new()), span: block.span }],
    }
}

/// The key's variable, and the statement that assigns it.
fn key(cx: &mut Body<'_, '_>, part: &Part<'_>, stage: &ast::Stage) -> (VarIndex, typed::Stmt) {
    let written = key_of(part.definition, stage);
    let wanted = cx.env.spans.list[part.index].parts.len();
    // A missing key was reported at the definition.
    if written.len() != wanted && !written.is_empty() {
        wrong_key_length(cx, part, stage, written.len());
    }
    let mut values = Vec::with_capacity(written.len());
    let mut identity: Option<crate::catalogue::Identity> = None;
    for (at, key) in written.iter().enumerate().take(wanted) {
        values.push(key_part(cx, part.index, at, key));
        let known = identity.as_ref().map(|known| known.of_thread);
        identity = identity_of(cx, part.index, at, key.value.span, identity);
        if let Some(found) = identity.as_ref().filter(|found| known != Some(found.of_thread)) {
            cx.env.spans.list[part.index].identity = Some(KeyIdentity { part: at, of_thread: found.of_thread });
        }
    }
    let span = stage.span;
    values.extend(identity.map(|identity| identity.value));
    let ty = cx.env.spans.list[part.index].key_type();
    check_key_size(cx, &ty, stage.span);
    let key = values::variable(cx, part.index, "key", ty.clone());
    let value = typed::Expr { kind: typed::ExprKind::Tuple(values), ty, span };
    (key, typed::Stmt { kind: StmtKind::AssignVar(key, value), span })
}

fn check_key_size(cx: &mut Body<'_, '_>, ty: &Type, span: Span) {
    let size_bytes = layout::of(ty, cx.env.target.btf_if_needed(ty)).size_bytes;
    if size_bytes > MAX_KEY_BYTES {
        let message = format!("the key of this span takes {size_bytes} bytes, the limit is {MAX_KEY_BYTES}");
        cx.error(Diagnostic::error(Code(244), span, message).help("use a pointer, a number or a shorter string"));
    }
}

fn wrong_key_length(cx: &mut Body<'_, '_>, part: &Part<'_>, stage: &ast::Stage, found: usize) {
    let info = &cx.env.spans.list[part.index];
    let count = |n: usize| if n == 1 { "one part".to_string() } else { format!("{n} parts") };
    let message = format!("the key of `{}` has {}, here it has {}", info.name, count(info.parts.len()), count(found));
    let first = info.parts.first().map_or(info.span, |part| part.span);
    let diagnostic = Diagnostic::error(Code(240), stage.span, message).related(first, "the key");
    cx.error(diagnostic.help("every stage gives the same parts in the same order"));
}

fn key_part(cx: &mut Body<'_, '_>, index: usize, at: usize, key: &ast::KeyPart) -> typed::Expr {
    let value = cx.value_for(&key.value);
    let part = cx.env.spans.list[index].parts[at].clone();
    if let (Some(here), Some(there)) = (&key.name, &part.name)
        && here.text != *there
        && key.name.as_ref().is_some_and(|name| name.span.start != key.value.span.start)
        && here.span.end <= key.value.span.start
    {
        let message = format!("this part of the key is called `{there}`, not `{}`", here.text);
        let diagnostic = Diagnostic::error(Code(240), here.span, message).related(part.span, "first here");
        cx.error(diagnostic.help("every stage gives the same parts in the same order"));
    }
    let found = span_type(&value.ty);
    let Some(unified) = unify(&part.ty, &found) else {
        let name = part.name.as_deref().unwrap_or("this part of the key");
        let message = format!("`{name}` is {} here, and {} in another stage", cx.one(&found), cx.one(&part.ty));
        let diagnostic = Diagnostic::error(Code(240), key.value.span, message).related(part.span, "first here");
        return cx.fail(diagnostic.help("all stages need one type for each part of the key"));
    };
    if unified != part.ty {
        cx.env.spans.list[index].parts[at].ty = unified.clone();
        cx.env.changed = true;
    }
    typed::Expr::convert(value, &unified)
}

/// The start time that distinguishes the process or thread of a key part from later ones with
/// the same number. A thread's takes precedence over a process's.
fn identity_of(
    cx: &mut Body<'_, '_>,
    index: usize,
    at: usize,
    span: Span,
    known: Option<crate::catalogue::Identity>,
) -> Option<crate::catalogue::Identity> {
    let word = cx.env.spans.list[index].parts[at].builtin.clone();
    let word = word.and_then(|word| cx.env.catalogue.builtin(&word));
    let found = word.and_then(|word| word.identity(cx, span));
    match (&known, &found) {
        (Some(known), Some(found)) if found.of_thread && !known.of_thread => {}
        (Some(_), _) => return known,
        _ => {}
    }
    found
}

fn keeps(cx: &mut Body<'_, '_>, index: usize, stage: &ast::Stage) -> Vec<SpanKeep> {
    let mut keeps = Vec::with_capacity(stage.keeps.len());
    let mut own = Vec::with_capacity(stage.keeps.len());
    for keep in &stage.keeps {
        let value = cx.value_for(&keep.value);
        let Some(value) = kept_value(cx, index, keep, value) else { continue };
        let unit = units::of(cx, &keep.value);
        if let Some(kept) = cx.env.spans.list[index].kept.iter_mut().find(|kept| kept.name == keep.name.text) {
            kept.unit = unit;
        }
        let var = values::variable(cx, index, &keep.name.text, value.ty.clone());
        let mut reads_span = false;
        let name = &cx.env.spans.list[index].name;
        visit::walk_expr(&keep.value, &mut |e| {
            reads_span |= matches!(&e.kind, ast::ExprKind::Name(read) if read == name);
        });
        let stored = cx.env.spans.list[index].stored(&keep.name.text).filter(|_| stage.kind != StageKind::End);
        keeps.push(SpanKeep { var, stored, value, reads_span });
        own.push((keep.name.text.clone(), var));
    }
    if let Some(event) = cx.spans.last() {
        event.own = own;
    }
    keeps
}

fn kept_value(cx: &mut Body<'_, '_>, index: usize, keep: &ast::Keep, value: typed::Expr) -> Option<typed::Expr> {
    let at = cx.env.spans.list[index].kept.iter().position(|kept| kept.name == keep.name.text)?;
    let known = cx.env.spans.list[index].kept[at].clone();
    let found = span_type(&value.ty);
    let Some(unified) = unify(&known.ty, &found) else {
        let message =
            format!("`{}` is {} here, and {} in another stage", known.name, cx.one(&found), cx.one(&known.ty));
        let diagnostic = Diagnostic::error(Code(242), value.span, message).related(known.span, "first here");
        cx.error(diagnostic.help("use another name for it"));
        return None;
    };
    let size_bytes = layout::of(&unified, cx.env.target.btf_if_needed(&unified)).size_bytes;
    if size_bytes > MAX_VALUE_BYTES / 32 {
        let message =
            format!("`{}` takes {size_bytes} bytes, a span keeps {} at most", known.name, MAX_VALUE_BYTES / 32);
        cx.error(Diagnostic::error(Code(243), value.span, message).help("give the string a size: `str(p, 64)`"));
        return None;
    }
    if unified != known.ty {
        cx.env.spans.list[index].kept[at].ty = unified.clone();
        cx.env.changed = true;
    }
    Some(typed::Expr::convert(value, &unified))
}

/// The type in which a span stores a value: integers of 1 or 2 bytes are widened to 4, all other
/// types are unchanged.
fn span_type(ty: &Type) -> Type {
    match ty {
        Type::Int(Int { size_bytes: 1 | 2, signed }) => Type::Int(Int { size_bytes: 4, signed: *signed }),
        other => other.clone(),
    }
}
