//! What a word of the language is: the traits of builtins, functions, aggregations and probe kinds,
//! and the catalogue in which the stages look them up.
//!
//! In: the registry of a language (`crate::words` is that of this one). Out: [`Catalogue`].
//! Guarantee: no stage names a particular word.

use std::fmt::Debug;

use crate::ast;
use crate::check;
use crate::ir;
use crate::lower;
use crate::object::{Constant, Pages};
use crate::results::{self, Merge, Perform, Vocabulary, WordName};
use crate::source::Span;
use crate::statistics::Statistic;
use crate::target::Target;
use crate::typed;
use crate::types::Type;
use crate::units::Unit;
use crate::view::Naming;

mod pointers;
mod probe_kind;

pub use pointers::TypedPointers;
pub use probe_kind::{
    Advice, DescribedProbe, Files, InFile, Listing, Names, Nature, ProbeKind, Reads, SelfTest, Trigger,
};

/// Documentation of a word, for `profiler help` and the specification: its page, which begins with
/// the syntax as heading and one sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doc {
    /// Markdown, embedded in the program.
    pub page: &'static str,
}

impl Doc {
    /// Its syntax: `hist(n)`, `pid`.
    pub fn signature(&self) -> &'static str {
        self.page.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    /// What it is, as part of a sentence: "length of a string in bytes".
    pub fn summary(&self) -> String {
        let sentence = self.page.lines().nth(2).unwrap_or_default().trim_end_matches('.');
        let first = sentence.chars().take(1).flat_map(char::to_lowercase);
        first.chain(sentence.chars().skip(1)).collect()
    }

    /// The syntax of an aggregation's assignment: `@x = hist(…)`.
    pub fn usage(&self) -> String {
        let name = self.signature().split('(').next().unwrap_or_default();
        let arguments = if self.signature().ends_with("()") { "" } else { "…" };
        format!("@x = {name}({arguments})")
    }
}

/// A bare name with a value: `pid`, `comm`.
pub trait Builtin: Debug + Sync {
    /// The name.
    fn name(&self) -> &'static str;
    /// Its documentation.
    fn doc(&self) -> Doc;
    /// Unit of its value.
    fn unit(&self) -> Unit {
        Unit::None
    }
    /// If it is a process or thread id: a value that distinguishes this process or thread from a
    /// later one with the same id. `None` if the kernel does not provide one.
    fn identity(&'static self, _cx: &mut check::Body<'_, '_>, _span: Span) -> Option<Identity> {
        None
    }
    /// Whether it is the id of the current process.
    fn is_process_number(&self) -> bool {
        false
    }
    /// Whether it is the id of the current thread.
    fn is_thread_number(&self) -> bool {
        false
    }
    /// Whether its value is constant during one run of a program.
    fn is_constant(&self) -> bool {
        false
    }
    /// The helper that returns the same pointer with a type known to the verifier; it is never
    /// null.
    fn typed_by(&self) -> Option<ir::Helper> {
        None
    }
    /// Whether it is the pointer to the program's context.
    fn is_context(&self) -> bool {
        false
    }
    /// The typed expression for this use; reports errors.
    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr;
    /// The same for `name(arguments)`; `None` if it takes no arguments.
    fn check_with(
        &'static self,
        _cx: &mut check::Body<'_, '_>,
        _args: &[ast::Expr],
        _span: Span,
    ) -> Option<typed::Expr> {
        None
    }
    /// Emits code for its value.
    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, constants: &[Constant]) -> lower::Value;
}

/// Distinguishes a process or thread from a later one with the same id.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its start time.
    pub value: typed::Expr,
    /// Whether it belongs to a thread; it then distinguishes processes as well.
    pub of_thread: bool,
}

/// A function: `printf(…)`, `str(p)`.
pub trait Function: Debug + Sync {
    /// The name.
    fn name(&self) -> &'static str;
    /// Its documentation.
    fn doc(&self) -> Doc;
    /// Whether its event ends the run.
    fn ends_the_run(&self) -> bool {
        false
    }
    /// Whether its name alone is a call, as in bpftrace for macros without parameters.
    fn is_called_by_name(&self) -> bool {
        false
    }
    /// Whether a call has the unit of its first argument.
    fn keeps_unit(&self) -> bool {
        false
    }
    /// The effect of a call on the whole map that is its first constant.
    fn whole_map(&self, _call: &typed::Call) -> Option<WholeMap> {
        None
    }
    /// Whether it needs `--unsafe`.
    fn is_unsafe(&self) -> bool {
        false
    }
    /// Whether a call does nothing but compute its value.
    fn only_reads(&self) -> bool {
        false
    }
    /// The statistic that a call computes from the map that is its first argument.
    fn statistic(&self, _args: &[ast::Expr]) -> Option<Statistic> {
        None
    }
    /// Whether an aggregation map as first argument is read in user space, not by the program.
    fn reads_in_user_space(&self, args: &[ast::Expr]) -> bool {
        self.statistic(args).is_some()
    }
    /// How a view formats a number with this function, without running a program.
    fn naming(&self, _target: &dyn Target) -> Option<Naming> {
        None
    }
    /// The typed expression for this call; reports errors.
    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr;
    /// Emits code for the call and returns its value.
    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> lower::Value;
    /// Emits code for a call whose value is not used.
    fn lower_unused(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) {
        self.lower(cx, call, ty);
    }
    /// Whether, in an iterator that is pinned to a file, it writes to what is read from the file
    /// instead of acting in user space.
    fn writes_to_sequences(&self) -> bool {
        false
    }
    /// Its user-space part, for functions that act there.
    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        None
    }
}

