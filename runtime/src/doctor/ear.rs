//! A renderer that shows nothing and remembers what it was given.
//!
//! In: results. Out: when the first text came, and how much of what came.
//! Guarantee: nothing is written anywhere.

use std::io;
use std::time::Instant;

use profiler_compiler::value::{Symbols, Value};
use profiler_compiler::words::HelperFailure;

use crate::ledger::Section;
use crate::render::{MapPrint, MapSnapshot, Place, Render, Shown, Trial};
use crate::spans::SpanLedger;

/// So many different errors are kept.
const MOST_ERRORS: usize = 3;

/// What came.
#[derive(Debug, Default)]
pub(super) struct Ear {
    /// When the first text came.
    pub(super) heard: Option<Instant>,
    /// Texts and values that were printed.
    pub(super) prints: u64,
    /// Entries of maps, and rows of views.
    pub(super) entries: u64,
    /// What the script's own errors said, with their lines, and how often; the first few.
    pub(super) errors: Vec<((u32, String), u64)>,
}

impl Render for Ear {
    fn attached(&mut self, _: u32) {}

    fn text(&mut self, _: &'static str, _: &[u8]) {
        self.heard.get_or_insert_with(Instant::now);
        self.prints += 1;
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &Place) {
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

    fn value(&mut self, _: &Value, _: &dyn Symbols) {
        self.prints += 1;
    }

    fn map(&mut self, map: &MapSnapshot<'_>, _: MapPrint, _: &dyn Symbols) {
        self.entries += map.entries.len() as u64;
    }

    fn end_of_run(&mut self) {}

    fn lost(&mut self, _: u64) {}

    fn helper_failed(&mut self, _: &HelperFailure<'_>, _: &Place) {}

    fn trial(&mut self, _: &Trial<'_>) {}

    fn spans(&mut self, _: &[SpanLedger]) {}

    fn view(&mut self, shown: &Shown<'_>, _: &dyn Symbols) {
        self.entries += shown.table.rows.len() as u64;
    }

    fn quality(&mut self, _: &[Section]) {}

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
