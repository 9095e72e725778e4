//! A progress line on the terminal, shown while a run collects and prints nothing.
//!
//! In: progress about once a second; all other calls are passed to the wrapped renderer. Out: one
//! line that is redrawn in place.
//! Guarantee: the line is erased before anything else is written, and when the run ends. Once
//! results were shown on the same terminal, it does not return.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use profiler_model::output::{
    EventSink, Flush, MapPrint, MapSnapshot, Output, Progress, Section, SnapshotSink, SourceLocation, SpanLedger,
    Trial, ViewSnapshot,
};
use profiler_model::results::HelperFailure;
use profiler_model::text::thousands;
use profiler_model::value::{Symbols, Value};

/// A renderer with a progress line.
pub struct ProgressLine<'a> {
    render: Box<dyn Output + 'a>,
    terminal: Box<dyn Write>,
    width: fn() -> Option<usize>,
    /// Whether results go to the same terminal.
    is_shared: bool,
    is_drawn: bool,
    is_over: bool,
}

impl<'a> ProgressLine<'a> {
    /// Draws the line on `terminal` with this width; `is_shared` if results go there as well.
    pub fn new(
        render: Box<dyn Output + 'a>,
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

    /// Writes to the terminal; errors are ignored, because a closed terminal has no reader.
    fn write(&mut self, text: &str) {
        let _ = self.terminal.write_all(text.as_bytes()).and_then(|()| self.terminal.flush());
    }

    /// The wrapped renderer, which is about to write; erases the line.
    fn renderer_below(&mut self) -> &mut (dyn Output + 'a) {
        self.erase();
        self.render.as_mut()
    }

    /// As `renderer_below`, for calls that write results.
    fn results(&mut self) -> &mut (dyn Output + 'a) {
        self.is_over |= self.is_shared;
        self.renderer_below()
    }
}

/// As many parts of the progress as fit.
fn line(progress: &Progress, width: usize) -> String {
    let mut parts = vec![duration(progress.elapsed)];
    let plural = |count: u64, one: &'static str, many: &'static str| if count == 1 { one } else { many };
    parts.extend(progress.events.map(|events| format!("{} {}", thousands(events), plural(events, "event", "events"))));
    parts.push(format!("{} lost", thousands(progress.lost)));
    parts.push(format!("{} MiB", progress.memory_bytes.div_ceil(1 << 20)));
    parts.push("Control-C to stop".into());
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

impl EventSink for ProgressLine<'_> {
    fn attached(&mut self, probes: u32) {
        self.renderer_below().attached(probes);
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.results().text(kind, bytes);
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &SourceLocation) {
        self.renderer_below().note(kind, text, place);
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &SourceLocation) {
        self.renderer_below().helper_failed(failure, place);
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        self.results().value(value, symbols);
    }

    fn lost(&mut self, events: u64) {
        self.renderer_below().lost(events);
    }

    fn trial(&mut self, trial: &Trial<'_>, symbols: &dyn Symbols) {
        self.results().trial(trial, symbols);
    }

    fn progress(&mut self, progress: &Progress) -> bool {
        if !self.is_over {
            let line = line(progress, (self.width)().unwrap_or(80));
            self.write(&format!("\r\x1b[2K{line}"));
            self.is_drawn = true;
        }
        !self.is_over
    }

    fn escapes(&self) -> bool {
        self.render.escapes()
    }
}

impl SnapshotSink for ProgressLine<'_> {
    fn map(&mut self, map: &MapSnapshot, print: MapPrint, symbols: &dyn Symbols) {
        self.results().map(map, print, symbols);
    }

    fn view(&mut self, shown: &ViewSnapshot<'_>, symbols: &dyn Symbols) {
        self.results().view(shown, symbols);
    }

    fn spans(&mut self, spans: &[SpanLedger]) {
        self.renderer_below().spans(spans);
    }

    fn quality(&mut self, sections: &[Section]) {
        self.renderer_below().quality(sections);
    }

    fn end_of_run(&mut self) {
        self.results().end_of_run();
    }

    fn wants_tables(&self) -> bool {
        self.render.wants_tables()
    }

    fn wants_stacks(&self) -> bool {
        self.render.wants_stacks()
    }

    fn stacks(&mut self, map: &MapSnapshot, symbols: &dyn Symbols) {
        self.render.stacks(map, symbols);
    }

    fn is_for_machines(&self) -> bool {
        self.render.is_for_machines()
    }

    fn follows_size(&self) -> bool {
        self.render.follows_size()
    }

    fn resized(&mut self, symbols: &dyn Symbols) {
        self.results().resized(symbols);
    }
}

impl Flush for ProgressLine<'_> {
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
        assert_eq!(line(&progress, 80), "1:15 min, 12,345 events, 0 lost, 4 MiB, Control-C to stop");
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
