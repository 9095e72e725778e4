//! Stacks of a run as files: folded lines, a flame graph, profiles for other tools.
//!
//! In: snapshots of maps whose keys have stacks. Out: [`Stacks`], from which the files are written.
//! Guarantee: the numbers of a file add up to those of its maps. A stack whose callers are missing
//! begins with a frame that says so.

mod busy;
mod difference;
mod firefox;
mod flame;
mod fold;
mod groups;
mod gzip;
mod icicle;
pub(crate) mod picture;
mod pools;
mod pprof;
mod protobuf;
mod samples;
mod speedscope;
mod states;
mod surroundings;
mod threads;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use profiler_model::output::{
    EventSink, Flush, MapPrint, MapSnapshot, Output, Progress, Section, SnapshotSink, SourceLocation, SpanLedger,
    Trial, ViewSnapshot,
};
use profiler_model::results::HelperFailure;
use profiler_model::units::Unit;
use profiler_model::value::{Symbols, Value};

use samples::Samples;
use states::{Placed, Zone};

pub use difference::{Difference, Unreadable};
pub use icicle::Look;
pub use threads::{OfThread, write_summary};

/// The stacks of a run.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    samples: Samples,
    /// What is missing from them, as printed.
    notes: Vec<String>,
}

/// Facts of a run for the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The title of pictures and profiles.
    pub title: String,
    /// When it started, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    pub length: Duration,
    /// The period of the clock that all samples are from, if they are from one.
    pub period_ns: Option<u64>,
}

/// Stacks as text, with their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folded {
    /// Frames from the outermost one, separated by `;`.
    rows: BTreeMap<String, u64>,
    /// The states of their threads, if they have some.
    states: BTreeMap<String, Placed>,
    /// The frame that is the name of the thread, if there is one and threads of the same name are
    /// not kept apart.
    names: BTreeMap<String, usize>,
    /// The unit of all numbers, if it is the same.
    unit: Unit,
    /// What is missing from them, as printed.
    notes: Vec<String>,
}

/// An output that also keeps the stacks of the run.
pub struct WithStacks<'a> {
    output: Box<dyn Output + 'a>,
    units: BTreeMap<String, Unit>,
    threads: BTreeMap<String, usize>,
    stacks: Stacks,
}

impl<'a> WithStacks<'a> {
    /// Passes everything on to `output`. The values of maps that are not in `units` have no unit.
    pub fn new(output: Box<dyn Output + 'a>, units: BTreeMap<String, Unit>) -> WithStacks<'a> {
        WithStacks { output, units, threads: BTreeMap::new(), stacks: Stacks::default() }
    }

    /// Which part of the key of a map is the id of a thread.
    #[must_use]
    pub fn with_threads(self, threads: BTreeMap<String, usize>) -> WithStacks<'a> {
        WithStacks { threads, ..self }
    }

    /// The stacks of all maps.
    pub fn into_stacks(self) -> Stacks {
        self.stacks
    }
}

impl Stacks {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.samples.rows.is_empty()
    }

    /// The stacks as text. Those of several maps begin with the name of their map.
    pub fn folded(&self) -> Folded {
        Folded { notes: self.notes.clone(), ..fold::fold(&self.samples) }
    }

    /// The stacks of each thread, the largest first, and last those without a thread. They add up
    /// to all stacks.
    pub fn by_thread(&self) -> Vec<OfThread> {
        threads::of(&self.samples, &self.notes)
    }

    /// Writes a profile for `go tool pprof` and its relatives, compressed.
    pub fn write_pprof(&self, recorded: &Recorded, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&pprof::write(&self.samples, &self.notes, recorded))
    }

    /// Writes a file of speedscope, with a profile for each first part of the key.
    pub fn write_speedscope(&self, recorded: &Recorded, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&speedscope::write(&self.samples, recorded))
    }

    /// Writes a file of the Firefox Profiler, with a thread for each first part of the key.
    pub fn write_firefox(&self, recorded: &Recorded, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&firefox::write(&self.samples, recorded))
    }
}

impl Folded {
    /// The stacks of a file that [`Folded::write_lines`] or another tool has written.
    ///
    /// # Errors
    /// The first line that is no stack with a whole number, or that is longer than a mebibyte.
    pub fn read(file: &mut dyn BufRead) -> Result<Folded, Unreadable> {
        difference::read(file)
    }

