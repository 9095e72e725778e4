//! The typed program: every name resolved, every expression typed, wildcards expanded.
//!
//! In: made by `check`. Out: read by `lower` and the printers.
//! Guarantee: nothing in here can fail to lower, but for limits that only the code generator can see.

mod span;

pub use span::{Restart, Span as TimeSpan, SpanAction, SpanEviction, SpanIndex, SpanKeep, SpanStep, SpanValues};

use crate::ast::{BinaryOp, UnaryOp};
use crate::object::{Attach, Config, Constant};
use crate::params::Param;
use crate::source::Span;
use crate::types::Type;
use crate::units::Unit;
use crate::usdt::Argument;
use crate::view::View;
use crate::words::{Aggregation, Builtin, Function, Pages};

/// A checked script.
#[derive(Debug, Default)]
pub struct Program {
    /// BPF programs, in the order of the script.
    pub probes: Vec<Probe>,
    /// Maps, sorted by name.
    pub maps: Vec<Map>,
    /// Spans, in the order of the script.
    pub spans: Vec<TimeSpan>,
    /// Names that `probe` may yield.
    pub probe_names: Vec<String>,
    /// Settings.
    pub config: Config,
    /// Most entries of a keyed map.
    pub max_map_keys: u32,
    /// Size of the data ring in bytes.
    pub ring_size_bytes: u32,
    /// Whether reads that fail and keys that are missing are reported (`-k`).
    pub reports_failures: bool,
    /// Parameters, in the order of the script.
    pub params: Vec<Param>,
    /// Most bytes of maps that are allocated beforehand.
    pub max_map_memory_bytes: u64,
    /// How maps are shown.
    pub views: Vec<View>,
}

/// A map.
#[derive(Debug)]
pub struct Map {
    /// Name with sigil.
    pub name: String,
    /// Key; a tuple type for several keys.
    pub key: Option<Type>,
    /// What it holds.
    pub value: MapValue,
    /// First use.
    pub span: Span,
    /// Its storage, when the script declares it.
    pub declared: Option<Declared>,
    /// Whether it has a value for each thread, which goes with it. The key is then the current thread.
    pub of_threads: bool,
    /// What its values count.
    pub unit: Unit,
    /// What the fields of its records count, as far as they count something.
    pub field_units: Vec<(String, Unit)>,
}

/// `let @x = kind(entries)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The kind.
    pub kind: DeclaredKind,
    /// Most entries.
    pub max_entries: u32,
    /// The declaration.
    pub span: Span,
}

/// A kind of map that can be declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredKind {
    /// Each CPU has its own values.
    pub per_cpu: bool,
    /// The entry that was not used for longest makes room for a new one.
    pub evicts: bool,
}

/// What a map holds.
#[derive(Debug, Clone)]
pub enum MapValue {
    /// A value that is assigned.
    Plain(Type),
    /// An aggregation with its constants.
    Aggregate {
        /// Which.
        word: &'static dyn Aggregation,
        /// Bounds and steps.
        params: Vec<i64>,
        /// Whether the values are signed.
        signed: bool,
    },
}

impl MapValue {
    /// How its value under a key is kept, when that is in pages.
    pub fn pages(&self) -> Option<Pages> {
        match self {
            MapValue::Aggregate { word, params, .. } => word.pages(params),
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
    /// Attach points as bpftrace would print them.
    pub names: Vec<String>,
    /// Attach points of this program that the user asked for (`Attached N probes`).
    pub points: u32,
    /// How to attach.
    pub attach: Attach,
    /// ELF section.
    pub section: String,
    /// What the program sees.
    pub context: Context,
    /// Runs only for this process.
    pub only_pid: Option<u32>,
    /// Runs only when this holds.
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
    /// Its type.
    pub ty: Type,
}

/// What a program's context is and which code must come before the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The layout of the context.
    pub kind: ContextKind,
    /// System-call numbers that the body is for; `None` when the program is not a dispatcher.
    pub syscalls: Option<SyscallFilter>,
    /// First index into [`Program::probe_names`]; the name at run time is this plus the attach cookie or the position of the
    /// system call in the filter.
    pub first_name: u32,
    /// Whether user threads may be preempted while the program runs, so that per-CPU memory can be entered twice.
    pub preemptible: bool,
    /// The arguments that a static probe can have. The attach cookie's upper half is the number of those at the site, its
    /// lower half that of the probe's name. Empty for other probes.
    pub static_arguments: Vec<Vec<Argument>>,
}

/// Which system calls a dispatching program serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallFilter {
    /// Numbers, in the order of the probe names.
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
    /// `struct bpf_iter__NAME`: a pointer to what all iterators have, then one to the object.
    Iterator,
}

/// A statement with its place.
#[derive(Debug, Clone)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Its place.
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
    /// `@x[key] op= value` on integers: one atomic operation where the machine has one.
    UpdateMap(MapIndex, Option<Expr>, BinaryOp, Expr),
    /// `@x[key].field = value`: nothing else of the record is touched.
    AssignField(Field, Expr),
    /// `@x[key].field op= value` on integers: one atomic operation where the machine has one of the field's size.
    UpdateField(Field, BinaryOp, Expr),
    /// `@x[key] = count()` and its kin.
    Aggregate(MapIndex, Option<Expr>, Vec<Expr>),
    /// A condition.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Statements in their own scope.
    Block(Vec<Stmt>),
    /// Zero again: `let $x;` in a loop.
    Clear(VarIndex),
    /// The same statements several times, each with variables of its own.
    Unroll(Vec<Vec<Stmt>>),
    /// `for $i : a..b`: the bounds are int64.
    ForRange {
        /// `$i`.
        var: VarIndex,
        /// First value.
        start: Expr,
        /// One past the last value.
        end: Expr,
        /// What is repeated.
        body: Vec<Stmt>,
    },
    /// `for $kv : @x`.
    ForMap {
        /// `$kv`: a tuple of key and value.
        var: VarIndex,
        /// The map; it has keys.
        map: MapIndex,
        /// What is repeated.
        body: Vec<Stmt>,
    },
    /// Repeats while the condition holds.
    While(Expr, Vec<Stmt>),
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the innermost loop's next round.
    Continue,
    /// Keeps what a test or a benchmark returns.
    Result(Expr),
    /// Leaves the probe, or the handler of a span's event.
    Return,
    /// What a stage of a span does, with its handlers.
    Span(Box<SpanStep>),
}

