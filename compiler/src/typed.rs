//! The typed program: every name resolved, every expression typed, wildcards expanded.
//!
//! In: made by `check`. Out: read by `lower` and the printers.
//! Guarantee: lowering a typed program cannot fail, except for limits that only the code generator
//! can check.

mod expr;
mod span;

pub use span::{
    KeyIdentity, Restart, Span as TimeSpan, SpanAction, SpanEviction, SpanIndex, SpanKeep, SpanStep, SpanValues,
};

use crate::ast::{BinaryOp, UnaryOp};
use crate::btf::BtfId;
use crate::object::Pages;
use crate::object::{Attach, Config, Constant};
use crate::params::Param;
use crate::results::WordName;
use crate::source::Span;
use crate::target::ProgramQuestions;
use crate::types::Type;
use crate::units::Unit;
use crate::usdt::Argument;
use crate::view::View;

/// A checked script.
#[derive(Debug, Default)]
pub struct Program {
    /// BPF programs, in script order.
    pub probes: Vec<Probe>,
    /// Maps, sorted by name.
    pub maps: Vec<Map>,
    /// Spans, in script order.
    pub spans: Vec<TimeSpan>,
    /// Names that `probe` may return.
    pub probe_names: Vec<String>,
    /// Settings.
    pub config: Config,
    /// Maximum number of entries of a keyed map.
    pub max_map_keys: u32,
    /// Maximum number of distinct stacks kept.
    pub max_stacks: u32,
    /// Size of the data ring in bytes.
    pub ring_size_bytes: u32,
    /// Whether failed reads and missing keys are reported (`-k`).
    pub reports_failures: bool,
    /// Whether indices out of bounds are reported.
    pub reports_bounds: bool,
    /// Parameters, in script order.
    pub params: Vec<Param>,
    /// Maximum number of bytes of preallocated maps.
    pub max_map_memory_bytes: u64,
    /// How maps are displayed.
    pub views: Vec<View>,
    /// Groups of maps to double-buffer, indexed by [`StmtKind::Turn`]; groups that are emptied come
    /// first.
    pub windows: Vec<Windowed>,
    /// What the target has yet to read of debug information; the program is incomplete without it.
    pub undescribed: Vec<ProgramQuestions>,
}

/// A group of maps whose windows end together.
#[derive(Debug)]
pub struct Windowed {
    pub maps: Vec<MapIndex>,
    /// Whether the contents stay when a window ends: handlers print these maps and never empty
    /// them.
    pub keeps: bool,
}

/// A map.
#[derive(Debug)]
pub struct Map {
    /// Name with sigil.
    pub name: String,
    /// Key type; a tuple for several keys.
    pub key: Option<Type>,
    /// Value type.
    pub value: MapValue,
    /// First use.
    pub span: Span,
    /// The `let` declaration, if the script has one.
    pub declared: Option<Declared>,
    /// Whether it stores one value per thread, freed when the thread exits. The key is then the
    /// current thread.
    pub of_threads: bool,
    /// Unit of its values.
    pub unit: Unit,
    /// The part of the key that the script names `tid`.
    pub thread: Option<usize>,
    /// Units of the fields of its records, for those fields that have one.
    pub field_units: Vec<(String, Unit)>,
}

/// `let @x = kind(entries)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    pub kind: DeclaredKind,
    /// Maximum number of entries.
    pub max_entries: u32,
    /// The declaration.
    pub span: Span,
}

/// A kind of map that can be declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredKind {
    /// Whether each CPU has its own copy of the values.
    pub per_cpu: bool,
    /// Whether a full map evicts the least recently used entry.
    pub evicts: bool,
}

/// The value type of a map.
#[derive(Debug, Clone)]
pub enum MapValue {
    /// A value that is assigned.
    Plain(Type),
    /// An aggregation with its constants.
    Aggregate {
        word: WordName,
        /// Bounds and steps.
        params: Vec<i64>,
        /// Whether the aggregated values are signed.
        signed: bool,
        /// The page layout, if the value of a key is split into pages.
        pages: Option<Pages>,
    },
}

