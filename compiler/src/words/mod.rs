//! The catalogue of words: builtins, functions, aggregations and probe kinds.
//!
//! In: one file a word, one line a word in the sorted registry of its kind. Out: [`Catalogue`], which the stages consult.
//! Guarantee: the stages name no word. A word holds its signature, documentation, checking, lowering and decoding.

use std::fmt::Debug;

use crate::ast;
use crate::check;
use crate::ir;
use crate::lower;
use crate::object::{Constant, Event, Field};
use crate::source::Span;
use crate::statistics::Statistic;
use crate::target::Target;
use crate::typed;
use crate::types::Type;
use crate::units::Unit;
use crate::value::{Symbols, Value};

mod aggregations;
mod builtins;
pub mod foreign;
mod functions;
mod probes;

/// What `profiler help` and the spec say of a word.
#[derive(Debug, Clone, Copy)]
pub struct Doc {
    /// How it is written: `hist(n)`, `pid`.
    pub signature: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its page of the spec, which begins with the two above.
    pub page: &'static str,
}

impl Doc {
    /// How an aggregation is assigned: `@x = hist(…)`.
    pub fn usage(&self) -> String {
        let name = self.signature.split('(').next().unwrap_or_default();
        let arguments = if self.signature.ends_with("()") { "" } else { "…" };
        format!("@x = {name}({arguments})")
    }
}

/// A bare name with a value: `pid`, `comm`.
pub trait Builtin: Debug + Sync {
    /// The name.
    fn name(&self) -> &'static str;
    /// What it is.
    fn doc(&self) -> Doc;
    /// What it counts.
    fn unit(&self) -> Unit {
        Unit::None
    }
    /// What tells the process or thread that this is the number of from a later one with the same number, as far as the machine
    /// lets programs know.
    fn identity(&'static self, _cx: &mut check::Body<'_, '_>, _span: Span) -> Option<Identity> {
        None
    }
    /// Whether it is the number of the current thread.
    fn is_thread_number(&self) -> bool {
        false
    }
    /// Whether it has one value during one run of a program.
    fn is_constant(&self) -> bool {
        false
    }
    /// Whether it is the number of the current thread.
    fn identifies_thread(&self) -> bool {
        false
    }
    /// The typed expression for this use; reports what is wrong.
    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr;
    /// The same for `name(arguments)`; `None` when it takes none.
    fn check_with(
        &'static self,
        _cx: &mut check::Body<'_, '_>,
        _args: &[ast::Expr],
        _span: Span,
    ) -> Option<typed::Expr> {
        None
    }
    /// Its value.
    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, constants: &[Constant]) -> lower::Value;
}

/// What stays of a process or thread when its number is given to another.
#[derive(Debug, Clone)]
pub struct Identity {
    /// When it started.
    pub value: typed::Expr,
    /// Whether it is a thread's: it tells processes apart as well.
    pub of_thread: bool,
}

