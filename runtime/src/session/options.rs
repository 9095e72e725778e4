//! How to run.
//!
//! In: nothing. Out: the choices of whoever starts a run, for all stages of a session.
//! Guarantee: the default is a run that traces, says what it attached, and ends by a signal only.

use std::io;
use std::time::Duration;

use crate::actions::Locate;
use crate::attach::Refused;
use crate::child::Child;
use crate::load::Loaded;
use crate::orders::Orders;
use crate::params::Values;

/// Which probes of a script run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Those that trace: all but tests and benchmarks.
    #[default]
    Trace,
    /// Its tests.
    Test,
    /// Its benchmarks.
    Bench,
}

/// Prepares what is loaded for its run.
pub type Prepare<'a> = &'a dyn Fn(&Loaded) -> io::Result<()>;

/// How to run.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct RunOptions<'a> {
    /// End when this process ends.
    pub pid: Option<u32>,
    /// A command to resume once everything is attached, and to end with.
    pub child: Option<Child>,
    /// Say nothing of attached probes.
    pub quiet: bool,
    /// Attach, and end at once.
    pub dry_run: bool,
    /// End after this long.
    pub duration: Option<Duration>,
    /// Any loss makes the exit status 4.
    pub strict: bool,
    /// Measure what the probes cost, and say it.
    pub stats: bool,
    /// `system` may run commands.
    pub allow_unsafe: bool,
    /// Which probes run.
    pub mode: Mode,
    /// Called once everything is loaded and before anything is attached; an error ends the run.
    pub when_loaded: Option<Prepare<'a>>,
    /// Called once all probes are attached, before the command of `-c` runs.
    pub when_attached: Option<&'a dyn Fn()>,
    /// Called with each program that cannot be attached, by its number; the others run then. Without it the first one ends the run.
    pub when_refused: Option<Refused<'a>>,
    /// Called once `END` has run and all records are read, before results are printed.
    pub when_collected: Option<&'a dyn Fn(&Loaded)>,
    /// The renderer is told about once a second how far the run is.
    pub progress: bool,
    /// The script's warnings are dropped.
    pub no_warnings: bool,
    /// Where in the script a span is.
    pub locate: Option<Locate<'a>>,
    /// Who tells it what to do while it runs. Signals are then for the one who does.
    pub orders: Option<Orders>,
    /// Other values for the object's parameters than it was made with.
    pub values: Option<Values>,
}
