//! Reads a span's definition, except for its probes.
//!
//! In: definitions as written. Out: [`InferredSpan`]s with unknown types, and diagnostics about
//! names, clauses and numbers.
//! Guarantee: a kept field is stored only if an event reads it that did not keep it itself.

use super::event::Event;
use super::inferred::{InferredKeyPart, InferredSpan, StoredField};
use crate::ast::visit::{self, Node};
use crate::ast::{
    Expr, ExprKind, Ident, KeyPart, ProbeBlock, Script, SpanDefinition, Stage, StageKind, Stmt, StmtKind,
};
use crate::check::{Env, params};
use crate::diagnostic::{Code, Diagnostic};
use crate::params::Type as ParamType;
use crate::scope::Scope;
use crate::source::Span;
use crate::typed::Restart;
use crate::types::Type;
use crate::units::Unit;

/// Maximum number of marks: a stage has four bits, of which three values are taken.
const MAX_MARKS: usize = 12;
/// Maximum of `limit`, in keys.
const MAX_LIMIT: u64 = 16 << 20;
/// Maximum of `limit` with `evict`: a start then scans for the oldest entry, which takes 5 ms at
/// this size.
const MAX_EVICTING_LIMIT: u32 = 65_536;
/// Maximum of `expire`: the clock fits in 60 bits.
const MAX_EXPIRE_NS: u64 = 365 * 86_400_000_000_000;
/// Minimum of `expire`: sweeps do not run more often than this.
const MIN_EXPIRE_NS: u64 = 1_000_000;

/// Reads all definitions.
pub(in crate::check) fn collect(script: &Script, env: &mut Env<'_>) {
    for definition in &script.spans {
        check_name(definition, script, env);
        let info = read(definition, script, env);
        env.spans.list.push(info);
    }
}

fn check_name(definition: &SpanDefinition, script: &Script, env: &mut Env<'_>) {
    let Ident { text, span } = &definition.name;
    let catalogue = env.catalogue;
    let taken = if let Some(other) = env.spans.list.iter().find(|info| info.name == *text) {
        let message = format!("there is a span `{text}` already");
        env.report.push(Diagnostic::error(Code(236), *span, message).related(other.span, "the first one is here"));
        return;
    } else if catalogue.probe(text).is_some_and(|kind| kind.name().eq_ignore_ascii_case(text)) {
        // A short name (`f`, `w`) may be used; it then refers to the span.
        "a kind of probe"
    } else if catalogue.builtin(text).is_some() || text == "args" {
        "a builtin"
    } else if script.states.iter().any(|state| state.name.text == *text) {
        "a state of this script"
    } else if env.defines.contains_key(text) {
        "a constant of this script"
    } else {
        return;
    };
    let message = format!("a span cannot be called `{text}`, which is {taken}");
    env.report.push(Diagnostic::error(Code(236), *span, message).help("choose another name"));
}

fn read(definition: &SpanDefinition, script: &Script, env: &mut Env<'_>) -> InferredSpan {
    let name = definition.name.text.clone();
    let mut stages = vec!["start".to_owned()];
    for stage in &definition.stages {
        if let StageKind::Mark(mark) = &stage.kind {
            check_mark(mark, env);
            if !stages.contains(&mark.text) {
                stages.push(mark.text.clone());
            }
        }
    }
    if stages.len() > MAX_MARKS + 1 {
        let message = format!("the span `{name}` has {} marks, the limit is {MAX_MARKS}", stages.len() - 1);
        env.report.push(Diagnostic::error(Code(525), definition.name.span, message));
    }
    let expire = only("expire", &definition.expire, |e| e.span, env).and_then(|expr| expire(expr, env));
    let (expire_ns, expire_param) = expire.map_or((None, None), |(ns, param)| (Some(ns), param));
    check_stages(definition, !definition.expire.is_empty(), env);
    let restart = only("restart", &definition.restart, |word| word.span, env).map(|word| restart(word, env));
    let limit = only("limit", &definition.limit, |e| e.span, env).and_then(|expr| limit(expr, env));
    check_eviction(definition, limit, env);
    let kept = kept(definition, script, env);
    let info = InferredSpan {
        parts: parts(definition, env),
        reads_lap: reads(script, definition).any(|(_, field)| field == "lap"),
        span: definition.name.span,
        restart: restart.unwrap_or(Restart::Replace),
        evicts: definition.evict.is_some(),
        is_walked: walks(script, &definition.name.text).next().is_some(),
        limit,
        identity: None,
        starts: Scope::All,
        starts_so_far: None,
        name,
        stages,
        expire_ns,
        expire_param,
        kept,
    };
    check_nest(definition, &info, env);
    info
}