/// A function: `printf(…)`, `str(p)`.
pub trait Function: Debug + Sync {
    /// The name.
    fn name(&self) -> &'static str;
    /// What it does.
    fn doc(&self) -> Doc;
    /// Whether its event ends the run.
    fn ends_the_run(&self) -> bool {
        false
    }
    /// Whether it needs `--unsafe`.
    fn is_unsafe(&self) -> bool {
        false
    }
    /// The statistic that a call asks of the map that is its first argument.
    fn statistic(&self, _args: &[ast::Expr]) -> Option<Statistic> {
        None
    }
    /// The typed expression for this call; reports what is wrong.
    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr;
    /// Its value.
    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> lower::Value;
    /// Acts on a record that the function's code sent (functions that act in user space).
    fn perform(&self, _event: &Event, _record: &Record<'_>, _sink: &mut dyn Sink) {}
}

/// An aggregation: `count()`, `hist(n)`.
pub trait Aggregation: Debug + Sync {
    /// The name.
    fn name(&self) -> &'static str;
    /// What it keeps.
    fn doc(&self) -> Doc;
    /// The constants and typed arguments of this use; reports what is wrong.
    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated>;
    /// Adds one value to the bytes at `slot`.
    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &lower::AggregateSlot, args: &[ir::Operand]);
    /// Bytes it keeps a key (and a CPU); a multiple of 8, all zero at first.
    fn size_bytes(&self, params: &[i64]) -> u32;
    /// For those whose value under a key is kept in pages, what these are; then it has a [`Aggregation::bucket`].
    fn pages(&self, _params: &[i64]) -> Option<Pages> {
        None
    }
    /// The number of the bucket that a value falls in, where it is known before the value's bytes are found.
    fn bucket(
        &self,
        _cx: &mut lower::Body<'_, '_>,
        _params: &[i64],
        _signed: bool,
        _args: &[ir::Operand],
    ) -> Option<ir::VReg> {
        None
    }
    /// The result over all CPUs' bytes of a key's pages, each with its number.
    fn merge_pages(&self, _params: &[i64], _signed: bool, _pages: &[(u64, Vec<&[u8]>)]) -> Value {
        Value::Missing
    }
    /// The result over all CPUs' bytes.
    fn merge(&self, params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value;
    /// How its value is read inside a program; `None` when it is no number.
    fn reading(&self) -> Option<Reading> {
        None
    }
    /// The value from its words over all CPUs, for those that can be read.
    fn value(&self, _cx: &mut lower::Body<'_, '_>, _signed: bool, words: &[ir::VReg]) -> ir::Operand {
        words.first().map_or(ir::Operand::Imm(0), |word| (*word).into())
    }
    /// Whether [`Value::statistic`] of its value answers this; histograms answer with bounds.
    fn yields(&self, _statistic: Statistic) -> bool {
        false
    }
    /// The word of JSON's `type` for a map of it: `map`, `hist`, `stats`.
    fn json_type(&self) -> &'static str {
        "map"
    }
    /// The value divided, as `print(@x, top, div)` asks.
    fn divide(&self, value: Value, _by: i64) -> Value {
        value
    }
}

/// Bytes of a page's number in a key. With 8, the kernel's hash of a thread's number would take a round more.
pub const PAGE_NUMBER_BYTES: u32 = 4;

/// How the value under a key is kept when it is large and mostly empty: each page is an entry of the map, whose key is the
/// script's key, padded with zeros to a multiple of 4 bytes, and the page's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    /// A page has `1 << sub_bits` buckets; a bucket's number by that is its page's.
    pub sub_bits: u8,
    /// How many pages a key has at most.
    pub count: u32,
    /// Bytes of one.
    pub size_bytes: u32,
}

/// What the CPUs' copies of an aggregation's words are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Their sums.
    Sum,
    /// The largest, as unsigned numbers.
    Largest,
}

/// A use of an aggregation, checked.
#[derive(Debug, Clone, Default)]
pub struct Aggregated {
    /// Its constants.
    pub params: Vec<i64>,
    /// Whether the values are signed.
    pub signed: bool,
    /// Arguments evaluated at run time; all integers.
    pub args: Vec<typed::Expr>,
}

/// A kind of probe: `tracepoint`, `interval`.
pub trait ProbeKind: Debug + Sync {
    /// The full name.
    fn name(&self) -> &'static str;
    /// Short names.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
    /// What it is.
    fn doc(&self) -> Doc;
    /// The programs that an attach point needs: wildcards expanded, files and events looked up.
    fn expand(&'static self, cx: &mut check::Points<'_, '_>, point: &ast::AttachPoint) -> Vec<check::Seed>;
    /// The modules of the kernel whose types an attach point needs.
    fn kernel_modules(&self, _target: &dyn Target, _point: &ast::AttachPoint) -> Vec<String> {
        Vec::new()
    }
}

/// A record from a ring, decoded on demand.
#[derive(Debug)]
pub struct Record<'a> {
    /// What kind it is.
    pub event: &'a Event,
    /// Its bytes from the 8-byte header on.
    pub bytes: &'a [u8],
    /// The object's probe names and strings and the runtime's stacks.
    pub lookup: &'a dyn crate::decode::Lookup,
}

impl<'a> Record<'a> {
    /// The bytes of a field: for variable ones, the real bytes. Empty when the record is too short.
    pub fn field_bytes(&self, field: &Field) -> &'a [u8] {
        let at = field.offset_bytes as usize;
        if !field.variable {
            return self.bytes.get(at..).unwrap_or_default();
        }
        let word = |at: usize| {
            let bytes = self.bytes.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
        };
        let (Some(start), Some(len)) = (word(at), word(at + 4)) else { return &[] };
        self.bytes.get(start..start + len).unwrap_or_default()
    }

    /// The value of field `index`; missing when there is no such field.
    pub fn value(&self, index: usize) -> Value {
        let Some(field) = self.event.fields.get(index) else { return Value::Missing };
        crate::decode::decode(&field.ty, self.field_bytes(field), self.lookup)
    }
}