    /// Whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn total(&self) -> u128 {
        self.rows.values().map(|number| u128::from(*number)).sum()
    }

    /// The total with its unit, and the number of stacks.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    fn total_text(&self) -> String {
        let total = match self.unit {
            // The name of the unit is in the text.
            Unit::Duration => Unit::Duration.text(self.total() as f64),
            _ => self.total().to_string(),
        };
        format!("{total} in {} stacks", self.rows.len())
    }

    /// The frames of a stack, from the outermost one, with the zones that they are in.
    fn frames<'a>(&self, stack: &'a str) -> impl Iterator<Item = (&'a str, Zone)> + use<'a> {
        let placed = self.states.get(stack).copied();
        let zone = move |depth| placed.map_or(Zone::OnCpu, |placed| placed.zone(depth));
        stack.split(';').enumerate().map(move |(depth, frame)| (frame, zone(depth)))
    }

    fn add(&mut self, stack: String, number: u64) {
        let sum = self.rows.entry(stack).or_default();
        *sum = sum.saturating_add(number);
    }

    /// Writes a line for each stack: its frames from the outermost one, separated by `;`, a space,
    /// and its number.
    pub fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        self.rows.iter().try_for_each(|(stack, number)| writeln!(out, "{stack} {number}"))
    }

    /// Writes an icicle graph of text, at most as wide as the terminal, with what is missing below.
    pub fn write_icicle(&self, title: &str, look: Look, out: &mut dyn Write) -> io::Result<()> {
        icicle::write(self, title, look, out)
    }

    /// Writes a flame graph: one SVG file that can be searched and zoomed in a browser and needs no
    /// other file. Below the title it says what is missing from the results.
    pub fn write_flame_graph(&self, title: &str, out: &mut dyn Write) -> io::Result<()> {
        flame::write(self, title, out)
    }
}

impl std::fmt::Debug for WithStacks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithStacks").field("stacks", &self.stacks).finish_non_exhaustive()
    }
}

impl EventSink for WithStacks<'_> {
    fn attached(&mut self, probes: u32) {
        self.output.attached(probes);
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.output.text(kind, bytes);
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &SourceLocation) {
        self.output.note(kind, text, place);
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &SourceLocation) {
        self.output.helper_failed(failure, place);
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        self.output.value(value, symbols);
    }

    fn lost(&mut self, events: u64) {
        self.output.lost(events);
    }

    fn trial(&mut self, trial: &Trial<'_>, symbols: &dyn Symbols) {
        self.output.trial(trial, symbols);
    }

    fn progress(&mut self, progress: &Progress) -> bool {
        self.output.progress(progress)
    }

    fn escapes(&self) -> bool {
        self.output.escapes()
    }
}

impl SnapshotSink for WithStacks<'_> {
    fn map(&mut self, map: &MapSnapshot, print: MapPrint, symbols: &dyn Symbols) {
        self.output.map(map, print, symbols);
    }

    fn view(&mut self, shown: &ViewSnapshot<'_>, symbols: &dyn Symbols) {
        self.output.view(shown, symbols);
    }

    fn spans(&mut self, spans: &[SpanLedger]) {
        self.output.spans(spans);
    }

    fn quality(&mut self, sections: &[Section]) {
        let lines = sections.iter().flat_map(|section| &section.lines);
        // A file is read when the run is over, so it has no advice for it.
        self.stacks.notes = lines.filter(|line| !line.trim_start().starts_with("= help: ")).cloned().collect();
        self.output.quality(sections);
    }

    fn end_of_run(&mut self) {
        self.output.end_of_run();
    }

    fn wants_tables(&self) -> bool {
        self.output.wants_tables()
    }

    fn wants_stacks(&self) -> bool {
        true
    }

    fn stacks(&mut self, map: &MapSnapshot, symbols: &dyn Symbols) {
        let unit = self.units.get(&map.name).copied().unwrap_or_default();
        let thread = self.threads.get(&map.name).copied();
        self.stacks.samples.add(map, unit, thread, symbols);
    }

    fn is_for_machines(&self) -> bool {
        self.output.is_for_machines()
    }

    fn follows_size(&self) -> bool {
        self.output.follows_size()
    }

    fn resized(&mut self, symbols: &dyn Symbols) {
        self.output.resized(symbols);
    }
}

impl Flush for WithStacks<'_> {
    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
#[path = "stacks/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "stacks/icicle_tests.rs"]
mod icicle_tests;

#[cfg(test)]
#[path = "stacks/documents_tests.rs"]
mod documents_tests;