fn check_mark(mark: &Ident, env: &mut Env<'_>) {
    if matches!(mark.text.as_str(), "start" | "end" | "replace" | "expire" | "evict") {
        let message = format!("a mark cannot be called `{}`, which is an event of spans", mark.text);
        env.report.push(Diagnostic::error(Code(239), mark.span, message).help("choose another name"));
    }
}

fn check_stages(definition: &SpanDefinition, expires: bool, env: &mut Env<'_>) {
    let has = |kind: &StageKind| definition.stages.iter().any(|stage| stage.kind == *kind);
    let name = &definition.name;
    if !has(&StageKind::Start) {
        let message = format!("nothing starts the span `{}`", name.text);
        env.report.push(Diagnostic::error(Code(171), name.span, message).help("add a stage: `start PROBE`"));
    } else if !has(&StageKind::End) && !expires {
        let message = format!("nothing ends the span `{}`", name.text);
        env.report.push(Diagnostic::error(Code(171), name.span, message).help("add a stage: `end PROBE`"));
    }
    let keyless = definition.stages.iter().find(|stage| stage.key.is_empty() && definition.key.is_empty());
    if let Some(stage) = keyless {
        let message = format!("the span `{}` has no key", name.text);
        let help = format!("give it a key: `span {} by tid {{ … }}`", name.text);
        let diagnostic = Diagnostic::error(Code(172), name.span, message);
        env.report.push(diagnostic.related(stage.span, "this stage has none of its own").help(help));
    }
}

/// The only occurrence of a clause; reports further ones.
fn only<'a, T>(word: &str, all: &'a [T], place: impl Fn(&T) -> Span, env: &mut Env<'_>) -> Option<&'a T> {
    if let [first, second, ..] = all {
        let message = format!("`{word}` appears twice in this span");
        env.report.push(Diagnostic::error(Code(173), place(second), message).related(place(first), "first here"));
    }
    all.first()
}

fn restart(word: &Ident, env: &mut Env<'_>) -> Restart {
    match word.text.as_str() {
        "replace" => Restart::Replace,
        "keep" => Restart::Keep,
        "nest" => Restart::Nest,
        other => {
            let message = format!("`restart` must be followed by `replace`, `keep` or `nest`, not by `{other}`");
            env.report.push(Diagnostic::error(Code(174), word.span, message));
            Restart::Replace
        }
    }
}

/// The value of an expression that is a literal or a constant of the script.
fn number(expr: &Expr, env: &Env<'_>) -> Option<u64> {
    match &expr.kind {
        ExprKind::Int(number) | ExprKind::Duration(number) => Some(*number),
        ExprKind::Name(name) => match env.defines.get(name)?.kind {
            ExprKind::Int(number) | ExprKind::Duration(number) => Some(number),
            _ => None,
        },
        _ => None,
    }
}

/// The value of a clause, possibly from a parameter; reports errors.
fn clause(expr: &Expr, what: (&str, ParamType), env: &mut Env<'_>) -> Option<(Expr, Option<usize>)> {
    match params::in_clause(expr, what, &mut env.params) {
        Ok(value) => value,
        Err(problem) => {
            env.report.push(problem);
            None
        }
    }
}

