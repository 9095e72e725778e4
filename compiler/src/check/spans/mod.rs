//! The spans of a script: what they are called, what they keep, and which programs they need.
//!
//! In: definitions and the blocks that hang on their events. Out: [`Spans`], whose types grow as bodies are checked, and [`Part`]s.
//! Guarantee: a span without an error has a start, a key, and marks of different names.

mod chains;
mod declare;
mod stages;
mod values;

pub(super) use declare::collect;
pub(super) use values::Active;

use crate::ast::{self, AttachPoint, ProbeBlock, Script, StageKind};
use crate::check::{Env, Facts, Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::source::Span;
use crate::typed::{self, ContextKind, Restart};
use crate::types::Type;
use crate::units::Unit;
use crate::words::Catalogue;

/// All spans of a script.
#[derive(Debug, Default)]
pub struct Spans {
    /// In the order of the script.
    pub list: Vec<SpanInfo>,
}

/// What is known of a span.
#[derive(Debug)]
pub struct SpanInfo {
    /// Its name.
    pub name: String,
    /// The definition.
    pub span: Span,
    /// `start`, then the marks.
    pub stages: Vec<String>,
    /// What a second start does.
    pub restart: Restart,
    /// How old it may become.
    pub expire_ns: Option<u64>,
    /// The parameter that says so.
    pub expire_param: Option<usize>,
    /// Most keys, when the script says.
    pub limit: Option<u32>,
    /// Whether a start that finds no room takes that of the oldest.
    pub evicts: bool,
    /// The parts of the key.
    pub parts: Vec<KeyPartInfo>,
    /// What tells the key's process or thread from later ones, when a stage found that there is such.
    pub identified: bool,
    /// Fields that stages keep.
    pub kept: Vec<KeptInfo>,
    /// Whether the time of the last stage is asked for.
    pub reads_lap: bool,
}

/// A part of a span's key.
#[derive(Debug, Clone)]
pub struct KeyPartInfo {
    /// Its name.
    pub name: Option<String>,
    /// The type that holds it in every stage.
    pub ty: Type,
    /// Where it was seen first.
    pub span: Span,
    /// The builtin that it is in every stage.
    pub builtin: Option<String>,
}

/// A field that stages keep.
#[derive(Debug, Clone)]
pub struct KeptInfo {
    /// Its name.
    pub name: String,
    /// The type that holds it.
    pub ty: Type,
    /// Where it is kept first.
    pub span: Span,
    /// Whether a later stage needs it.
    pub is_stored: bool,
    /// What it counts.
    pub unit: Unit,
}

/// Room for keys when the script says nothing.
const DEFAULT_LIMIT: u32 = 16_384;

/// How often a sweep looks, as a part of what it looks for.
const SWEEPS_IN_EXPIRE: u64 = 16;
/// No more often than this.
const SHORTEST_SWEEP_NS: u64 = 10_000_000;
/// No more rarely.
const LONGEST_SWEEP_NS: u64 = 1_000_000_000;

/// An event of a span, as handlers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// `start`, a mark's name, `end`.
    Stage(String),
    /// `replace`.
    Replace,
    /// `expire`.
    Expire,
    /// `evict`.
    Evict,
}

impl Event {
    fn named(name: &str) -> Event {
        match name {
            "replace" => Event::Replace,
            "expire" => Event::Expire,
            "evict" => Event::Evict,
            stage => Event::Stage(stage.to_owned()),
        }
    }
}

/// One attach point of a span with the stages that it is; or a sweep, without any.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    /// Index of the span.
    pub index: usize,
    /// Its definition.
    pub definition: &'a ast::SpanDefinition,
    /// The attach point.
    pub point: Option<&'a AttachPoint>,
    /// Its stages: an end first, so that a probe that is both ends the old one and starts the next.
    pub stages: Vec<&'a ast::Stage>,
    /// All of the script, with the handlers and with the spans whose stages hang on events of this one.
    pub script: &'a Script,
    /// The attach point as written.
    pub span: Span,
}

