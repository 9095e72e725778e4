//! What is inferred about the spans of a script.
//!
//! In: definitions; the types of keys and kept fields, as bodies are checked. Out:
//! [`typed::TimeSpan`]s.
//! Guarantee: types only grow.

use crate::catalogue::Catalogue;
use crate::diagnostic::{Code, Diagnostic};
use crate::scope::Scope;
use crate::source::Span;
use crate::typed::{self, KeyIdentity, Restart};
use crate::types::Type;
use crate::units::Unit;

/// All spans of a script.
#[derive(Debug, Default)]
pub struct Spans {
    /// The spans in source order.
    pub list: Vec<InferredSpan>,
}

/// The inferred properties of a span.
#[derive(Debug)]
pub struct InferredSpan {
    pub name: String,
    /// The definition.
    pub span: Span,
    /// `start`, then the names of the marks.
    pub stages: Vec<String>,
    /// What a second start with the same key does.
    pub restart: Restart,
    /// Maximum age in nanoseconds.
    pub expire_ns: Option<u64>,
    /// The parameter that sets the maximum age.
    pub expire_param: Option<usize>,
    /// Capacity in keys, if the script sets it.
    pub limit: Option<u32>,
    /// Whether a start evicts the oldest entry when the map is full.
    pub evicts: bool,
    /// The parts of the key.
    pub parts: Vec<InferredKeyPart>,
    /// The key part that is a pid or tid and comes with a start time, to detect reuse of the
    /// number; set once a stage has found one.
    pub identity: Option<KeyIdentity>,
    /// Fields that stages keep.
    pub kept: Vec<StoredField>,
    /// Whether `lap`, the time since the previous stage, is read.
    pub reads_lap: bool,
    /// Whether a loop iterates over the open starts, which must then be in a map.
    pub is_walked: bool,
    /// The processes in which starts can be, as the last round has found.
    pub starts: Scope,
    /// The same of those starts that this round has checked.
    pub starts_so_far: Option<Scope>,
}

/// A part of a span's key.
#[derive(Debug, Clone)]
pub struct InferredKeyPart {
    pub name: Option<String>,
    /// The type that holds its values in all stages.
    pub ty: Type,
    /// Its first occurrence.
    pub span: Span,
    /// The builtin that it is, if it is the same in all stages.
    pub builtin: Option<String>,
}

/// A field that stages keep.
#[derive(Debug, Clone)]
pub struct StoredField {
    pub name: String,
    /// The type that holds its values.
    pub ty: Type,
    /// The first stage that keeps it.
    pub span: Span,
    /// Whether it is stored, because a later event reads it.
    pub is_stored: bool,
    /// The unit of its values.
    pub unit: Unit,
}

/// Default capacity in keys.
const DEFAULT_LIMIT: u32 = 16_384;

impl Spans {
    /// The index of the span with a name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|info| info.name == name)
    }

    /// Whether there is a span of this name.
    pub fn has(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// Whether a kept field's type is unknown because its value depends on itself.
    pub(in crate::check) fn have_unknown(&self) -> bool {
        self.list.iter().flat_map(|info| &info.kept).any(|field| field.ty == Type::Unknown)
    }

    /// The unit of a span's value.
    pub(in crate::check) fn unit(&self, span: &str, field: &str) -> Unit {
        let Some(info) = self.index(span).map(|index| &self.list[index]) else { return Unit::None };
        match field {
            "elapsed" | "lap" => Unit::Duration,
            _ => info.kept.iter().find(|kept| kept.name == field).map_or(Unit::None, |kept| kept.unit),
        }
    }

    /// The diagnostic for a span's name where a value is needed.
    pub(in crate::check) fn named_alone(&self, name: &str, span: Span) -> Option<Diagnostic> {
        let info = &self.list[self.index(name)?];
        let message = format!("`{name}` is a span, and has no value of its own");
        let help = format!("take one of its values, such as `{name}.elapsed`, or `inflight({name})`");
        Some(Diagnostic::error(Code(238), span, message).related(info.span, "defined here").help(help))
    }

    /// Ends a round. Whether it has found other processes than the round before, so that the later
    /// stages must be checked again.
    pub(in crate::check) fn end_round(&mut self) -> bool {
        let mut has_changed = false;
        for info in &mut self.list {
            let starts = info.starts_so_far.take().unwrap_or_default();
            has_changed |= starts != info.starts;
            info.starts = starts;
        }
        has_changed
    }

    /// The spans for lowering.
    pub(in crate::check) fn finish(&self, catalogue: &Catalogue) -> Vec<typed::TimeSpan> {
        self.list.iter().map(|info| info.finish(catalogue)).collect()
    }
}

impl InferredSpan {
    /// The tuple type of the key, including the start time of its identity.
    pub(in crate::check) fn key_type(&self) -> Type {
        let mut types: Vec<Type> = self.parts.iter().map(|part| part.ty.clone()).collect();
        if self.identity.is_some() {
            types.push(Type::U64);
        }
        Type::Tuple(types)
    }

    /// The index of a kept field among the stored ones.
    pub(in crate::check) fn stored(&self, name: &str) -> Option<usize> {
        self.kept.iter().filter(|field| field.is_stored).position(|field| field.name == name)
    }

    /// Whether open starts can outlive their process or thread: they are of one, and there is no
    /// `expire`, under which each start that does not end has an event.
    pub(in crate::check) fn outlives_tasks(&self, catalogue: &Catalogue) -> bool {
        self.expire_ns.is_none() && self.is_of_tasks(catalogue)
    }

    /// Whether all stages of a key are in one process: a part of it is a pid or tid in all stages.
    fn is_of_tasks(&self, catalogue: &Catalogue) -> bool {
        let mut words = self.parts.iter().filter_map(|part| catalogue.builtin(part.builtin.as_deref()?));
        words.any(|word| word.is_process_number() || word.is_thread_number())
    }

    /// Notes the processes in which a start can be.
    pub(in crate::check) fn has_start(&mut self, scope: Scope) {
        let others = self.starts_so_far.take();
        self.starts_so_far = Some(others.map_or(scope.clone(), |others| others.or(scope)));
    }

    /// The processes in which a start can be that later stages at the same task belong to.
    pub(in crate::check) fn starts_in(&self, catalogue: &Catalogue) -> Scope {
        if self.is_of_tasks(catalogue) { self.starts.clone() } else { Scope::All }
    }

    pub(in crate::check) fn finish(&self, catalogue: &Catalogue) -> typed::TimeSpan {
        let word = match self.parts.as_slice() {
            [part] => part.builtin.as_ref().and_then(|word| catalogue.builtin(word)),
            _ => None,
        };
        let is_bounded = self.limit.is_some() || self.expire_ns.is_some();
        let is_of_thread =
            !is_bounded && !self.is_walked && word.is_some_and(crate::catalogue::Builtin::is_thread_number);
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
            identity: self.identity,
            span: self.span,
        }
    }
}

/// Unknown types become `int64`: all probes that determine them were left out.
fn known(ty: Type) -> Type {
    match ty {
        Type::Unknown => Type::I64,
        Type::Tuple(parts) => Type::Tuple(parts.into_iter().map(known).collect()),
        other => other,
    }
}