/// The maximum age in nanoseconds, and the parameter that sets it: programs read the parameter.
fn expire(written: &Expr, env: &mut Env<'_>) -> Option<(u64, Option<usize>)> {
    let (expr, param) = clause(written, ("expire", ParamType::Duration), env)?;
    let found = number(&expr, env).filter(|ns| (MIN_EXPIRE_NS..=MAX_EXPIRE_NS).contains(ns));
    if found.is_none() {
        let message = "`expire` takes a duration from 1ms to 365d that is known beforehand";
        let problem = Diagnostic::error(Code(526), expr.span, message).help("write `expire 30s`");
        env.report.push(params::blame(problem, param.map(|index| &env.params[index])));
    }
    if let Some(index) = param {
        env.params[index].is_read();
    }
    found.map(|ns| (ns, param))
}

fn limit(written: &Expr, env: &mut Env<'_>) -> Option<u32> {
    let (expr, param) = clause(written, ("limit", ParamType::Int), env)?;
    let found = number(&expr, env).filter(|limit| (1..=MAX_LIMIT).contains(limit));
    if found.is_none() {
        let message = format!("`limit` takes a number from 1 to {MAX_LIMIT} that is known beforehand");
        let problem = Diagnostic::error(Code(527), expr.span, message).help("write `limit 65536`");
        env.report.push(params::blame(problem, param.map(|index| &env.params[index])));
    }
    found.map(|limit| limit as u32)
}

/// Limits `evict`, because the oldest entry is found by a full scan.
fn check_eviction(definition: &SpanDefinition, limit: Option<u32>, env: &mut Env<'_>) {
    let Some(limit) = limit.filter(|limit| definition.evict.is_some() && *limit > MAX_EVICTING_LIMIT) else { return };
    let span = definition.limit.first().map_or(definition.span, |expr| expr.span);
    let message =
        format!("`limit {limit} evict` would delay a thread for too long, the maximum is {MAX_EVICTING_LIMIT}");
    let help = "leave out `evict`, and close old starts with `expire`; starts beyond the limit are then counted";
    env.report.push(Diagnostic::error(Code(541), span, message).help(help));
}

/// The key of a stage.
pub(super) fn key_of<'a>(definition: &'a SpanDefinition, stage: &'a Stage) -> &'a [KeyPart] {
    if stage.key.is_empty() { &definition.key } else { &stage.key }
}

fn parts(definition: &SpanDefinition, env: &mut Env<'_>) -> Vec<InferredKeyPart> {
    let first = if definition.key.is_empty() {
        definition.stages.iter().map(|stage| stage.key.as_slice()).find(|key| !key.is_empty()).unwrap_or_default()
    } else {
        &definition.key
    };
    let builtin = |part: &KeyPart| match &part.value.kind {
        ExprKind::Name(name) if !env.defines.contains_key(name) => Some(name.clone()),
        _ => None,
    };
    let mut parts: Vec<InferredKeyPart> = Vec::new();
    for (at, part) in first.iter().enumerate() {
        let name = part.name.as_ref().map(|name| name.text.clone());
        let same = |stage: &Stage| key_of(definition, stage).get(at).and_then(builtin);
        let everywhere =
            builtin(part).filter(|word| definition.stages.iter().all(|it| same(it).as_ref() == Some(word)));
        let span = part.name.as_ref().map_or(part.value.span, |name| name.span);
        parts.push(InferredKeyPart { name, ty: Type::Unknown, span, builtin: everywhere });
    }
    for (at, part) in parts.iter().enumerate() {
        let name = part.name.as_deref();
        if let Some(name @ ("elapsed" | "lap")) = name {
            env.report.push(name_of_every_span("a part of the key", name, part.span));
        }
        if let Some(other) = parts[..at].iter().find(|other| name.is_some() && other.name.as_deref() == name) {
            let message = format!("the key has two parts called `{}`", name.unwrap_or_default());
            let diagnostic = Diagnostic::error(Code(239), part.span, message).related(other.span, "the first");
            env.report.push(diagnostic.help("name one of them: `by (from: …, to: …)`"));
        }
    }
    parts
}