impl MapValue {
    /// The page layout of its value, if the aggregation stores its values in pages.
    pub fn pages(&self) -> Option<Pages> {
        match self {
            MapValue::Aggregate { pages, .. } => *pages,
            MapValue::Plain(_) => None,
        }
    }
}

/// Index of a map in [`Program::maps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapIndex(pub usize);

/// Index of a variable in [`Probe::vars`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarIndex(pub usize);

/// One BPF program: a block of the script for one or more attach points that share code.
#[derive(Debug)]
pub struct Probe {
    /// Attach points, formatted as bpftrace prints them.
    pub names: Vec<String>,
    /// Number of attach points that count for `Attached N probes`.
    pub points: u32,
    /// How to attach.
    pub attach: Attach,
    /// ELF section.
    pub section: String,
    /// The layout of the program's context and what the prologue needs.
    pub context: Context,
    /// Runs only for these processes; empty for all.
    pub only_pids: Vec<u32>,
    /// Runs only if this is true.
    pub predicate: Option<Expr>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// Scratch variables.
    pub vars: Vec<Var>,
    /// The block.
    pub span: Span,
}

/// A scratch variable.
#[derive(Debug, Clone)]
pub struct Var {
    /// Name without sigil.
    pub name: String,
    pub ty: Type,
}

/// The program's context and what its prologue needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The layout of the context.
    pub kind: ContextKind,
    /// System calls that the body handles; `None` if the program is not a dispatcher.
    pub syscalls: Option<SyscallFilter>,
    /// First index into [`Program::probe_names`]. The run-time name is at this index plus the
    /// attach cookie, or plus the position of the system call in the filter.
    pub first_name: u32,
    /// Whether user threads can be preempted while the program runs, so that per-CPU memory can be
    /// re-entered.
    pub preemptible: bool,
    /// Argument layouts of a static probe. The upper half of the attach cookie is the index of the
    /// layout at the site, the lower half the index of the probe name. Empty for other probes.
    pub static_arguments: Vec<Vec<Argument>>,
    /// Context words (by index) that the verifier treats as pointers to kernel structs, with the
    /// type of each struct.
    pub typed_words: Vec<(u32, BtfId)>,
}

/// The system calls that a dispatcher program handles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallFilter {
    /// System-call numbers, in the order of the probe names.
    pub numbers: Vec<u32>,
}

/// The layout of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContextKind {
    /// Nothing to read (`BEGIN`, timers).
    Empty,
    /// An array of `u64` arguments.
    RawTracepoint,
    /// The tracepoint's record.
    Tracepoint,
    /// `struct pt_regs`.
    Registers,
    /// `struct bpf_perf_event_data`: registers, then the sample period.
    PerfEvent,
    /// `struct bpf_iter__NAME`: a pointer to the common iterator metadata, then a pointer to the
    /// object.
    Iterator,
}

/// A statement with its source span.
#[derive(Debug, Clone)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Its source span.
    pub span: Span,
}

