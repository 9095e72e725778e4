//! The spans of a script: names, kept fields, and the programs that they need.
//!
//! In: definitions and the blocks that handle their events. Out: [`Spans`], whose types grow as
//! bodies are checked, and [`Part`]s.
//! Guarantee: a span without an error has a start, a key, and distinct marks.

mod chains;
mod declare;
mod event;
mod inferred;
mod open;
mod stages;
pub(super) mod values;
pub(super) mod walk;

use crate::ast;
use crate::check::spans::event::Event;

pub(super) use declare::collect;
pub use inferred::{InferredSpan, Spans};
pub(super) use open::OpenEvents;
pub(super) use stages::check;

use open::Active;

use crate::ast::AttachPoint;
use crate::ast::ProbeBlock;
use crate::ast::Script;
use crate::ast::StageKind;
use crate::check::unless::same_attachment;
use crate::check::{Env, Points, Seed, UsedNames};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::source::Span;
use crate::typed::ContextKind;
use crate::typed::Restart;

/// Number of sweeps per `expire` period.
const SWEEPS_IN_EXPIRE: u64 = 16;
/// Minimum interval between sweeps.
const SHORTEST_SWEEP_NS: u64 = 10_000_000;
/// Maximum interval between sweeps.
const LONGEST_SWEEP_NS: u64 = 1_000_000_000;

/// What a part runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    /// Stages at an attach point.
    Stages,
    /// The sweep, which closes starts that are too old.
    Sweep,
    /// Closes the keys of threads and processes that have ended.
    Ended,
}

/// One attach point of a span with its stages; or a program that the runtime triggers, without
/// either.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    /// Index of its span.
    pub index: usize,
    /// The definition of its span.
    pub definition: &'a ast::SpanDefinition,
    /// What it runs.
    pub kind: PartKind,
    pub point: Option<&'a AttachPoint>,
    /// The stages at this attach point, ends first, so that a probe that is both end and start
    /// closes the old key and opens the next.
    pub stages: Vec<&'a ast::Stage>,
    /// The whole script, with the handlers and with the spans whose stages are attached to events
    /// of this one.
    pub script: &'a Script,
    /// The source range of the attach point.
    pub span: Span,
}

impl<'a> Part<'a> {
    /// The handlers of an event.
    pub(super) fn handlers(&self, event: &Event) -> impl Iterator<Item = &'a ProbeBlock> {
        let name = &self.definition.name.text;
        let is_of = |point: &AttachPoint| {
            point.kind.text == *name && point.parts.first().is_some_and(|part| Event::named(&part.text) == *event)
        };
        self.script.blocks.iter().filter(move |block| block.points.iter().any(is_of))
    }

    /// Stages of other spans that are attached to an event, each with its part.
    pub(super) fn stages_on(&self, event: &Event) -> Vec<(Part<'a>, &'a ast::Stage)> {
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
                        Part {
                            index,
                            definition,
                            kind: PartKind::Stages,
                            point,
                            stages: vec![stage],
                            script: self.script,
                            span,
                        },
                        stage,
                    ));
                }
            }
        }
        found
    }

    /// Whether an event has handlers or attached stages.
    pub(super) fn has_handlers(&self, event: &Event) -> bool {
        self.handlers(event).next().is_some() || !self.stages_on(event).is_empty()
    }

    /// Adds the facts of the stages and of everything attached to their events.
    fn add_facts(&self, facts: &mut UsedNames) {
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

    /// The seeds of its programs.
    pub(super) fn seeds(&self, env: &mut Env<'_>) -> Vec<Seed> {
        let Some(point) = self.point else { return vec![self.own_seed(env)] };
        let mut facts = UsedNames::default();
        self.add_facts(&mut facts);
        Points::new(env, facts).expand(point)
    }

    fn own_seed(&self, env: &Env<'_>) -> Seed {
        let info = &env.spans.list[self.index];
        let (word, attach) = if self.kind == PartKind::Ended {
            ("ended", Attach::Ended { span: self.index })
        } else {
            let age_ns = info.expire_ns.unwrap_or(0);
            let period_ns = (age_ns / SWEEPS_IN_EXPIRE).clamp(SHORTEST_SWEEP_NS, LONGEST_SWEEP_NS);
            ("expire", Attach::Sweep { span: self.index, period_ns })
        };
        let mut seed = Seed::new(format!("{}:{word}", info.name), "raw_tp".into(), ContextKind::Empty, attach);
        seed.points = 0;
        seed
    }
}

/// The attach points of all spans, once per span, then the programs that the runtime triggers. Also
/// reports handlers of events that do not exist.
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
                    parts[first..].iter_mut().find(|part| part.point.is_some_and(|it| same_attachment(it, point, env)));
                if let Some(part) = same {
                    part.stages.push(stage);
                    continue;
                }
                let (point, span) = (Some(point), point.span);
                let kind = PartKind::Stages;
                parts.push(Part { index, definition, kind, point, stages: vec![stage], script, span });
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
            let (kind, stages) = (PartKind::Sweep, Vec::new());
            parts.push(Part { index, definition, kind, point: None, stages, script, span });
        }
        if env.spans.list.get(index).is_some_and(|info| info.outlives_tasks(env.catalogue))
            && env.target.btf().is_some()
        {
            let (kind, stages, span) = (PartKind::Ended, Vec::new(), definition.span);
            parts.push(Part { index, definition, kind, point: None, stages, script, span });
        }
    }
    parts
}

/// Reports handlers and stages attached to events that a span does not have.
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

fn wrong_event(info: &InferredSpan, point: &AttachPoint) -> Option<Diagnostic> {
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
        // No name parses as this.
        Event::Open => None,
        Event::Replace => {
            let message = format!("a start never replaces another in the span `{name}`");
            let help = "`restart keep` and `restart nest` prevent it; without them, a new start replaces the old one";
            Some(Diagnostic::error(Code(437), event.span, message).help(help))
        }
        Event::Expire => {
            let message = format!("nothing ever expires in the span `{name}`");
            Some(Diagnostic::error(Code(437), event.span, message).help("say after how long: `expire 30s`"))
        }
        Event::Evict => {
            let message = format!("no start ever evicts another in the span `{name}`");
            let help = "add a limit that evicts the oldest: `limit 1000 evict`";
            Some(Diagnostic::error(Code(437), event.span, message).help(help))
        }
    }
}

fn events(info: &InferredSpan) -> String {
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
