//! Stacks of a run as files: folded lines and a flame graph.
//!
//! In: snapshots of maps whose keys have stacks. Out: [`Folded`], from which the files are written.
//! Guarantee: the numbers of a file add up to those of its maps. A stack whose callers are missing
//! begins with a frame that says so.

mod flame;
mod fold;

use std::collections::BTreeMap;
use std::io::{self, Write};

use profiler_model::output::{
    EventSink, Flush, MapPrint, MapSnapshot, Output, Progress, Section, SnapshotSink, SourceLocation, SpanLedger,
    Trial, ViewSnapshot,
};
use profiler_model::results::HelperFailure;
use profiler_model::value::{Symbols, Value};

/// Stacks with their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folded {
    /// Frames from the outermost one, separated by `;`.
    rows: BTreeMap<String, u64>,
    /// What is missing from them, as printed.
    notes: Vec<String>,
}

/// An output that also keeps the stacks of the run.
pub struct WithStacks<'a> {
    output: Box<dyn Output + 'a>,
    maps: Vec<(String, Folded)>,
    notes: Vec<String>,
}

impl<'a> WithStacks<'a> {
    /// Passes everything on to `output`.
    pub fn new(output: Box<dyn Output + 'a>) -> WithStacks<'a> {
        WithStacks { output, maps: Vec::new(), notes: Vec::new() }
    }

    /// The stacks of all maps. Those of several maps begin with the name of their map.
    pub fn into_stacks(self) -> Folded {
        let mut all = Folded { rows: BTreeMap::new(), notes: self.notes };
        let is_one = self.maps.len() == 1;
        for (name, folded) in self.maps {
            for (stack, number) in folded.rows {
                all.add(if is_one { stack } else { format!("{name};{stack}") }, number);
            }
        }
        all
    }
}

impl Folded {
    fn add(&mut self, stack: String, number: u64) {
        let sum = self.rows.entry(stack).or_default();
        *sum = sum.saturating_add(number);
    }

    /// Whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes a line for each stack: its frames from the outermost one, separated by `;`, a space,
    /// and its number.
    pub fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        self.rows.iter().try_for_each(|(stack, number)| writeln!(out, "{stack} {number}"))
    }

    /// Writes a flame graph: one SVG file that can be searched and zoomed in a browser and needs no
    /// other file. Below the title it says what is missing from the results.
    pub fn write_flame_graph(&self, title: &str, out: &mut dyn Write) -> io::Result<()> {
        flame::write(self, title, out)
    }
}

impl std::fmt::Debug for WithStacks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithStacks").field("maps", &self.maps).finish_non_exhaustive()
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
        self.notes = sections.iter().flat_map(|section| &section.lines).map(ToString::to_string).collect();
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
        let folded = fold::fold(map, symbols);
        if !folded.is_empty() {
            self.maps.push((map.name.clone(), folded));
        }
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