/// The statements.
#[derive(Debug, Clone)]
pub enum StmtKind {
    /// Evaluates for effect.
    Expr(Expr),
    /// `$x = value`.
    AssignVar(VarIndex, Expr),
    /// `@x[key] = value`.
    AssignMap(MapIndex, Option<Expr>, Expr),
    /// `@x[key] op= value` on integers: one atomic instruction where BPF has one.
    UpdateMap(MapIndex, Option<Expr>, BinaryOp, Expr),
    /// `@x[key].field = value`: writes only this field of the record.
    AssignField(Field, Expr),
    /// `@x[key].field op= value` on integers: one atomic instruction where BPF has one of the
    /// field's size.
    UpdateField(Field, BinaryOp, Expr),
    /// `@x[key] = count()` and other aggregations.
    Aggregate(MapIndex, Option<Expr>, Vec<Expr>),
    /// A condition.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Statements in their own scope.
    Block(Vec<Stmt>),
    /// Resets a variable to zero: `let $x;` in a loop.
    Clear(VarIndex),
    /// The same statements several times, each copy with its own variables.
    Unroll(Vec<Vec<Stmt>>),
    /// `for $i : a..b`: the bounds are int64.
    ForRange {
        /// `$i`.
        var: VarIndex,
        /// First value.
        start: Expr,
        /// One past the last value.
        end: Expr,
        /// The loop body.
        body: Vec<Stmt>,
    },
    /// `for $kv : @x`.
    ForMap {
        /// `$kv`: a tuple of key and value.
        var: VarIndex,
        /// The map; it has keys.
        map: MapIndex,
        /// The loop body.
        body: Vec<Stmt>,
    },
    /// `for $s : span`: iterates over the open starts.
    ForSpan {
        /// The span; its values must be in a map.
        span: SpanIndex,
        /// The variable that receives the key.
        key: VarIndex,
        /// What the body reads of each start.
        values: SpanValues,
        /// The loop body.
        body: Vec<Stmt>,
    },
    /// Repeats while the condition is true.
    While(Expr, Vec<Stmt>),
    /// Leaves the innermost loop.
    Break,
    /// Continues with the next iteration of the innermost loop.
    Continue,
    /// Records the return value of a test or benchmark.
    Result(Expr),
    /// Returns from the probe, or from the handler of a span event.
    Return,
    /// One stage of a span, with its handlers.
    Span(Box<SpanStep>),
    /// Ends the windows of these groups ([`Program::windows`]): the statements that follow print
    /// and empty their maps as of this point.
    Turn(Vec<usize>),
    /// Ends the snapshot of these groups, whose maps are never emptied: the statements that follow
    /// print their current contents.
    TurnEnd(Vec<usize>),
}

/// An expression with its type and source span.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    pub ty: Type,
    /// Its source span.
    pub span: Span,
}

/// The expressions.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A constant of a scalar type.
    Int(i64),
    /// A string constant. If the type is not a string and the bytes are empty: the all-zero value
    /// of that type.
    Str(Vec<u8>),
    /// A scratch variable.
    Var(VarIndex),
    /// A map's value; zero if the key is missing.
    Map(MapIndex, Option<Box<Expr>>),
    /// A builtin, with the constants that `check` computed for it.
    Builtin(WordName, Vec<Constant>),
    /// A function.
    Call(Call),
    /// `-`, `~` on integers; `!` yields a bool.
    Unary(UnaryOp, Box<Expr>),
    /// Both operands have the same integer type (shifts: that of the left operand), or both are
    /// booleans. For `==` and `!=` both may also be strings, or arrays, tuples or records of one
    /// type.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`; both branches have this expression's type.
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `x++`, `x--`, `++x`, `--x` on a variable.
    StepVar {
        /// Which.
        var: VarIndex,
        /// The value added (for pointers, a multiple of the element size).
        by: i64,
        /// Whether the result is the value after the change.
        prefix: bool,
    },
    /// `@x[k]++` and similar: atomic.
    StepMap {
        /// Which.
        map: MapIndex,
        key: Option<Box<Expr>>,
        /// What is added.
        by: i64,
        /// Whether the result is the value after the change.
        prefix: bool,
    },
    /// `@x[k].field++` and similar: atomic where BPF has an instruction of the field's size.
    StepField {
        /// Which.
        field: Field,
        /// What is added.
        by: i64,
        /// Whether the result is the value after the change.
        prefix: bool,
    },
    /// `exchange(@x[k].field, value)`: writes an 8-byte field, atomically; its old value.
    Exchange(Field, Box<Expr>),
    /// Integer conversion to this expression's type (also for bool and pointers).
    Convert(Box<Expr>),
    /// A field of the tracepoint's record: byte offset in the context, read directly.
    ContextField(u32),
    /// `__data_loc` data after the tracepoint's record: offset of its descriptor.
    ContextData(u32),
    /// The n-th `u64` of a raw tracepoint's context.
    ContextArg(u32),
    /// A register of the traced thread at the probe (offset in `pt_regs`), if the context is
    /// registers.
    Register(u32),
    /// A register of the thread that enters a system call: the first argument in the context points
    /// to its `pt_regs`.
    SyscallRegister(u32),
    /// Memory at a byte offset from the pointer `base`.
    Deref {
        /// The pointer.
        base: Box<Expr>,
        /// Byte offset from the pointer.
        offset_bytes: u32,
        /// A bit-field: (first bit from the least significant, width).
        bits: Option<(u8, u8)>,
    },
    /// A part of an aggregate value in BPF memory (tuple part, element with a constant index).
    Part {
        /// The aggregate.
        base: Box<Expr>,
        /// Byte offset in the aggregate.
        offset_bytes: u32,
    },
    /// An array element in BPF memory with a run-time index; zero if it is out of bounds.
    PartAt {
        /// The array.
        base: Box<Expr>,
        index: Box<Expr>,
        /// Size of an element.
        stride_bytes: u32,
        /// Number of elements.
        len: u32,
    },
    /// An element with a run-time index; `base` is a pointer or an array in foreign memory. Zero if
    /// it is out of bounds.
    Element {
        /// A pointer to the first element.
        base: Box<Expr>,
        index: Box<Expr>,
        /// Size of an element.
        stride_bytes: u32,
        /// Number of elements, if known.
        len: Option<u32>,
    },
    /// The foreign address that an aggregate expression (a struct or array behind a pointer) refers
    /// to.
    AddressOf(Box<Expr>),
    /// A tuple or record: its parts in the order of the type.
    Tuple(Vec<Expr>),
    /// Statements, then a value.
    Block(Vec<Stmt>, Box<Expr>),
    /// The value of a parameter (index into [`Program::params`]): a number or a text.
    Param(usize),
    /// Whether a value equals the parameter's value or one of its values; `any` matches everything.
    Matches(Box<Expr>, usize),
}