fn name_of_every_span(what: &str, name: &str, span: Span) -> Diagnostic {
    let message = format!("{what} cannot be called `{name}`, which is a value of every span");
    Diagnostic::error(Code(239), span, message).help("choose another name")
}

/// The fields that stages keep, in source order.
fn kept(definition: &SpanDefinition, script: &Script, env: &mut Env<'_>) -> Vec<StoredField> {
    let mut kept: Vec<StoredField> = Vec::new();
    let reads: Vec<(Event, String)> = reads(script, definition).collect();
    let part_names: Vec<&Ident> = definition.key.iter().filter_map(|part| part.name.as_ref()).collect();
    for stage in &definition.stages {
        for keep in &stage.keeps {
            let name = &keep.name;
            if matches!(name.text.as_str(), "elapsed" | "lap") {
                env.report.push(name_of_every_span("a field", &name.text, name.span));
            }
            if let Some(part) = part_names.iter().find(|part| part.text == name.text) {
                let message = format!("`{}` is a part of the key already", name.text);
                env.report.push(Diagnostic::error(Code(239), name.span, message).related(part.span, "here"));
            }
            if kept.iter().any(|field| field.name == name.text) {
                continue;
            }
            let is_stored = outlives(definition, &name.text, &reads);
            kept.push(StoredField {
                name: name.text.clone(),
                ty: Type::Unknown,
                span: name.span,
                is_stored,
                unit: Unit::None,
            });
        }
    }
    kept
}

/// Whether an event reads a field that another event kept.
fn outlives(definition: &SpanDefinition, field: &str, reads: &[(Event, String)]) -> bool {
    let keeps = |stage: &&Stage| stage.keeps.iter().any(|keep| keep.name.text == field);
    let is_kept_before_end = definition.stages.iter().filter(|stage| stage.kind != StageKind::End).any(|it| keeps(&it));
    let needs = |event: &Event| match event {
        Event::Replace | Event::Expire | Event::Evict | Event::Open => true,
        Event::Stage(name) => {
            let mut lines = definition.stages.iter().filter(|stage| stage.kind.event() == name);
            !lines.all(|stage| keeps(&stage))
        }
    };
    is_kept_before_end && reads.iter().any(|(event, read)| read == field && needs(event))
        || definition.stages.iter().flat_map(|stage| &stage.keeps).any(|keep| mentions(&keep.value, definition, field))
}

fn mentions(expr: &Expr, definition: &SpanDefinition, field: &str) -> bool {
    let mut found = false;
    visit::walk_expr(expr, &mut |e| found |= field_of(e, definition).is_some_and(|name| name == field));
    found
}

fn field_of<'a>(expr: &'a Expr, definition: &SpanDefinition) -> Option<&'a str> {
    match &expr.kind {
        ExprKind::Field(base, field) => match &base.kind {
            ExprKind::Name(name) if *name == definition.name.text => Some(&field.text),
            _ => None,
        },
        _ => None,
    }
}

/// The fields of a span that are read, with the reading event: by its handlers, its stages, stages
/// on its events, and loops.
fn reads<'a>(script: &'a Script, definition: &'a SpanDefinition) -> impl Iterator<Item = (Event, String)> + use<'a> {
    let handlers = script.blocks.iter().flat_map(move |block| {
        let fields = fields_of(block, definition);
        let events = block.points.iter().filter(|point| point.kind.text == definition.name.text);
        let events: Vec<Event> = events.filter_map(|point| Some(Event::named(&point.parts.first()?.text))).collect();
        events.into_iter().flat_map(move |event| {
            fields.clone().into_iter().map(move |field| (event.clone(), field)).collect::<Vec<_>>()
        })
    });
    let stages = definition.stages.iter().flat_map(move |stage| {
        let mut fields = Vec::new();
        for keep in &stage.keeps {
            let mut note = |e: &Expr| fields.extend(field_of(e, definition).map(str::to_owned));
            visit::walk_expr(&keep.value, &mut note);
        }
        let event = Event::Stage(stage.kind.event().to_owned());
        fields.into_iter().map(move |field| (event.clone(), field)).collect::<Vec<_>>()
    });
    let in_loops = walks(script, &definition.name.text).flat_map(|(var, body)| {
        let mut fields = Vec::new();
        visit::walk_stmts(body, &mut |e: &Expr| match &e.kind {
            ExprKind::Field(base, field) if matches!(&base.kind, ExprKind::Var(name) if *name == var.text) => {
                fields.push((Event::Open, field.text.clone()));
            }
            _ => {}
        });
        fields
    });
    handlers.chain(stages).chain(reads_of_others(script, definition)).chain(in_loops)
}