impl<'a> Part<'a> {
    /// The handlers of an event.
    pub fn handlers(&self, event: &Event) -> impl Iterator<Item = &'a ProbeBlock> {
        let name = &self.definition.name.text;
        let is_of = |point: &AttachPoint| {
            point.kind.text == *name && point.parts.first().is_some_and(|part| Event::named(&part.text) == *event)
        };
        self.script.blocks.iter().filter(move |block| block.points.iter().any(is_of))
    }

    /// Stages of other spans that hang on an event, each with its span.
    pub fn stages_on(&self, event: &Event) -> Vec<(Part<'a>, &'a ast::Stage)> {
        let mut found = Vec::new();
        for (index, definition) in self.script.spans.iter().enumerate() {
            for stage in &definition.stages {
                let name = &self.definition.name.text;
                let is_of = |point: &&AttachPoint| {
                    point.kind.text == *name
                        && point.parts.first().is_some_and(|part| Event::named(&part.text) == *event)
                };
                if let Some(point) = stage.points.iter().find(is_of) {
                    let (point, span) = (Some(point), point.span);
                    found.push((
                        Part { index, definition, point, stages: vec![stage], script: self.script, span },
                        stage,
                    ));
                }
            }
        }
        found
    }

    /// Whether anything hangs on an event.
    pub fn has_handlers(&self, event: &Event) -> bool {
        self.handlers(event).next().is_some() || !self.stages_on(event).is_empty()
    }

    /// What the stages need, and all that hangs on their events.
    fn add_facts(&self, facts: &mut Facts) {
        for stage in &self.stages {
            stage.exprs().for_each(|expr| facts.add_expr(expr));
            self.definition.key.iter().for_each(|part| facts.add_expr(&part.value));
            let mut events = vec![Event::Stage(stage.kind.event().to_owned())];
            if stage.kind == StageKind::Start {
                events.extend([Event::Replace, Event::Evict]);
            }
            for event in events {
                self.handlers(&event).for_each(|block| facts.add(block));
                self.stages_on(&event).iter().for_each(|(inner, _)| inner.add_facts(facts));
            }
        }
    }

    /// The programs.
    pub fn seeds(&self, env: &mut Env<'_>) -> Vec<Seed> {
        let Some(point) = self.point else { return vec![self.sweep(env)] };
        let mut facts = Facts::default();
        self.add_facts(&mut facts);
        Points::new(env, facts).expand(point)
    }

    fn sweep(&self, env: &Env<'_>) -> Seed {
        let info = &env.spans.list[self.index];
        let age_ns = info.expire_ns.unwrap_or(0);
        let period_ns = (age_ns / SWEEPS_IN_EXPIRE).clamp(SHORTEST_SWEEP_NS, LONGEST_SWEEP_NS);
        let attach = Attach::Sweep { span: self.index, period_ns };
        let mut seed = Seed::new(format!("{}:expire", info.name), "raw_tp".into(), ContextKind::Empty, attach);
        seed.points = 0;
        seed
    }
}

/// The attach points of all spans, each once for each span, then the sweeps. Also says which handlers hang on nothing.
pub(super) fn parts<'a>(script: &'a Script, env: &mut Env<'_>) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    check_events(script, env);
    if chains::check(script, env) {
        return parts;
    }
    for (index, definition) in script.spans.iter().enumerate() {
        let first = parts.len();
        for stage in &definition.stages {
            for point in stage.points.iter().filter(|point| !env.spans.has(&point.kind.text)) {
                let same =
                    parts[first..].iter_mut().find(|part| part.point.is_some_and(|it| same_point(it, point, env)));
                if let Some(part) = same {
                    part.stages.push(stage);
                    continue;
                }
                let (point, span) = (Some(point), point.span);
                parts.push(Part { index, definition, point, stages: vec![stage], script, span });
            }
        }
        for part in &mut parts[first..] {
            part.stages.sort_by_key(|stage| match stage.kind {
                StageKind::End => 0,
                StageKind::Mark(_) => 1,
                StageKind::Start => 2,
            });
        }
        if env.spans.list.get(index).is_some_and(|info| info.expire_ns.is_some()) {
            let span = definition.expire.first().map_or(definition.span, |expire| expire.span);
            parts.push(Part { index, definition, point: None, stages: Vec::new(), script, span });
        }
    }
    parts
}

fn same_point(a: &AttachPoint, b: &AttachPoint, env: &Env<'_>) -> bool {
    let kind = |point: &AttachPoint| env.catalogue.probe(&point.kind.text).map(crate::words::ProbeKind::name);
    let texts = |point: &AttachPoint| point.parts.iter().map(|part| part.text.clone()).collect::<Vec<_>>();
    kind(a) == kind(b) && texts(a) == texts(b)
}

/// Reports handlers and stages that hang on events which a span does not have.
fn check_events(script: &Script, env: &mut Env<'_>) {
    let stages = script.spans.iter().flat_map(|definition| &definition.stages).flat_map(|stage| &stage.points);
    for point in script.blocks.iter().flat_map(|block| &block.points).chain(stages) {
        let Some(info) = env.spans.index(&point.kind.text).and_then(|index| env.spans.list.get(index)) else {
            continue;
        };
        if let Some(problem) = wrong_event(info, point) {
            env.report.push(problem);
        }
    }
}

