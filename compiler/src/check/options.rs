//! The command-line options that affect the check.
//!
//! In: set by the command. Out: read by the stage.
//! Guarantee: plain data.

use std::fmt;
use std::rc::Rc;

/// The command-line options that affect the check.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The processes of `-p`; empty: all processes.
    pub pids: Vec<u32>,
    /// The process of `-c`.
    pub child_pid: Option<u32>,
    /// Who wrote the script.
    pub origin: Origin,
    /// `$1`, `$2`, ….
    pub positional: Vec<String>,
    /// `--name=value` arguments after `--`; a switch has no value.
    pub named: Vec<(String, Option<String>)>,
    /// Whether functions that change the system may be used.
    pub allow_unsafe: bool,
    /// Settings from the environment: names in lower case, without `BPFTRACE_`.
    pub settings: Vec<(String, String)>,
    /// Whether failed reads and missing keys are reported.
    pub report_failures: bool,
    /// Selects probes by name; `begin`, `end` and `self` are always kept.
    pub probe_filter: Option<ProbeFilter>,
    /// How to treat missing kernel functions, and missing functions and static probes of programs,
    /// unless the script says.
    pub missing_in_programs: MissingProbes,
    /// Whose meaning applies where scripts for bpftrace rely on another than ours.
    pub dialect: Dialect,
    /// Whether each block on an event is a separate kernel program, as needed where one program
    /// would be too large for all of them.
    pub separate_programs: bool,
    /// What happens to the maps when the program ends.
    pub succession: Succession,
}

/// Who wrote a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// The user.
    #[default]
    Own,
    /// It comes with the command: its parameters say which processes it is about.
    Recipe,
}

/// Whose meaning applies where scripts for bpftrace rely on another than ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Ours: `retval` of a `uretprobe` has the function's type if that is known, `cpid` needs a
    /// command, an index out of bounds is reported with `-k`.
    #[default]
    Own,
    /// bpftrace's: `retval` is a `uint64` unless a block reads through it; `cpid` without a command
    /// and an index out of bounds yield 0 and a warning when they are evaluated.
    Bpftrace,
}

/// What happens to a program's maps when it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Succession {
    /// The maps are only read.
    #[default]
    None,
    /// A replacement program takes over the contents unchanged, so a map has a single copy unless
    /// it is emptied.
    HandOver,
}

/// The command-line processes that a program must filter for itself because the kernel does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PidFilter {
    /// None: the kernel filters, or the probe belongs to no process.
    #[default]
    Nothing,
    /// Those of `-p`. The command of `-c` gets no special treatment, as in bpftrace.
    Option,
    /// Those of `-p`, or the command of `-c`.
    OptionOrCommand,
}

/// How to treat a probe that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingProbes {
    /// An error: nothing runs.
    #[default]
    Error,
    /// A warning: the rest runs.
    Warn,
    /// Ignored: the rest runs, without a warning.
    Ignore,
    /// Of functions in programs: ignored if the script probes another function of the same file,
    /// as libraries differ, and an error otherwise. Of all else: an error.
    IgnoreBeside,
}

/// A predicate over probe names.
#[derive(Clone)]
pub struct ProbeFilter(pub(super) Rc<dyn Fn(&str) -> bool>);

impl ProbeFilter {
    /// Selects the probes for whose full name, or whose block's own name, `takes` returns true.
    pub fn new(takes: impl Fn(&str) -> bool + 'static) -> ProbeFilter {
        ProbeFilter(Rc::new(takes))
    }
}

impl fmt::Debug for ProbeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeFilter").finish_non_exhaustive()
    }
}
