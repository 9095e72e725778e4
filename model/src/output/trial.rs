//! Results of a script's own tests and benchmarks.
//!
//! In: what the test printed. Out: plain data.
//! Guarantee: passing [`Printed`] on makes the same calls in the same order.

use std::time::Duration;

use super::{MapPrint, MapSnapshot, Output, SourceLocation};
use crate::results::HelperFailure;
use crate::value::{Symbols, Value};

/// The result of a test or a benchmark.
#[derive(Debug)]
pub enum Trial<'a> {
    /// The latest test.
    Test {
        /// The names of all tests.
        names: &'a [String],
        /// Pass/fail of each finished test; the last entry is being reported.
        passed: &'a [bool],
        duration: Duration,
        /// What it printed, in order.
        printed: &'a [Printed],
    },
    /// A benchmark.
    Benchmark {
        /// The names of all benchmarks.
        names: &'a [String],
        /// The index of this one.
        index: usize,
        /// Average time of one run, in nanoseconds.
        average_ns: u64,
        /// Number of runs measured.
        runs: u64,
    },
}

/// A call of an output, kept for later.
#[derive(Debug, Clone)]
pub enum Printed {
    /// [`EventSink::text`](super::EventSink::text).
    Text { kind: &'static str, bytes: Vec<u8> },
    /// [`EventSink::note`](super::EventSink::note).
    Note { kind: &'static str, text: Vec<u8>, place: SourceLocation },
    /// [`EventSink::helper_failed`](super::EventSink::helper_failed).
    HelperFailed { helper: String, code: i64, words: String, place: SourceLocation },
    /// [`EventSink::value`](super::EventSink::value).
    Value(Value),
    /// [`SnapshotSink::map`](super::SnapshotSink::map).
    Map { map: MapSnapshot, print: MapPrint },
}

impl Printed {
    /// Makes the call.
    pub fn pass_on(&self, output: &mut dyn Output, symbols: &dyn Symbols) {
        match self {
            Printed::Text { kind, bytes } => output.text(kind, bytes),
            Printed::Note { kind, text, place } => output.note(kind, text, place),
            Printed::HelperFailed { helper, code, words, place } => {
                output.helper_failed(&HelperFailure { helper, code: *code, words }, place);
            }
            Printed::Value(value) => output.value(value, symbols),
            Printed::Map { map, print } => output.map(map, *print, symbols),
        }
    }
}