/// Effect of a function on a whole map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WholeMap {
    /// Prints the map.
    Shows,
    /// Removes all entries, or sets all values to zero.
    Empties,
}

/// An aggregation: `count()`, `hist(n)`.
pub trait Aggregation: Merge {
    /// The name.
    fn name(&self) -> &'static str;
    /// Its documentation.
    fn doc(&self) -> Doc;
    /// The constants and typed arguments of this use; reports errors.
    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated>;
    /// Adds one value to the bytes at `slot`.
    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &lower::AggregateSlot, args: &[ir::Operand]);
    /// Bytes per key (and per CPU); a multiple of 8, initially all zero.
    fn size_bytes(&self, params: &[i64]) -> u32;
    /// The page layout, if the value of a key is split into pages; then [`Aggregation::bucket`] is
    /// implemented too.
    fn pages(&self, _params: &[i64]) -> Option<Pages> {
        None
    }
    /// The bucket number of a value, for aggregations that need it before the value's bytes are
    /// located.
    fn bucket(
        &self,
        _cx: &mut lower::Body<'_, '_>,
        _params: &[i64],
        _signed: bool,
        _args: &[ir::Operand],
    ) -> Option<ir::VReg> {
        None
    }
    /// How its value is read inside a program; `None` if it is not a number.
    fn reading(&self) -> Option<Reading> {
        None
    }
    /// The value from its words, combined over all CPUs, for aggregations that have a `reading`.
    fn value(&self, _cx: &mut lower::Body<'_, '_>, _signed: bool, words: &[ir::VReg]) -> ir::Operand {
        words.first().map_or(ir::Operand::Imm(0), |word| (*word).into())
    }
}

/// How the CPUs' copies of an aggregation's words are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Their sum.
    Sum,
    /// Their maximum, as unsigned numbers.
    Largest,
}

/// A checked use of an aggregation.
#[derive(Debug, Clone, Default)]
pub struct Aggregated {
    /// Its constants.
    pub params: Vec<i64>,
    /// Whether the values are signed.
    pub signed: bool,
    /// Arguments evaluated at run time; all integers.
    pub args: Vec<typed::Expr>,
}

/// All words; each list is sorted by name.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue {
    pub builtins: &'static [&'static dyn Builtin],
    pub functions: &'static [&'static dyn Function],
    pub aggregations: &'static [&'static dyn Aggregation],
    pub probes: &'static [&'static dyn ProbeKind],
    /// Builtins without a name that a script can write.
    pub hidden_builtins: &'static [&'static dyn Builtin],
    /// Builtins that depend on the current thread, which not every program has.
    pub of_thread: &'static [&'static str],
    /// Probe kinds of other tracers that are missing here, each with a replacement.
    pub absent_probes: &'static [(&'static str, &'static str)],
    /// The same for functions.
    pub absent_functions: &'static [(&'static str, &'static str)],
}

impl Catalogue {
    /// The builtin with this name; `__builtin_pid`, as bpftrace's own macros write it, is `pid`.
    pub fn builtin(&self, name: &str) -> Option<&'static dyn Builtin> {
        let name = name.strip_prefix("__builtin_").unwrap_or(name);
        self.builtins.iter().find(|word| word.name() == name).copied()
    }

    /// A builtin of a typed program.
    pub fn builtin_of(&self, name: &WordName) -> &'static dyn Builtin {
        let hidden = self.hidden_builtins.iter().copied().find(|word| word.name() == name.as_str());
        hidden.or_else(|| self.builtin(name.as_str())).unwrap_or_else(|| not_in_catalogue(name))
    }

    /// A function of a typed program.
    pub fn function_of(&self, name: &WordName) -> &'static dyn Function {
        self.function(name.as_str()).unwrap_or_else(|| not_in_catalogue(name))
    }

    /// An aggregation of a typed program.
    pub fn aggregation_of(&self, name: &WordName) -> &'static dyn Aggregation {
        self.aggregation(name.as_str()).unwrap_or_else(|| not_in_catalogue(name))
    }

    /// Whether a name depends on the current thread, which not every program has.
    pub fn is_of_thread(&self, name: &str) -> bool {
        self.of_thread.contains(&name.strip_prefix("__builtin_").unwrap_or(name))
    }

    /// The function with this name.
    pub fn function(&self, name: &str) -> Option<&'static dyn Function> {
        self.functions.iter().find(|word| word.name() == name).copied()
    }

    /// The aggregation with this name.
    pub fn aggregation(&self, name: &str) -> Option<&'static dyn Aggregation> {
        self.aggregations.iter().find(|word| word.name() == name).copied()
    }

    /// The probe kind with this name (any case) or alias (exact case).
    pub fn probe(&self, name: &str) -> Option<&'static dyn ProbeKind> {
        let is =
            |word: &&&'static dyn ProbeKind| word.name().eq_ignore_ascii_case(name) || word.aliases().contains(&name);
        self.probes.iter().find(is).copied()
    }
}

/// `check` takes the words of typed programs from the catalogue.
fn not_in_catalogue(name: &WordName) -> ! {
    panic!("bug: a typed program has the word `{name}`, which the catalogue does not have")
}

impl Vocabulary for Catalogue {
    fn aggregation(&self, name: &WordName) -> Option<&'static dyn Merge> {
        let word: &'static dyn Merge = Catalogue::aggregation(self, name.as_str())?;
        Some(word)
    }

    fn function(&self, name: &WordName) -> Option<&'static dyn Perform> {
        match Catalogue::function(self, name.as_str()) {
            Some(word) => word.in_user_space(),
            None => results::internal(name),
        }
    }
}