fn wrong_event(info: &SpanInfo, point: &AttachPoint) -> Option<Diagnostic> {
    let name = &info.name;
    let [event] = point.parts.as_slice() else {
        let message = format!("`{name}` is a span: its handlers name one of its events");
        return Some(Diagnostic::error(Code(436), point.span, message).help(events(info)));
    };
    match Event::named(&event.text) {
        Event::Stage(stage) if stage == "end" || info.stages.contains(&stage) => None,
        Event::Stage(stage) => {
            let message = format!("the span `{name}` has no event `{stage}`");
            Some(Diagnostic::error(Code(436), event.span, message).help(events(info)))
        }
        Event::Replace if info.restart == Restart::Replace => None,
        Event::Expire if info.expire_ns.is_some() => None,
        Event::Evict if info.evicts => None,
        Event::Replace => {
            let message = format!("a start never replaces another in the span `{name}`");
            let help =
                "that is so with `restart keep` and `restart nest`; without them, the new start replaces the old one";
            Some(Diagnostic::error(Code(437), event.span, message).help(help))
        }
        Event::Expire => {
            let message = format!("nothing ever expires in the span `{name}`");
            Some(Diagnostic::error(Code(437), event.span, message).help("say after how long: `expire 30s`"))
        }
        Event::Evict => {
            let message = format!("no start ever takes the room of another in the span `{name}`");
            let help = "say for how many there is room, and that the oldest makes it: `limit 1000 evict`";
            Some(Diagnostic::error(Code(437), event.span, message).help(help))
        }
    }
}

fn events(info: &SpanInfo) -> String {
    let mut names: Vec<&str> = info.stages.iter().map(String::as_str).collect();
    names.push("end");
    if info.restart == Restart::Replace {
        names.push("replace");
    }
    if info.expire_ns.is_some() {
        names.push("expire");
    }
    if info.evicts {
        names.push("evict");
    }
    let names: Vec<String> = names.into_iter().map(|event| format!("`{}:{event}`", info.name)).collect();
    format!("its events: {}", names.join(", "))
}

impl Spans {
    /// The span of a name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|info| info.name == name)
    }

    /// Whether there is a span of this name.
    pub fn has(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// Whether a stage keeps something of which nothing is known, because it is made from itself.
    pub(super) fn have_unknown(&self) -> bool {
        self.list.iter().flat_map(|info| &info.kept).any(|field| field.ty == Type::Unknown)
    }

    /// What a span's value counts.
    pub(super) fn unit(&self, span: &str, field: &str) -> Unit {
        let Some(info) = self.index(span).map(|index| &self.list[index]) else { return Unit::None };
        match field {
            "elapsed" | "lap" => Unit::Duration,
            _ => info.kept.iter().find(|kept| kept.name == field).map_or(Unit::None, |kept| kept.unit),
        }
    }

    /// What to say of a span's name where a value should be.
    pub(super) fn named_alone(&self, name: &str, span: Span) -> Option<Diagnostic> {
        let info = &self.list[self.index(name)?];
        let message = format!("`{name}` is a span, and has no value of its own");
        let help = format!("take one of its values, such as `{name}.elapsed`, or `inflight({name})`");
        Some(Diagnostic::error(Code(238), span, message).related(info.span, "defined here").help(help))
    }

    /// The spans for lowering.
    pub(super) fn finish(&self, catalogue: &Catalogue) -> Vec<typed::TimeSpan> {
        self.list.iter().map(|info| info.finish(catalogue)).collect()
    }
}

impl SpanInfo {
    /// The tuple that the key is.
    pub(super) fn key_type(&self) -> Type {
        let mut types: Vec<Type> = self.parts.iter().map(|part| part.ty.clone()).collect();
        if self.identified {
            types.push(Type::U64);
        }
        Type::Tuple(types)
    }

    /// The place of a kept field among those that are stored.
    pub(super) fn stored(&self, name: &str) -> Option<usize> {
        self.kept.iter().filter(|field| field.is_stored).position(|field| field.name == name)
    }

    fn finish(&self, catalogue: &Catalogue) -> typed::TimeSpan {
        let word = match self.parts.as_slice() {
            [part] => part.builtin.as_ref().and_then(|word| catalogue.builtin(word)),
            _ => None,
        };
        let is_bounded = self.limit.is_some() || self.expire_ns.is_some() || self.restart == Restart::Nest;
        let is_of_thread = !is_bounded && word.is_some_and(crate::words::Builtin::is_thread_number);
        let stored = self.kept.iter().filter(|field| field.is_stored);
        typed::TimeSpan {
            name: self.name.clone(),
            stages: self.stages.clone(),
            key: known(self.key_type()),
            stored: stored.map(|field| (field.name.clone(), known(field.ty.clone()))).collect(),
            keeps_lap: self.reads_lap && self.stages.len() > 1,
            restart: self.restart,
            expire_ns: self.expire_ns,
            expire_param: self.expire_param,
            limit: self.limit.unwrap_or(DEFAULT_LIMIT),
            evicts: self.evicts,
            is_of_thread,
            span: self.span,
        }
    }
}

/// The type of values of which nothing is known, because all their probes were left out, is a number's.
fn known(ty: Type) -> Type {
    match ty {
        Type::Unknown => Type::I64,
        Type::Tuple(parts) => Type::Tuple(parts.into_iter().map(known).collect()),
        other => other,
    }
}
