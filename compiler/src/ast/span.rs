//! `span`: what starts, is marked and ends, and by which key its events belong together.
//!
//! In: made by `parse`. Out: read by `check` and the printers.
//! Guarantee: as written; which parts fit together is for `check` to say.

use super::{AttachPoint, Expr, Ident};
use crate::source::Span;

/// `span NAME by (…) { … }`.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanDefinition {
    /// Its name.
    pub name: Ident,
    /// The key that holds for every stage without one of its own; empty when there is none.
    pub key: Vec<KeyPart>,
    /// Its stages, in source order. A stage may stand here several times.
    pub stages: Vec<Stage>,
    /// `restart WORD`, each as written.
    pub restart: Vec<Ident>,
    /// `expire DURATION`, each as written.
    pub expire: Vec<Expr>,
    /// `limit N`, each as written.
    pub limit: Vec<Expr>,
    /// `evict` behind a limit.
    pub evict: Option<Span>,
    /// From `span` to the closing brace.
    pub span: Span,
}

/// `name: expr` in a key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyPart {
    /// Its name: the one given, else that of a name or of the last field that the expression is.
    pub name: Option<Ident>,
    /// Its value, in the context of each stage's probe.
    pub value: Expr,
}

/// `start PROBES /predicate/ by (…) { kept = expr; … }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Which.
    pub kind: StageKind,
    /// Its probes; at least one.
    pub points: Vec<AttachPoint>,
    /// The condition between slashes.
    pub predicate: Option<Expr>,
    /// A key of its own.
    pub key: Vec<KeyPart>,
    /// What it keeps.
    pub keeps: Vec<Keep>,
    /// All of it.
    pub span: Span,
}

/// What a stage does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageKind {
    /// Begins a span.
    Start,
    /// Passes the mark of this name.
    Mark(Ident),
    /// Ends a span.
    End,
}

/// `name = expr` in a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Keep {
    /// What it is called.
    pub name: Ident,
    /// Its value.
    pub value: Expr,
}

impl StageKind {
    /// The event's name: `start`, the mark's, `end`.
    pub fn event(&self) -> &str {
        match self {
            StageKind::Start => "start",
            StageKind::Mark(name) => &name.text,
            StageKind::End => "end",
        }
    }
}

impl SpanDefinition {
    /// All expressions of its stages and keys.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.key.iter().map(|part| &part.value).chain(self.stages.iter().flat_map(Stage::exprs))
    }

    /// The same, to be changed.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let stages = self.stages.iter_mut().flat_map(|stage| {
            let keys = stage.key.iter_mut().map(|part| &mut part.value);
            stage.predicate.iter_mut().chain(keys).chain(stage.keeps.iter_mut().map(|keep| &mut keep.value))
        });
        self.key.iter_mut().map(|part| &mut part.value).chain(stages)
    }
}

impl Stage {
    /// All expressions of the stage itself.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.key.iter().map(|part| &part.value);
        self.predicate.iter().chain(keys).chain(self.keeps.iter().map(|keep| &keep.value))
    }
}