/// A field of the record that a map holds.
#[derive(Debug, Clone)]
pub struct Field {
    pub map: MapIndex,
    /// The record's key.
    pub key: Option<Box<Expr>>,
    /// Byte offset of the field in the record.
    pub offset_bytes: u32,
    pub ty: Type,
}

/// A call of a function.
#[derive(Debug, Clone)]
pub struct Call {
    pub word: WordName,
    /// Arguments that are evaluated at run time.
    pub args: Vec<Expr>,
    /// Arguments that are known at compile time.
    pub constants: Vec<Constant>,
}

impl Expr {
    /// Whether this expression or a subexpression satisfies `test`. Returns true if it contains
    /// statements.
    pub fn any(&self, test: &dyn Fn(&ExprKind) -> bool) -> bool {
        let in_key = |key: &Option<Box<Expr>>| key.as_ref().is_some_and(|key| key.any(test));
        test(&self.kind)
            || match &self.kind {
                ExprKind::Map(_, key) | ExprKind::StepMap { key, .. } => in_key(key),
                ExprKind::StepField { field, .. } => in_key(&field.key),
                ExprKind::Exchange(field, value) => in_key(&field.key) || value.any(test),
                ExprKind::Call(call) => call.args.iter().any(|arg| arg.any(test)),
                ExprKind::Unary(_, inner)
                | ExprKind::Matches(inner, _)
                | ExprKind::Convert(inner)
                | ExprKind::AddressOf(inner)
                | ExprKind::Deref { base: inner, .. }
                | ExprKind::Part { base: inner, .. } => inner.any(test),
                ExprKind::Binary(_, a, b)
                | ExprKind::Element { base: a, index: b, .. }
                | ExprKind::PartAt { base: a, index: b, .. } => a.any(test) || b.any(test),
                ExprKind::Ternary(cond, a, b) => cond.any(test) || a.any(test) || b.any(test),
                ExprKind::Tuple(parts) => parts.iter().any(|part| part.any(test)),
                ExprKind::Block(..) => true,
                ExprKind::Int(_)
                | ExprKind::Str(_)
                | ExprKind::Var(_)
                | ExprKind::Builtin(..)
                | ExprKind::Param(_)
                | ExprKind::StepVar { .. }
                | ExprKind::ContextField(_)
                | ExprKind::ContextData(_)
                | ExprKind::ContextArg(_)
                | ExprKind::Register(_)
                | ExprKind::SyscallRegister(_) => false,
            }
    }
}
