//! The outcome of a run, or why it failed.
//!
//! In: the results of a session's stages. Out: counts for the caller, or an error message for the
//! user.
//! Guarantee: losses are in the outcome whether or not they were printed.

use std::fmt;
use std::io;

use profiler_model::object::Loss;
use profiler_model::output::SpanLedger;
use profiler_model::results::WordName;

use super::Mode;
use crate::attach::AttachError;
use crate::child::ChildError;
use crate::load::LoadError;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit status of the process.
    pub exit_code: u8,
    /// Whether the script ended the run with `exit`.
    pub has_exited: bool,
    /// Records received, by program.
    pub received: Vec<u64>,
    /// What was lost.
    pub losses: Vec<(Loss, u64)>,
    /// Number of printed strings that exceeded their capacity.
    pub cut_strings: u64,
    /// The accounting of spans.
    pub spans: Vec<SpanLedger>,
}

/// Why a run failed.
#[derive(Debug)]
pub enum RunError {
    /// The object names a word that the vocabulary does not have.
    UnknownWord(WordName),
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
    /// The kernel would end this process for lack of memory.
    Memory {
        /// What the control groups of this process leave.
        available_bytes: u64,
        needed_bytes: u64,
    },
    /// A map could not be read or changed.
    Map {
        name: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// A file of packets could not be written.
    Packets {
        path: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// An iterator could not be pinned to a file.
    Pin {
        path: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// Results could not be written.
    Output(io::Error),
    /// A call that should never fail.
    System {
        /// The operation.
        what: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::UnknownWord(word) => {
                write!(f, "this program does not know the word `{word}`, which the object was compiled with")
            }
            RunError::Load(error) => error.fmt(f),
            RunError::Attach(error) => error.fmt(f),
            RunError::Child(error) => error.fmt(f),
            RunError::NoTrials(Mode::Trace) => f.write_str(
                "no probes attached: this script has only tests and benchmarks, which run with --test and --bench",
            ),
            RunError::NoTrials(Mode::Test) => f.write_str("this script has no `test:NAME` probes"),
            RunError::NoTrials(Mode::Bench) => f.write_str("this script has no `bench:NAME` probes"),
            RunError::NoProcess(pid) => write!(f, "there is no process {pid}"),
            RunError::Memory { available_bytes, needed_bytes } => write!(
                f,
                "too little memory: the control group of this process leaves {} MiB, and this script needs {} MiB",
                available_bytes >> 20,
                needed_bytes >> 20
            ),
            RunError::Map { name, error } => write!(f, "cannot access map {name}: {error}"),
            RunError::Packets { path, error } => write!(f, "cannot write packets to `{path}`: {error}"),
            RunError::Pin { path, error } => {
                write!(f, "cannot pin the iterator to `{path}`: {error}")?;
                match error.raw_os_error() {
                    Some(libc::EEXIST) => write!(f, "; `rm {path}` ends the one that is pinned there"),
                    Some(libc::EPERM) => f.write_str(
                        "; the file must be in a BPF file system (`mount -t bpf none DIRECTORY`), and its name without a dot",
                    ),
                    _ => Ok(()),
                }
            }
            RunError::Output(error) => write!(f, "cannot write results: {error}"),
            RunError::System { what, error } => write!(f, "{what} failed: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

/// Wraps the error of a call that should never fail.
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::System { what, error }
}
