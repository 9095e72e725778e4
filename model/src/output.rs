//! What a run reports, and the traits of its destinations: a stream of events, and snapshots.
//!
//! In: calls of a run. Out: nothing here; the crate `profiler-output` has text, tables, JSON and
//! CSV.
//! Guarantee: an output sees values, never maps of the kernel, records or descriptors.
//!
//! # Two traits
//!
//! [`EventSink`] receives what happens, when it happens: printed text and values, notes, failed
//! reads, losses. [`SnapshotSink`] receives state at a moment: maps, views, the accounting of
//! spans, and what is missing from the results. A run needs both, which is an [`Output`]. Most
//! exporters need only one of them: folded stacks, flame graphs, pprof and Prometheus are made from
//! snapshots, logs (OTLP) from events, Parquet from either. They leave the required methods of the
//! other one empty.
//!
//! # The order of calls
//!
//! | when | calls |
//! |---|---|
//! | all probes are attached | [`attached`], once; before it only the events of a `BEGIN` that may exit |
//! | records arrive | events in the order of the records; [`map`] where the script says `print(@x)` |
//! | a period of a view is over | [`view`] for all views with that period |
//! | records were dropped | [`lost`], at most once a second |
//! | the run is over | events of `END`, [`lost`] if there are more, [`stacks`] for each map that has some, [`end_of_run`], [`map`] for each map that no view shows, [`view`] for each view, [`spans`], [`quality`] |
//!
//! [`flush`] follows each group of calls, and is the last call of a run. With `--test` and
//! `--bench`, [`trial`] is called for each test or benchmark instead of everything but events. A
//! command at the prompt may request [`map`] and [`view`] at any time.
//!
//! # Units
//!
//! Numbers are in base units: nanoseconds, bytes, sectors of 512 bytes. [`Header::quantity`] names
//! the unit of a column, [`Value::Distribution`] has its own; other values have none. Addresses and
//! time stamps are values too; [`Symbols`] turns them into names and times of day.
//!
//! # What an exporter keeps
//!
//! Everything is borrowed for the call. An exporter that writes a file at the end (pprof, Parquet)
//! clones the rows that it needs in [`map`] and [`view`]. Names of addresses must be resolved
//! during the call, because their processes may end. A later snapshot of a map or a view replaces
//! an earlier one, unless its window starts later ([`ViewSnapshot::window`]). An exporter of
//! current values (Prometheus) keeps the latest snapshot of each name. [`quality`] belongs in every
//! file: results that may be incomplete must say so. Footers are written by the creator of the
//! output after the run has returned, because only the creator knows that no other run follows.
//!
//! [`attached`]: EventSink::attached
//! [`lost`]: EventSink::lost
//! [`trial`]: EventSink::trial
//! [`map`]: SnapshotSink::map
//! [`view`]: SnapshotSink::view
//! [`stacks`]: SnapshotSink::stacks
//! [`end_of_run`]: SnapshotSink::end_of_run
//! [`spans`]: SnapshotSink::spans
//! [`quality`]: SnapshotSink::quality
//! [`flush`]: Flush::flush

mod quality;
mod spans;
mod table;
mod trial;

use std::io;
use std::time::Duration;

use crate::results::{HelperFailure, Merge};
use crate::source::{Source, Span};
use crate::units::Unit;
use crate::value::{Symbols, Value};

pub use quality::{Field, Section};
pub use spans::SpanLedger;
pub use table::{Cell, Header, Rest, Table};
pub use trial::{Printed, Trial};

/// A map's contents at one moment.
#[derive(Debug, Clone)]
pub struct MapSnapshot {
    /// Name with sigil.
    pub name: String,
    /// Whether it has keys.
    pub keyed: bool,
    /// The aggregation, if it has one.
    pub aggregation: Option<&'static dyn Merge>,
    /// Entries in any order; the key is `None` for a scalar. Empty if nothing was written.
    pub entries: Vec<(Option<Value>, Value)>,
    /// For each entry, the processes whose keys were merged into it because they print alike. An
    /// entry without an element here has a single key.
    pub processes: Vec<Vec<u32>>,
}

/// How a map is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MapPrint {
    /// Print only the last `top` entries of the order; 0 prints all.
    pub top: u64,
    /// Divide values by this; 0 or 1 does not divide.
    pub div: u64,
    /// Show people a picture of the stacks in the keys, with values of this unit.
    pub flame: Option<Unit>,
}

/// The place in a script that a message refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceLocation {
    /// The name of the script, or of the file or module that it uses.
    pub file: String,
    /// The line in that file, from 1.
    pub line: u32,
    /// The first column, from 1.
    pub column: u32,
    /// One past the last column, if that is on the same line.
    pub end_column: Option<u32>,
    /// The text of the line.
    pub text: String,
    /// The calls of macros whose expansion it is in, the innermost first.
    pub expanded_from: Vec<SourceLocation>,
}

impl SourceLocation {
    /// The place of a span.
    pub fn of(source: &Source, span: Span) -> SourceLocation {
        let ((line, column), (end_line, end)) = (source.line_column(span.start), source.line_column(span.end));
        let (file, start) = source.file_at(span.start);
        let of_file = source.text.get(start as usize..).unwrap_or_default();
        let text = of_file.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default().to_owned();
        let end_column = (end_line == line).then_some(end);
        SourceLocation { file: file.to_owned(), line, column, end_column, text, expanded_from: Vec::new() }
    }
}

