//! Spans: what they store and what their stages do.
//!
//! In: made by `check`. Out: read by `lower` and the printers.
//! Guarantee: the values that handlers read are variables of the program that runs them, so that loops and conditions in
//! handlers need nothing of their own.

use super::{Expr, Stmt, VarIndex};
use crate::source;
use crate::types::Type;

/// Index of a span in [`Program::spans`](super::Program::spans).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanIndex(pub usize);

/// A span.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// `start`, then its marks. A stage's number is its place in here, from 1.
    pub stages: Vec<String>,
    /// The tuple that its events belong together by; behind the parts of the script, the start time of the process or thread
    /// where a part is one.
    pub key: Type,
    /// What is kept from one stage to a later one, by name.
    pub stored: Vec<(String, Type)>,
    /// Whether the time of the last stage is kept.
    pub keeps_lap: bool,
    /// What a second start under a live key does.
    pub restart: Restart,
    /// After so long, a start that did not end is dropped and reported.
    pub expire_ns: Option<u64>,
    /// The parameter that says so, whose value programs read.
    pub expire_param: Option<usize>,
    /// Most keys at a time.
    pub limit: u32,
    /// Whether a start that finds no room takes that of the oldest.
    pub evicts: bool,
    /// Whether the key is the current thread and nothing else, and each thread may have one.
    pub is_of_thread: bool,
    /// Its definition.
    pub span: source::Span,
}

/// What a second start under a live key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The new one takes the old one's place.
    Replace,
    /// The old one stays.
    Keep,
    /// Both live; an end belongs to the latest start.
    Nest,
}

/// What a stage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanAction {
    /// Opens.
    Start,
    /// Passes the mark whose stage has this number.
    Mark(u8),
    /// Closes.
    End,
    /// Walks over all keys and closes those that are too old.
    Sweep,
}

/// One stage at work in a program.
#[derive(Debug, Clone)]
pub struct SpanStep {
    /// The span.
    pub span: SpanIndex,
    /// What is done.
    pub action: SpanAction,
    /// The variable that has the key; a sweep puts it there.
    pub key: VarIndex,
    /// What this stage keeps.
    pub keeps: Vec<SpanKeep>,
    /// What the handlers read of the span.
    pub values: SpanValues,
    /// The handlers of the stage's event, one after another.
    pub handlers: Vec<Vec<Stmt>>,
    /// For a start: what the handlers of `replace` read of the old one, and they.
    pub replaced: Option<(SpanValues, Vec<Vec<Stmt>>)>,
    /// For a start of a span that evicts: what makes room.
    pub evicted: Option<SpanEviction>,
}

/// The oldest of a span at the moment in which a start takes its room.
#[derive(Debug, Clone)]
pub struct SpanEviction {
    /// The variable that has its key.
    pub key: VarIndex,
    /// What the handlers of `evict` read of it.
    pub values: SpanValues,
    /// They.
    pub handlers: Vec<Vec<Stmt>>,
}

/// A field that a stage keeps.
#[derive(Debug, Clone)]
pub struct SpanKeep {
    /// The variable that has it in this program.
    pub var: VarIndex,
    /// Its place in [`Span::stored`], when a later stage needs it.
    pub stored: Option<usize>,
    /// Its value.
    pub value: Expr,
    /// Whether the value is made from what the span holds.
    pub reads_span: bool,
}

/// Variables that hold what a span's handlers read.
#[derive(Debug, Clone, Default)]
pub struct SpanValues {
    /// Nanoseconds since the start.
    pub elapsed: Option<VarIndex>,
    /// Nanoseconds since the stage before.
    pub lap: Option<VarIndex>,
    /// Kept fields: the place in [`Span::stored`]; `None` where nothing can have kept it, which is zero.
    pub kept: Vec<(Option<usize>, VarIndex)>,
}
