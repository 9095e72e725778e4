//! Spans: what they store and what their stages do.
//!
//! In: made by `check`. Out: read by `lower` and the printers.
//! Guarantee: the values that handlers read are variables of the program that runs them, so loops
//! and conditions in handlers need no special treatment.

use super::{ContextKind, Expr, Probe, Program, Stmt, StmtKind, VarIndex};
use crate::object::Attach;
use crate::source;
use crate::types::Type;

/// Index of a span in [`Program::spans`](super::Program::spans).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanIndex(pub usize);

/// A span.
#[derive(Debug, Clone)]
pub struct Span {
    pub name: String,
    /// `start`, then the marks. A stage's number is its 1-based position in this list.
    pub stages: Vec<String>,
    /// The key tuple that pairs the events. If a part is a process or thread id, its start time
    /// follows the parts that the script wrote.
    pub key: Type,
    /// Fields that are kept from one stage to a later one: name and type.
    pub stored: Vec<(String, Type)>,
    /// Whether the time of the last stage is kept.
    pub keeps_lap: bool,
    /// What a second start with an open key does.
    pub restart: Restart,
    /// Time after which a start without an end is dropped and reported.
    pub expire_ns: Option<u64>,
    /// The parameter that sets this time, if any; programs read its value.
    pub expire_param: Option<usize>,
    /// Maximum number of open keys.
    pub limit: u32,
    /// Whether a start evicts the oldest entry when the map is full.
    pub evicts: bool,
    /// Whether the key is exactly the current thread and each thread can have one entry.
    pub is_of_thread: bool,
    /// The key part whose start time is appended to the key.
    pub identity: Option<KeyIdentity>,
    /// Its definition.
    pub span: source::Span,
}

/// A thread or process id in a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyIdentity {
    /// The index of the id among the parts of the key.
    pub part: usize,
    /// Whether it is a thread id.
    pub of_thread: bool,
}

/// What a second start with an open key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The new start replaces the old one.
    Replace,
    /// The old start stays; the new one is refused.
    Keep,
    /// Both stay open; an end closes the latest start.
    Nest,
}

/// What a stage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanAction {
    /// Opens an entry.
    Start,
    /// Reaches the mark whose stage has this number.
    Mark(u8),
    /// Closes an entry.
    End,
    /// Iterates over all keys and closes the entries that have expired.
    Sweep,
    /// Closes the entry of a key whose thread or process has ended.
    Ended,
}

/// A stage of a span, as executed by a program.
#[derive(Debug, Clone)]
pub struct SpanStep {
    pub span: SpanIndex,
    pub action: SpanAction,
    /// The variable that contains the key; set by the step itself for a sweep and for keys of ended
    /// threads.
    pub key: VarIndex,
    /// The fields that this stage keeps.
    pub keeps: Vec<SpanKeep>,
    /// What the handlers read of the span.
    pub values: SpanValues,
    /// The handlers of the stage's event, in execution order.
    pub handlers: Vec<Vec<Stmt>>,
    /// For a start: what the handlers of `replace` read of the replaced start, and these handlers.
    pub replaced: Option<(SpanValues, Vec<Vec<Stmt>>)>,
    /// For a start of a span that evicts: the eviction.
    pub evicted: Option<SpanEviction>,
}

/// The eviction of the oldest entry of a span by a start.
#[derive(Debug, Clone)]
pub struct SpanEviction {
    /// The variable that contains the evicted key.
    pub key: VarIndex,
    /// What the handlers of `evict` read of the evicted entry.
    pub values: SpanValues,
    /// The handlers of `evict`.
    pub handlers: Vec<Vec<Stmt>>,
}

/// A field that a stage keeps.
#[derive(Debug, Clone)]
pub struct SpanKeep {
    /// The variable that holds it in this program.
    pub var: VarIndex,
    /// Its index in [`Span::stored`], if a later stage needs it.
    pub stored: Option<usize>,
    pub value: Expr,
    /// Whether the value depends on what the span stores.
    pub reads_span: bool,
}

/// Variables that hold what a span's handlers read.
#[derive(Debug, Clone, Default)]
pub struct SpanValues {
    /// Nanoseconds since the start.
    pub elapsed: Option<VarIndex>,
    /// Nanoseconds since the previous stage.
    pub lap: Option<VarIndex>,
    /// Kept fields: the index in [`Span::stored`]; `None` if no stage can have kept the field,
    /// which then reads as zero.
    pub kept: Vec<(Option<usize>, VarIndex)>,
}

impl Stmt {
    /// The span steps in this statement, including those in handlers of other spans' events.
    pub fn span_steps(&self) -> Vec<&SpanStep> {
        match &self.kind {
            StmtKind::If(_, then, _) => then.iter().flat_map(Stmt::span_steps).collect(),
            StmtKind::Span(step) => {
                let handlers = step.handlers.iter().chain(step.replaced.iter().flat_map(|(_, handlers)| handlers));
                std::iter::once(&**step).chain(handlers.flatten().flat_map(Stmt::span_steps)).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Program {
    /// Whether task storage can be used: no stage is in a perf-event program. Those can interrupt
    /// the kernel at any instruction, where it cannot allocate storage.
    pub fn may_use_storage(&self, span: usize) -> bool {
        let has_step =
            |probe: &&Probe| probe.body.iter().any(|stmt| stmt.span_steps().iter().any(|step| step.span.0 == span));
        let mut probes = self.probes.iter().filter(has_step);
        probes.all(|probe| probe.context.kind != ContextKind::PerfEvent)
    }

    /// Removes the programs that close keys of ended threads, for spans whose values are in task
    /// storage.
    pub(crate) fn leave_out_keys_of_threads(&mut self) {
        let goes = |index: usize| self.spans[index].is_of_thread && self.may_use_storage(index);
        let gone: Vec<bool> = (0..self.spans.len()).map(goes).collect();
        self.probes.retain(|probe| !matches!(probe.attach, Attach::Ended { span } if gone[span]));
    }
}