/// The time that a view covers. Its length is measured on a monotonic clock, so it may differ from
/// the difference of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its start, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Its end, in nanoseconds since 1970.
    pub end_ns: u64,
    pub length: Duration,
}

/// The rows of a view with the time that they cover.
#[derive(Debug)]
pub struct ViewSnapshot<'a> {
    /// The rows.
    pub table: &'a Table,
    /// The index of the view in the script; `usize::MAX` if the script does not contain it.
    pub view: usize,
    /// The time that it covers.
    pub window: Window,
    /// Whether it is shown periodically, and this is not the last time.
    pub is_live: bool,
    /// Whether it is shown periodically.
    pub is_periodic: bool,
    /// Whether it covers only the time after the last full window, so that it does not replace that
    /// window.
    pub is_remainder: bool,
    /// Loss accounting and overhead so far.
    pub quality: &'a [Section],
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since collecting began.
    pub elapsed: Duration,
    /// Events so far; `None` if counting them would add cost.
    pub events: Option<u64>,
    /// Losses so far.
    pub lost: u64,
    /// Memory of profiler and of the maps, in bytes.
    pub memory_bytes: u64,
}

/// A destination that may buffer.
pub trait Flush {
    /// Writes out what is buffered. An error means that results can no longer be written, and ends
    /// the run.
    fn flush(&mut self) -> io::Result<()>;
}

/// Receives what happens during a run, when it happens.
pub trait EventSink: Flush {
    /// All probes are attached.
    fn attached(&mut self, _probes: u32) {}
    /// Text of a kind that JSON names (`printf`, `time`, `join`, `cat`, `syscall`). `join` and
    /// `syscall` are passed without the newline that text output appends.
    fn text(&mut self, kind: &'static str, bytes: &[u8]);
    /// A warning (`warnf`) or an error (`errorf`) of the script, or an error of the runtime at this
    /// place (`error`).
    fn note(&mut self, kind: &'static str, text: &[u8], place: &SourceLocation);
    /// A failed read in a probe.
    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &SourceLocation) {
        self.note("warnf", failure.words.as_bytes(), place);
    }
    /// A value printed by `print(v)`.
    fn value(&mut self, value: &Value, symbols: &dyn Symbols);
    /// Events were lost since the last call.
    fn lost(&mut self, events: u64);
    /// A test or a benchmark is over.
    fn trial(&mut self, _trial: &Trial<'_>, _symbols: &dyn Symbols) {}
    /// The progress of the run. Returns whether to report it again.
    fn progress(&mut self, _progress: &Progress) -> bool {
        false
    }
    /// Whether output goes to a terminal, so that control characters of traced programs must be
    /// escaped. Text passed to [`EventSink::text`] as `printf` is already escaped.
    fn escapes(&self) -> bool {
        false
    }
}

/// Receives the state of a run at a moment: when the script prints it, at the end of each window of
/// a view, and at the end of the run.
pub trait SnapshotSink: Flush {
    /// A map.
    fn map(&mut self, map: &MapSnapshot, print: MapPrint, symbols: &dyn Symbols);
    /// A view with its rows.
    fn view(&mut self, view: &ViewSnapshot<'_>, symbols: &dyn Symbols);
    /// The accounting of each span.
    fn spans(&mut self, spans: &[SpanLedger]);
    /// The quality sections, passed last: losses and overhead.
    fn quality(&mut self, sections: &[Section]);
    /// The run is over and maps are about to be passed.
    fn end_of_run(&mut self) {}
    /// Whether maps without a view should be passed as views too.
    fn wants_tables(&self) -> bool {
        false
    }
    /// Whether maps that have stacks in their keys should be passed to [`SnapshotSink::stacks`].
    fn wants_stacks(&self) -> bool {
        false
    }
    /// A map with stacks in its keys, at the end of the run, whether a view shows it or not.
    fn stacks(&mut self, _map: &MapSnapshot, _symbols: &dyn Symbols) {}
    /// Whether programs rather than people read the output.
    fn is_for_machines(&self) -> bool {
        false
    }
    /// Whether something is drawn that depends on the size of the terminal.
    fn follows_size(&self) -> bool {
        false
    }
    /// The terminal's size has changed.
    fn resized(&mut self, _symbols: &dyn Symbols) {}
}

/// A destination for everything that a run reports.
pub trait Output: EventSink + SnapshotSink {}

impl<T: EventSink + SnapshotSink + ?Sized> Output for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_module_names_the_module() {
        let mut source = Source::new("a.prof", "one\ntwo\n");
        source.append_module("std/b.prof", "three\nfour\n", "std/b");
        let place = |start, end| SourceLocation::of(&source, Span::new(start, end));
        let in_script = place(4, 7);
        assert_eq!((in_script.file.as_str(), in_script.line, in_script.text.as_str()), ("a.prof", 2, "two"));
        let in_module = place(14, 18);
        assert_eq!((in_module.file.as_str(), in_module.line, in_module.text.as_str()), ("std/b.prof", 2, "four"));
        assert_eq!((in_module.column, in_module.end_column), (1, Some(5)));
    }
}
