//! Results as text, as bpftrace 0.26 prints them.
//!
//! In: values. Out: results to one writer; what accompanies them (attached probes, losses) to another.
//! Guarantee: the bytes of results depend on the values alone; losses never mix with them.

use std::io::{self, Write};

use profiler_compiler::text::write_value;
use profiler_compiler::value::{Symbols, Value};
use profiler_compiler::words::HelperFailure;

use super::buffer::Buffer;
use super::entries::{arranged, write_key};
use super::screen::{Screen, Terminal};
use super::table::{self, Layout, Line};
use super::{MapPrint, MapSnapshot, Place, Render, Shown, Trial, trials};
use crate::ledger::Section;
use crate::spans::SpanLedger;
use crate::view::Table;

/// Text for people.
pub struct Text {
    out: Buffer,
    notes: Box<dyn Write>,
    quiet: bool,
    /// Whether the last that was printed is a map in bpftrace's form.
    is_below_maps: bool,
    /// The terminal that results go to, if they do.
    screen: Option<Screen>,
    /// The latest of each view that is live, with the line above it.
    live: Vec<(usize, Table, String)>,
    coloured: bool,
}

impl Text {
    /// Results go to `out`, notes to `notes` (standard error). `quiet` drops the line about attached probes.
    pub fn new(out: Box<dyn Write>, notes: Box<dyn Write>, quiet: bool) -> Text {
        Text {
            out: Buffer::new(out),
            notes,
            quiet,
            coloured: false,
            is_below_maps: false,
            screen: None,
            live: Vec::new(),
        }
    }

    /// Results go to this terminal.
    #[must_use]
    pub fn on_terminal(self, terminal: Option<Terminal>) -> Text {
        Text { screen: terminal.map(Screen::new), ..self }
    }

    /// Where results are appended, below everything that stays on the screen.
    fn results(&mut self) -> &mut Vec<u8> {
        let out = self.out.bytes();
        if let Some(screen) = &mut self.screen {
            screen.erase(out);
        }
        out
    }

    /// The same with or without colours in the results of tests.
    #[must_use]
    pub fn coloured(self, coloured: bool) -> Text {
        Text { coloured, ..self }
    }

    /// Writes to where notes go. There is nowhere to report that this failed.
    fn note(&mut self, text: std::fmt::Arguments<'_>) {
        if self.screen.is_some() {
            // Notes mostly go to the same terminal.
            self.results();
            let _ = self.out.flush();
        }
        let _ = self.notes.write_fmt(text).and_then(|()| self.notes.flush());
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Text").field("out", &self.out).field("quiet", &self.quiet).finish_non_exhaustive()
    }
}

impl Render for Text {
    fn attached(&mut self, probes: u32) {
        if !self.quiet {
            let plural = if probes == 1 { "" } else { "s" };
            self.note(format_args!("Attached {probes} probe{plural}\n"));
        }
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        let out = self.results();
        out.extend_from_slice(bytes);
        if matches!(kind, "join" | "syscall") {
            out.push(b'\n');
        }
        self.out.settle();
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &Place) {
        let severity = if kind.starts_with("error") { "ERROR" } else { "WARNING" };
        let end = place.end_column.map_or_else(String::new, |end| format!("-{end}"));
        let text = String::from_utf8_lossy(text);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        // What was printed before stands before it, where both go to one terminal.
        let _ = self.out.flush();
        self.note(format_args!("{}:{}:{}{end}: {severity}: {text}\n", place.file, place.line, place.column));
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &Place) {
        let HelperFailure { helper, code, words } = failure;
        Render::note(
            self,
            "warnf",
            format!("{words}\nAdditional Info - helper: {helper}, retcode: {code}").as_bytes(),
            place,
        );
        let width = place.end_column.map_or(1, |end| end.saturating_sub(place.column).max(1)) as usize;
        let before = place.column.saturating_sub(1) as usize;
        Text::note(self, format_args!("{}\n{:before$}{}\n", place.text, "", "~".repeat(width)));
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        let out = self.results();
        write_value(value, symbols, out);
        out.push(b'\n');
        self.out.settle();
    }

    fn map(&mut self, map: &MapSnapshot<'_>, print: MapPrint, symbols: &dyn Symbols) {
        self.is_below_maps = true;
        for (key, value) in arranged(map, print) {
            let out = self.results();
            out.extend_from_slice(map.name.as_bytes());
            if let Some(key) = key {
                out.push(b'[');
                write_key(key, symbols, out);
                out.push(b']');
            }
            // A histogram starts on the next line and ends with an empty one.
            let is_block = matches!(*value, Value::Histogram(_) | Value::Series(_) | Value::Distribution(_));
            out.extend_from_slice(if is_block { b":\n" } else { b": " });
            write_value(&value, symbols, out);
            out.push(b'\n');
            self.out.settle();
        }
    }

    fn end_of_run(&mut self) {
        self.results().extend_from_slice(b"\n\n");
    }

    fn trial(&mut self, trial: &Trial<'_>) {
        self.out.bytes().extend(trials::lines(trial, self.coloured));
        self.out.settle();
    }

    fn lost(&mut self, events: u64) {
        self.note(format_args!("Lost {events} events\n"));
    }

    fn spans(&mut self, spans: &[SpanLedger]) {
        // What was printed before stands before it, where both go to one terminal.
        let _ = self.out.flush();
        for span in spans {
            self.note(format_args!("span {}: {}\n", span.name, span.summary()));
        }
    }

    fn view(&mut self, shown: &Shown<'_>, symbols: &dyn Symbols) {
        let mut title = shown.table.title.clone();
        if shown.is_periodic {
            title = format!("{title}, {}", shown.window.text(symbols));
        }
        if let Some(screen) = self.screen.as_mut().filter(|screen| shown.is_live && screen.redraws()) {
            screen.expect(shown.view);
            let lines = table::lines(shown.table, &title, screen.layout(true), symbols);
            screen.update(shown.view, lines);
            self.live.retain(|(view, ..)| *view != shown.view);
            self.live.push((shown.view, shown.table.clone(), title));
            self.results();
        } else {
            let layout = self.screen.as_mut().map_or(Layout::default(), |screen| screen.layout(false));
            if let Some(screen) = &mut self.screen {
                screen.forget(shown.view);
                self.live.retain(|(view, ..)| *view != shown.view);
            }
            let lines = table::lines(shown.table, &title, layout, symbols);
            // Tables stand apart from the maps above them.
            if std::mem::take(&mut self.is_below_maps) {
                self.results().push(b'\n');
            }
            write_lines(&lines, self.results());
        }
        self.out.settle();
    }

    fn follows_size(&self) -> bool {
        self.screen.as_ref().is_some_and(Screen::redraws)
    }

    fn resized(&mut self, symbols: &dyn Symbols) {
        let Some(screen) = &mut self.screen else { return };
        for (view, table, title) in &self.live {
            let lines = table::lines(table, title, screen.layout(true), symbols);
            screen.update(*view, lines);
        }
        if !self.live.is_empty() {
            // What is drawn anew with the next flush.
            self.results();
        }
    }

    fn quality(&mut self, sections: &[Section]) {
        for section in sections {
            self.note(format_args!("{}\n{}\n", section.title, section.lines.join("\n")));
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let out = self.out.bytes();
        if let Some(screen) = &mut self.screen {
            screen.draw(out);
        }
        self.out.flush()
    }
}

/// A block of lines and an empty one.
fn write_lines(lines: &[Line], out: &mut Vec<u8>) {
    for line in lines {
        out.extend_from_slice(line.text.as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
