//! `span`: the probes of its start, marks and end, and the key that pairs the events.
//!
//! In: made by `parse`. Out: read by `check` and the printers.
//! Guarantee: as written; `check` decides which parts are compatible.

use super::{AttachPoint, Expr, Ident};
use crate::source::Span;

/// `span NAME by (…) { … }`.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanDefinition {
    pub name: Ident,
    /// The key of every stage that has none of its own; may be empty.
    pub key: Vec<KeyPart>,
    /// Its stages, in source order. The same stage may appear several times.
    pub stages: Vec<Stage>,
    /// `restart MODE`, each as written.
    pub restart: Vec<Ident>,
    /// `expire DURATION`, each as written.
    pub expire: Vec<Expr>,
    /// `limit N`, each as written.
    pub limit: Vec<Expr>,
    /// `evict` after a limit.
    pub evict: Option<Span>,
    /// From `span` to the closing brace.
    pub span: Span,
}

/// `name: expr` in a key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyPart {
    /// Its name: the given one, otherwise that of the expression if it is a name or ends in a
    /// field.
    pub name: Option<Ident>,
    /// Its value, evaluated in the context of each stage's probe.
    pub value: Expr,
}

/// `start PROBES /predicate/ by (…) { kept = expr; … }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The kind of stage.
    pub kind: StageKind,
    /// Its probes; at least one.
    pub points: Vec<AttachPoint>,
    /// The condition between slashes.
    pub predicate: Option<Expr>,
    /// Its own key; empty if the span's key applies.
    pub key: Vec<KeyPart>,
    /// The fields that it keeps.
    pub keeps: Vec<Keep>,
    /// All of it.
    pub span: Span,
}

/// What a stage does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageKind {
    /// Begins a span.
    Start,
    /// Reaches the mark with this name.
    Mark(Ident),
    /// Ends a span.
    End,
}

/// `name = expr` in a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Keep {
    /// The name of the field.
    pub name: Ident,
    pub value: Expr,
}

impl StageKind {
    /// The name of the event: `start`, `end` or the name of the mark.
    pub fn event(&self) -> &str {
        match self {
            StageKind::Start => "start",
            StageKind::Mark(name) => &name.text,
            StageKind::End => "end",
        }
    }
}

impl SpanDefinition {
    /// All expressions in its stages and keys.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.key.iter().map(|part| &part.value).chain(self.stages.iter().flat_map(Stage::exprs))
    }

    /// All expressions in its stages and keys, mutably.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let stages = self.stages.iter_mut().flat_map(|stage| {
            let keys = stage.key.iter_mut().map(|part| &mut part.value);
            stage.predicate.iter_mut().chain(keys).chain(stage.keeps.iter_mut().map(|keep| &mut keep.value))
        });
        self.key.iter_mut().map(|part| &mut part.value).chain(stages)
    }
}

impl Stage {
    /// All expressions of this stage.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.key.iter().map(|part| &part.value);
        self.predicate.iter().chain(keys).chain(self.keeps.iter().map(|keep| &keep.value))
    }
}
