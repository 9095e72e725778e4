//! How a run ended, or why there was none.
//!
//! In: what the stages of a session came to. Out: counts for whoever started the run, or an error in a user's words.
//! Guarantee: what is lost is in the outcome whether or not it was printed.

use std::fmt;
use std::io;

use profiler_compiler::object::Loss;

use super::Mode;
use crate::attach::AttachError;
use crate::child::ChildError;
use crate::load::LoadError;
use crate::spans::SpanLedger;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit status of the process.
    pub exit_code: u8,
    /// Whether the script ended it (`exit`).
    pub has_exited: bool,
    /// Records received, by program.
    pub received: Vec<u64>,
    /// What was lost.
    pub losses: Vec<(Loss, u64)>,
    /// Strings that were shown and did not fit their room.
    pub cut_strings: u64,
    /// What became of the starts and ends of spans.
    pub spans: Vec<SpanLedger>,
}

/// Why a run failed.
#[derive(Debug)]
pub enum RunError {
    /// The kernel refused the object.
    Load(LoadError),
    /// A probe could not be attached.
    Attach(AttachError),
    /// The command of `-c` did not start.
    Child(ChildError),
    /// There is nothing to run in this mode.
    NoTrials(Mode),
    /// There is no process with the id of `-p`.
    NoProcess(u32),
    /// A map could not be read or changed.
    Map {
        /// Its name.
        name: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// Results could not be written.
    Output(io::Error),
    /// A call that nothing should make fail.
    System {
        /// What was done.
        what: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Load(error) => error.fmt(f),
            RunError::Attach(error) => error.fmt(f),
            RunError::Child(error) => error.fmt(f),
            RunError::NoTrials(Mode::Trace) => f.write_str(
                "no probes attached: this script has only tests and benchmarks, which run with --test and --bench",
            ),
            RunError::NoTrials(Mode::Test) => f.write_str("this script has no `test:NAME` probes"),
            RunError::NoTrials(Mode::Bench) => f.write_str("this script has no `bench:NAME` probes"),
            RunError::NoProcess(pid) => write!(f, "there is no process {pid}"),
            RunError::Map { name, error } => write!(f, "cannot access map {name}: {error}"),
            RunError::Output(error) => write!(f, "cannot write results: {error}"),
            RunError::System { what, error } => write!(f, "{what} failed: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

/// An error of a call that nothing should make fail.
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::System { what, error }
}
