//! The options of a run.
//!
//! In: nothing. Out: the choices of the caller, for all stages of a session.
//! Guarantee: the default is a run that traces, prints what it attached, and ends only by a signal.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use profiler_model::object::Object;
use profiler_model::text::controls::Escapes;

use crate::actions::Locate;
use crate::attach::Refused;
use crate::child::Child;
use crate::control::Requests;
use crate::load::Loaded;
use crate::params::Values;
use crate::reader::Reader;

/// Which probes of a script to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// All except tests and benchmarks.
    #[default]
    Trace,
    /// Tests only.
    Test,
    /// Benchmarks only.
    Bench,
}

/// Prepares a loaded object for its run.
pub type Prepare<'a> = &'a dyn Fn(&Loaded) -> io::Result<()>;

/// The options of a run.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct RunOptions<'a> {
    /// End when all of these processes have ended; empty to wait for none.
    pub pids: Vec<u32>,
    /// A command to resume once everything is attached; the run ends when it ends.
    pub child: Option<Child>,
    /// Do not print the number of attached probes.
    pub quiet: bool,
    /// Attach everything, then end.
    pub dry_run: bool,
    /// End after this long.
    pub duration: Option<Duration>,
    /// Any loss makes the exit status 4.
    pub strict: bool,
    /// Measure the cost of the probes and print it.
    pub stats: bool,
    /// `system` may run commands.
    pub allow_unsafe: bool,
    /// Which probes run.
    pub mode: Mode,
    /// Rebuilds the object with a kernel program of its own for each block. Called if the kernel
    /// rejects a program shared by blocks as too large or too complex; the run ends if this is
    /// `None` or returns `None`.
    pub separately: Option<&'a dyn Fn() -> Option<Object>>,
    /// Called once everything is loaded and before anything is attached; an error ends the run.
    pub when_loaded: Option<Prepare<'a>>,
    /// Called once all probes are attached, before the command of `-c` runs; also if `BEGIN` has
    /// ended the run before.
    pub when_attached: Option<&'a dyn Fn()>,
    /// Called with the index of each program that cannot be attached; the others run. Without it,
    /// the first failure ends the run.
    pub when_refused: Option<Refused<'a>>,
    /// Called after `END` has run and all records are read, before results are printed.
    pub when_collected: Option<&'a dyn Fn(&Loaded)>,
    /// Report progress to the output about once a second.
    pub progress: bool,
    /// Keep separate rows for keys of several processes that print alike, as bpftrace does.
    pub rows_apart: bool,
    /// Drop the script's warnings.
    pub no_warnings: bool,
    /// What is at least escaped in the text of traced programs that `printf` prints, wherever it
    /// goes. A recipe's line is a record, which no traced program can forge.
    pub escapes: Escapes,
    /// Finds the place of a span in the script.
    pub locate: Option<Locate<'a>>,
    /// Control commands for the running session. The caller then handles signals.
    pub requests: Option<Requests>,
    /// A directory, only for this user, in which unwind tables of large programs are kept between
    /// runs. It is made when a script first needs such tables. Without it, each run reads the
    /// programs.
    pub unwind_cache: Option<PathBuf>,
    /// What reads the files of processes for unwind tables. It should be the one that reads their
    /// names, which then knows files that no path leads to any more.
    pub reader: Reader,
    /// Parameter values that replace those the object was built with.
    pub values: Option<Values>,
}
