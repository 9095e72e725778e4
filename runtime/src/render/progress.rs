//! A line on a terminal while a run collects and shows nothing.
//!
//! In: how far the run is, about once a second; everything else for the renderer behind it. Out: one line that is drawn over itself.
//! Guarantee: the line is gone before anything else is written, and when the run ends; once results were shown on the same terminal, it
//! does not come back.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use profiler_compiler::value::{Symbols, Value};
use profiler_compiler::words::HelperFailure;

use super::{MapPrint, MapSnapshot, Place, Render, Shown, Trial};
use crate::ledger::Section;
use crate::spans::{SpanLedger, thousands};

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Since when it collects.
    pub elapsed: Duration,
    /// Events so far; `None` when counting them would cost something.
    pub events: Option<u64>,
    /// What was lost so far.
    pub lost: u64,
    /// Memory of profiler and of the maps.
    pub memory_bytes: u64,
}

/// A renderer with the line in front of it.
pub struct ProgressLine<'a> {
    render: Box<dyn Render + 'a>,
    terminal: Box<dyn Write>,
    width: fn() -> Option<usize>,
    /// Whether results go to the same terminal.
    is_shared: bool,
    is_drawn: bool,
    is_over: bool,
}

impl<'a> ProgressLine<'a> {
    /// The line goes to `terminal`, which is so wide; `is_shared` when results go there as well.
    pub fn new(
        render: Box<dyn Render + 'a>,
        terminal: Box<dyn Write>,
        width: fn() -> Option<usize>,
        is_shared: bool,
    ) -> ProgressLine<'a> {
        ProgressLine { render, terminal, width, is_shared, is_drawn: false, is_over: false }
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            self.write("\r\x1b[2K");
        }
    }

    /// A terminal that is gone has no reader.
    fn write(&mut self, text: &str) {
        let _ = self.terminal.write_all(text.as_bytes()).and_then(|()| self.terminal.flush());
    }

    /// What is behind the line, which is about to write.
    fn behind(&mut self) -> &mut (dyn Render + 'a) {
        self.erase();
        self.render.as_mut()
    }

    /// The same for what writes results.
    fn results(&mut self) -> &mut (dyn Render + 'a) {
        self.is_over |= self.is_shared;
        self.behind()
    }
}

/// As much of it as fits.
fn line(progress: &Progress, width: usize) -> String {
    let mut parts = vec![duration(progress.elapsed)];
    let plural = |count: u64, one: &'static str, many: &'static str| if count == 1 { one } else { many };
    parts.extend(progress.events.map(|events| format!("{} {}", thousands(events), plural(events, "event", "events"))));
    parts.push(format!("{} lost", thousands(progress.lost)));
    parts.push(format!("{} MiB", progress.memory_bytes.div_ceil(1 << 20)));
    parts.push("Control-C ends it".into());
    let mut text = String::new();
    for part in parts {
        let gap = if text.is_empty() { "" } else { ", " };
        if text.chars().count() + gap.len() + part.chars().count() >= width {
            break;
        }
        text.push_str(gap);
        text.push_str(&part);
    }
    text
}

fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

impl Drop for ProgressLine<'_> {
    fn drop(&mut self) {
        self.erase();
    }
}

impl fmt::Debug for ProgressLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressLine").field("is_drawn", &self.is_drawn).finish_non_exhaustive()
    }
}

impl Render for ProgressLine<'_> {
    fn progress(&mut self, progress: &Progress) -> bool {
        if !self.is_over {
            let line = line(progress, (self.width)().unwrap_or(80));
            self.write(&format!("\r\x1b[2K{line}"));
            self.is_drawn = true;
        }
        !self.is_over
    }

    fn attached(&mut self, probes: u32) {
        self.behind().attached(probes);
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.results().text(kind, bytes);
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &Place) {
        self.behind().note(kind, text, place);
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &Place) {
        self.behind().helper_failed(failure, place);
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        self.results().value(value, symbols);
    }

    fn map(&mut self, map: &MapSnapshot<'_>, print: MapPrint, symbols: &dyn Symbols) {
        self.results().map(map, print, symbols);
    }

    fn view(&mut self, shown: &Shown<'_>, symbols: &dyn Symbols) {
        self.results().view(shown, symbols);
    }

    fn is_for_machines(&self) -> bool {
        self.render.is_for_machines()
    }

    fn wants_tables(&self) -> bool {
        self.render.wants_tables()
    }

    fn end_of_run(&mut self) {
        self.results().end_of_run();
    }

    fn trial(&mut self, trial: &Trial<'_>) {
        self.results().trial(trial);
    }

    fn lost(&mut self, events: u64) {
        self.behind().lost(events);
    }

    fn spans(&mut self, spans: &[SpanLedger]) {
        self.behind().spans(spans);
    }

    fn quality(&mut self, sections: &[Section]) {
        self.behind().quality(sections);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.render.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_fits_is_said() {
        let progress =
            Progress { elapsed: Duration::from_secs(75), events: Some(12345), lost: 0, memory_bytes: 3_300_000 };
        assert_eq!(line(&progress, 80), "1:15 min, 12,345 events, 0 lost, 4 MiB, Control-C ends it");
        assert_eq!(line(&progress, 40), "1:15 min, 12,345 events, 0 lost, 4 MiB");
        assert_eq!(line(&progress, 20), "1:15 min");
        assert_eq!(line(&Progress { events: None, ..progress }, 20), "1:15 min, 0 lost");
        for width in 1..80 {
            assert!(line(&progress, width).chars().count() < width, "the last column makes terminals go on");
        }
        let elapsed = [59, 3599, 3600, 90_000].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(elapsed, ["59 s", "59:59 min", "1:00 h", "25:00 h"]);
    }
}
