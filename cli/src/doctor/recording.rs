//! An output that records its calls and prints nothing.
//!
//! In: results. Out: when the first text arrived, and the number of results of each kind.
//! Guarantee: nothing is written anywhere.

use std::io;
use std::time::Instant;

use profiler_compiler::results::HelperFailure;
use profiler_compiler::value::{Symbols, Value};
use profiler_model::output::{
    EventSink, Flush, MapPrint, MapSnapshot, Section, SnapshotSink, SourceLocation, SpanLedger, ViewSnapshot,
};

/// Limit of distinct errors that are kept.
const MOST_ERRORS: usize = 3;

/// The recorded calls.
#[derive(Debug, Default)]
pub(super) struct RecordingRenderer {
    /// When the first text arrived.
    pub(super) heard: Option<Instant>,
    /// Number of printed texts and values.
    pub(super) prints: u64,
    /// Number of map entries and view rows.
    pub(super) entries: u64,
    /// The script's own errors with their lines and counts; only the first few.
    pub(super) errors: Vec<((u32, String), u64)>,
}

impl EventSink for RecordingRenderer {
    fn text(&mut self, _: &'static str, _: &[u8]) {
        self.heard.get_or_insert_with(Instant::now);
        self.prints += 1;
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &SourceLocation) {
        if kind.starts_with("error") {
            let error = (place.line, String::from_utf8_lossy(text).trim_end().to_owned());
            if let Some((_, count)) = self.errors.iter_mut().find(|(known, _)| *known == error) {
                *count += 1;
            } else if self.errors.len() < MOST_ERRORS {
                self.errors.push((error, 1));
            }
        }
        self.prints += 1;
    }

    fn helper_failed(&mut self, _: &HelperFailure<'_>, _: &SourceLocation) {}

    fn value(&mut self, _: &Value, _: &dyn Symbols) {
        self.prints += 1;
    }

    fn lost(&mut self, _: u64) {}
}

impl SnapshotSink for RecordingRenderer {
    fn map(&mut self, map: &MapSnapshot, _: MapPrint, _: &dyn Symbols) {
        self.entries += map.entries.len() as u64;
    }

    fn view(&mut self, shown: &ViewSnapshot<'_>, _: &dyn Symbols) {
        self.entries += shown.table.rows.len() as u64;
    }

    fn spans(&mut self, _: &[SpanLedger]) {}

    fn quality(&mut self, _: &[Section]) {}
}

impl Flush for RecordingRenderer {
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