/// A helper of the kernel's that failed inside a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelperFailure<'a> {
    /// The helper: `probe_read_user`.
    pub helper: &'a str,
    /// What it returned.
    pub code: i64,
    /// That in words.
    pub words: &'a str,
}

/// What a function's user-space half can do; implemented by the runtime.
pub trait Sink {
    /// Text of a kind that JSON output names (`printf`, `time`, `join`, `cat`, `syscall`).
    fn text(&mut self, kind: &'static str, bytes: &[u8]);
    /// A warning (`warnf`) or an error (`errorf`) of the script at this place.
    fn note(&mut self, kind: &'static str, text: &[u8], span: Span);
    /// A read at this place of the script failed.
    fn helper_failed(&mut self, failure: &HelperFailure<'_>, span: Span) {
        self.note("warnf", failure.words.as_bytes(), span);
    }
    /// A value printed by `print(v)`.
    fn value(&mut self, value: &Value);
    /// A map printed by `print(@x, top, div)`; zero means all and undivided.
    fn print_map(&mut self, map: usize, top: u64, div: u64);
    /// One entry printed by `print(@x[key])`: the key's bytes as in the map.
    fn print_entry(&mut self, map: usize, key: &[u8]);
    /// Removes all entries.
    fn clear_map(&mut self, map: usize);
    /// Sets all values to zero and keeps the keys.
    fn zero_map(&mut self, map: usize);
    /// Ends the run.
    fn exit(&mut self, code: u8);
    /// Prints a file, or an error at this place of the script.
    fn cat(&mut self, path: &str, span: Span);
    /// Runs a command.
    fn system(&mut self, command: &str);
    /// Watches the memory at this address no longer, or warns at this place of the script that nothing does.
    fn unwatch(&mut self, address: u64, span: Span);
    /// Names for addresses.
    fn symbols(&self) -> &dyn Symbols;
    /// Wall-clock nanoseconds since 1970.
    fn now_ns(&self) -> u64;
}

/// All words, each list sorted by name.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue {
    /// Builtins.
    pub builtins: &'static [&'static dyn Builtin],
    /// Functions.
    pub functions: &'static [&'static dyn Function],
    /// Aggregations.
    pub aggregations: &'static [&'static dyn Aggregation],
    /// Probe kinds.
    pub probes: &'static [&'static dyn ProbeKind],
    /// Probe kinds that users of other tracers know and that are missing here, each with what to do instead.
    pub absent_probes: &'static [(&'static str, &'static str)],
    /// The same for functions.
    pub absent_functions: &'static [(&'static str, &'static str)],
}

/// The words of the language.
pub const CATALOGUE: Catalogue = Catalogue {
    builtins: builtins::ALL,
    functions: functions::ALL,
    aggregations: aggregations::ALL,
    probes: probes::ALL,
    absent_probes: probes::ABSENT,
    absent_functions: functions::ABSENT,
};

impl Catalogue {
    /// The builtin of a name; `__builtin_pid`, as bpftrace's own macros say, is `pid`.
    pub fn builtin(&self, name: &str) -> Option<&'static dyn Builtin> {
        let name = name.strip_prefix("__builtin_").unwrap_or(name);
        self.builtins.iter().find(|word| word.name() == name).copied()
    }

    /// Whether a name tells something of the current thread, which not every program has.
    pub fn is_of_thread(&self, name: &str) -> bool {
        builtins::OF_THREAD.contains(&name.strip_prefix("__builtin_").unwrap_or(name))
    }

    /// The function of a name.
    pub fn function(&self, name: &str) -> Option<&'static dyn Function> {
        self.functions.iter().find(|word| word.name() == name).copied()
    }

    /// The aggregation of a name.
    pub fn aggregation(&self, name: &str) -> Option<&'static dyn Aggregation> {
        self.aggregations.iter().find(|word| word.name() == name).copied()
    }

    /// The probe kind of a name (any case) or of a short name (this case).
    pub fn probe(&self, name: &str) -> Option<&'static dyn ProbeKind> {
        let is =
            |word: &&&'static dyn ProbeKind| word.name().eq_ignore_ascii_case(name) || word.aliases().contains(&name);
        self.probes.iter().find(is).copied()
    }
}