/// The loops over a span, each with its variable and body.
fn walks<'a>(script: &'a Script, span: &str) -> impl Iterator<Item = (&'a Ident, &'a [Stmt])> + use<'a> {
    let mut found = Vec::new();
    for block in &script.blocks {
        visit::walk(&block.body, &mut |node| {
            if let Node::Stmt(Stmt { kind: StmtKind::ForMap { name, map, body }, .. }) = node
                && matches!(&map.kind, ExprKind::Name(of) if of == span)
            {
                found.push((name, body.as_slice()));
            }
        });
    }
    found.into_iter()
}

/// The fields that stages of other spans read when they are attached to this span's events.
fn reads_of_others(script: &Script, definition: &SpanDefinition) -> Vec<(Event, String)> {
    let mut reads = Vec::new();
    for other in &script.spans {
        for stage in &other.stages {
            let mut fields = Vec::new();
            let keys = other.key.iter().map(|part| &part.value);
            for expr in stage.exprs().chain(keys) {
                let mut note = |e: &Expr| fields.extend(field_of(e, definition).map(str::to_owned));
                visit::walk_expr(expr, &mut note);
            }
            let events = stage.points.iter().filter(|point| point.kind.text == definition.name.text);
            for event in events.filter_map(|point| point.parts.first()) {
                reads.extend(fields.iter().map(|field| (Event::named(&event.text), field.clone())));
            }
        }
    }
    reads
}

fn fields_of(block: &ProbeBlock, definition: &SpanDefinition) -> Vec<String> {
    let mut fields = Vec::new();
    let mut note = |e: &Expr| fields.extend(field_of(e, definition).map(str::to_owned));
    block.predicate.iter().for_each(|e| visit::walk_expr(e, &mut note));
    visit::walk_stmts(&block.body, &mut note);
    fields
}

/// Frames are pushed and popped without a lock, so only the thread itself may do it.
fn check_nest(definition: &SpanDefinition, info: &InferredSpan, env: &mut Env<'_>) {
    let Some(word) = definition.restart.first().filter(|_| info.restart == Restart::Nest) else { return };
    let words = info.parts.iter().filter_map(|part| env.catalogue.builtin(part.builtin.as_deref()?));
    if !words.into_iter().any(crate::catalogue::Builtin::is_thread_number) {
        let message = "`restart nest` is for functions of one thread, so `tid` must be in the key of every stage";
        env.report.push(Diagnostic::error(Code(528), word.span, message).help("write `by (tid, …)`"));
    }
    if let Some(evict) = definition.evict {
        let message = "`evict` cannot be combined with `restart nest`";
        let help = "without `evict`, starts beyond the limit are refused and counted";
        let diagnostic = Diagnostic::error(Code(540), evict, message);
        env.report.push(diagnostic.related(word.span, "frames are stacked here").help(help));
    }
    if let Some(expire) = definition.expire.first() {
        let message = "`expire` cannot be combined with `restart nest`";
        let help = "without `expire`, frames of threads that end are counted";
        let diagnostic = Diagnostic::error(Code(529), expire.span, message);
        env.report.push(diagnostic.related(word.span, "frames are stacked here").help(help));
    }
}
