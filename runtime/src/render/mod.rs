//! Results on the screen.
//!
//! In: values. Out: bytes, as text, JSON lines or comma-separated values.
//! Guarantee: a renderer sees values only, never maps, records or file descriptors.

mod buffer;
pub mod csv;
mod entries;
#[cfg(test)]
mod fixtures;
pub mod json;
pub mod progress;
pub mod screen;
pub mod table;
pub mod text;
mod trials;
mod window;

use std::time::Duration;

use profiler_compiler::source::{Source, Span};
use profiler_compiler::value::{Symbols, Value};
use profiler_compiler::words::{Aggregation, HelperFailure};

use crate::ledger::Section;
use crate::spans::SpanLedger;
use crate::view::Table;
pub use progress::Progress;
pub use window::{Moment, Window};

/// A map's contents at one moment.
#[derive(Debug)]
pub struct MapSnapshot<'a> {
    /// Name with sigil.
    pub name: &'a str,
    /// Whether it has keys.
    pub keyed: bool,
    /// The aggregation, when it is one.
    pub aggregation: Option<&'static dyn Aggregation>,
    /// Entries in any order; the key is `None` for a scalar. Empty when nothing was written.
    pub entries: Vec<(Option<Value>, Value)>,
}

/// How a map is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MapPrint {
    /// Only the last so many entries of the order; 0 for all.
    pub top: u64,
    /// Values are divided by this; 0 or 1 for not at all.
    pub div: u64,
}

/// Where in a script a message comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The script's name.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The first column, from 1.
    pub column: u32,
    /// One past the last column, when it is in the same line.
    pub end_column: Option<u32>,
    /// The line itself.
    pub text: String,
}

impl Place {
    /// The place of a span.
    pub fn of(source: &Source, span: Span) -> Place {
        let ((line, column), (end_line, end)) = (source.line_column(span.start), source.line_column(span.end));
        let text = source.text.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default().to_owned();
        Place { file: source.name.clone(), line, column, end_column: (end_line == line).then_some(end), text }
    }
}

/// A view, filled, and what it is about.
#[derive(Debug)]
pub struct Shown<'a> {
    /// The rows.
    pub table: &'a Table,
    /// Which view of the script it is.
    pub view: usize,
    /// The time that it is about.
    pub window: Window,
    /// Whether it is shown again and again, and this is not the last time.
    pub is_live: bool,
    /// Whether it is shown again and again.
    pub is_periodic: bool,
    /// How good the numbers are, as far as is known.
    pub quality: &'a [Section],
}

/// What came of a test or a benchmark.
#[derive(Debug)]
pub enum Trial<'a> {
    /// Of the latest test.
    Test {
        /// All tests.
        names: &'a [String],
        /// Which of those that have run have passed; the last is the one that is told of.
        passed: &'a [bool],
        /// How long it took.
        duration: Duration,
        /// What it printed.
        output: &'a [u8],
    },
    /// Of a benchmark.
    Benchmark {
        /// All benchmarks.
        names: &'a [String],
        /// Which of them.
        index: usize,
        /// Nanoseconds of one run.
        average_ns: u64,
        /// How many runs were measured.
        runs: u64,
    },
}

/// An output format.
pub trait Render {
    /// All probes are attached.
    fn attached(&mut self, probes: u32);
    /// Text of a kind that JSON names (`printf`, `time`, `join`, `cat`, `syscall`). `join` and `syscall` come without the
    /// newline that the text output ends them with.
    fn text(&mut self, kind: &'static str, bytes: &[u8]);
    /// A warning (`warnf`) or an error (`errorf`) of the script, or one that the runtime meets in its place (`error`).
    fn note(&mut self, kind: &'static str, text: &[u8], place: &Place);
    /// A read of a probe that failed.
    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &Place) {
        self.note("warnf", failure.words.as_bytes(), place);
    }
    /// A value printed by `print(v)`.
    fn value(&mut self, value: &Value, symbols: &dyn Symbols);
    /// A map.
    fn map(&mut self, map: &MapSnapshot<'_>, print: MapPrint, symbols: &dyn Symbols);
    /// A view, filled.
    fn view(&mut self, shown: &Shown<'_>, symbols: &dyn Symbols);
    /// Whether something is drawn that depends on the size of the terminal.
    fn follows_size(&self) -> bool {
        false
    }
    /// The terminal has another size.
    fn resized(&mut self, _symbols: &dyn Symbols) {}
    /// Whether programs read it, not people.
    fn is_for_machines(&self) -> bool {
        false
    }
    /// Whether maps without a view are to come as tables too.
    fn wants_tables(&self) -> bool {
        false
    }
    /// The run is over and maps are about to be printed.
    fn end_of_run(&mut self);
    /// A test or a benchmark is over.
    fn trial(&mut self, _trial: &Trial<'_>) {}
    /// Events were lost since the last call.
    fn lost(&mut self, events: u64);
    /// What became of the starts and ends of each span.
    fn spans(&mut self, spans: &[SpanLedger]);
    /// The ledger's closing lines: how good the results are.
    fn quality(&mut self, sections: &[Section]);
    /// How far the run is. Whether that is to be told again.
    fn progress(&mut self, _progress: &Progress) -> bool {
        false
    }
    /// Writes out what is buffered. An error means that nobody reads any more.
    fn flush(&mut self) -> std::io::Result<()>;
}