/// An expression with type and place.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Type,
    /// Its place.
    pub span: Span,
}

/// The expressions.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A constant of a scalar type.
    Int(i64),
    /// A string constant; empty and of another type, the value of that type whose bytes are all zero.
    Str(Vec<u8>),
    /// A scratch variable.
    Var(VarIndex),
    /// A map's value; zero when missing.
    Map(MapIndex, Option<Box<Expr>>),
    /// A builtin, with what `check` found out about it.
    Builtin(&'static dyn Builtin, Vec<Constant>),
    /// A function.
    Call(Call),
    /// `-`, `~` on integers; `!` yields a bool.
    Unary(UnaryOp, Box<Expr>),
    /// Both sides have the same integer type (shifts: the left one's), or are booleans, or for `==`/`!=` strings, or arrays,
    /// tuples or records of one type.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`; both sides have this expression's type.
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `x++` and kin on a variable.
    StepVar {
        /// Which.
        var: VarIndex,
        /// What is added (pointers: the element's size).
        by: i64,
        /// The value after the change, or before.
        prefix: bool,
    },
    /// `@x[k]++` and kin: atomic.
    StepMap {
        /// Which.
        map: MapIndex,
        /// Its key.
        key: Option<Box<Expr>>,
        /// What is added.
        by: i64,
        /// The value after the change, or before.
        prefix: bool,
    },
    /// `@x[k].field++` and kin: atomic where the machine can.
    StepField {
        /// Which.
        field: Field,
        /// What is added.
        by: i64,
        /// The value after the change, or before.
        prefix: bool,
    },
    /// Integer conversion to this expression's type (also bool and pointers).
    Convert(Box<Expr>),
    /// A field of the tracepoint's record: byte offset in the context, read directly.
    ContextField(u32),
    /// `__data_loc` data behind the tracepoint's record: offset of the descriptor.
    ContextData(u32),
    /// The n-th `u64` of a raw tracepoint's context.
    ContextArg(u32),
    /// A register of the traced thread at the probe (offset in `pt_regs`), when the context is registers.
    Register(u32),
    /// A register of the thread that enters a system call: the context's first argument points at its `pt_regs`.
    SyscallRegister(u32),
    /// Memory that a pointer refers to, at a byte offset: `base` is a pointer.
    Deref {
        /// The pointer.
        base: Box<Expr>,
        /// Bytes added.
        offset_bytes: u32,
        /// Bits of a bit-field: (first bit from the least significant, width).
        bits: Option<(u8, u8)>,
    },
    /// A part of an aggregate value in our own memory (tuple part, element with a constant index).
    Part {
        /// The aggregate.
        base: Box<Expr>,
        /// Byte offset in it.
        offset_bytes: u32,
    },
    /// An element of an array in our own memory with an index known at run time; zero when it is out of bounds.
    PartAt {
        /// The array.
        base: Box<Expr>,
        /// The index.
        index: Box<Expr>,
        /// Size of an element.
        stride_bytes: u32,
        /// How many there are.
        len: u32,
    },
    /// An element with an index known at run time; `base` is a pointer or an array in foreign memory. Zero when it is out
    /// of bounds.
    Element {
        /// A pointer to the first element.
        base: Box<Expr>,
        /// The index.
        index: Box<Expr>,
        /// Size of an element.
        stride_bytes: u32,
        /// How many there are, when that is known.
        len: Option<u32>,
    },
    /// The address of foreign memory that an aggregate expression denotes (a struct or array behind a pointer).
    AddressOf(Box<Expr>),
    /// A tuple or record: its parts in the order of the type.
    Tuple(Vec<Expr>),
    /// Statements, then a value.
    Block(Vec<Stmt>, Box<Expr>),
    /// The value of a parameter (its place in [`Program::params`]): a number or a text.
    Param(usize),
    /// Whether a value is the one, or one of those, that a parameter gives; `any` is every value.
    Matches(Box<Expr>, usize),
}

/// A field of the record that a map holds.
#[derive(Debug, Clone)]
pub struct Field {
    /// The map.
    pub map: MapIndex,
    /// The record's key.
    pub key: Option<Box<Expr>>,
    /// Where the field lies in the record.
    pub offset_bytes: u32,
    /// Its type.
    pub ty: Type,
}

/// A call of a function.
#[derive(Debug, Clone)]
pub struct Call {
    /// The function.
    pub word: &'static dyn Function,
    /// Arguments evaluated at run time.
    pub args: Vec<Expr>,
    /// Arguments known now.
    pub constants: Vec<Constant>,
}

impl Expr {
    /// Whether this or a part of it satisfies `test`; statements inside it count as if they did.
    pub fn any(&self, test: &dyn Fn(&ExprKind) -> bool) -> bool {
        let in_key = |key: &Option<Box<Expr>>| key.as_ref().is_some_and(|key| key.any(test));
        test(&self.kind)
            || match &self.kind {
                ExprKind::Map(_, key) | ExprKind::StepMap { key, .. } => in_key(key),
                ExprKind::StepField { field, .. } => in_key(&field.key),
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
