//! Results as text, as bpftrace prints them.
//!
//! In: values. Out: results to one writer; notes (attached probes, losses) to another.
//! Guarantee: the bytes of results depend only on the values; losses never mix with them.

use std::io::{self, Write};
use std::time::Duration;

use profiler_model::output::{
    Cell, EventSink, Flush, MapPrint, MapSnapshot, Section, SnapshotSink, SourceLocation, SpanLedger, Table, Trial,
    ViewSnapshot,
};
use profiler_model::results::HelperFailure;
use profiler_model::text::controls::{escape_controls, escaped};
use profiler_model::text::write_value;
use profiler_model::value::{Symbols, Value};

use super::buffer::Buffer;
use super::entries::{arranged, write_key};
use super::idle::Idle;
use super::screen::{Screen, Terminal};
use super::stacks::picture;
use super::table::{self, Layout, Line};
use super::trials;
use super::window;

/// Renderer for text.
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
pub struct Text {
    out: Buffer,
    notes: Box<dyn Write>,
    quiet: bool,
    /// Whether the last output was a map in bpftrace's form.
    is_below_maps: bool,
    /// The terminal that results go to, if any.
    screen: Option<Screen>,
    /// The latest table of each live view, by view index.
    live: Vec<Live>,
    /// Tables without rows that are yet to be printed.
    idle: Idle,
    /// Whether the last output was about tables without rows.
    is_below_idle: bool,
    coloured: bool,
    /// Whether control characters of traced programs are escaped in results, and in notes.
    escapes: bool,
    escapes_notes: bool,
    /// Whether spans of which nothing is missing are left out of the notes.
    omits_whole_spans: bool,
}

/// A view that is redrawn in place.
struct Live {
    view: usize,
    table: Table,
    /// The window that it covers, for people, and its length.
    window: Option<String>,
    length: Duration,
}

impl Text {
    /// Writes results to `out` and notes to `notes` (standard error). `quiet` omits the line about
    /// attached probes.
    pub fn new(out: Box<dyn Write>, notes: Box<dyn Write>, quiet: bool) -> Text {
        Text {
            out: Buffer::new(out),
            notes,
            quiet,
            coloured: false,
            is_below_maps: false,
            screen: None,
            live: Vec::new(),
            idle: Idle::default(),
            is_below_idle: false,
            escapes: false,
            escapes_notes: false,
            omits_whole_spans: false,
        }
    }

    /// Leaves out the notes about spans of which nothing is missing.
    #[must_use]
    pub fn omitting_whole_spans(self, omits: bool) -> Text {
        Text { omits_whole_spans: omits, ..self }
    }

    /// Sends results to this terminal.
    #[must_use]
    pub fn on_terminal(self, terminal: Option<Terminal>) -> Text {
        Text { escapes: terminal.is_some(), screen: terminal.map(Screen::new), ..self }
    }

    /// Escapes control characters of traced programs in results and in notes, where those go to a
    /// terminal.
    #[must_use]
    pub fn escaping(self, results: bool, notes: bool) -> Text {
        Text { escapes: self.escapes || results, escapes_notes: notes, ..self }
    }

    /// Appends a result that may contain bytes of traced programs.
    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let escapes = self.escapes;
        let out = self.results();
        let start = out.len();
        write(out);
        if escapes {
            escape_controls(out, start);
        }
        self.out.settle();
    }

    /// The buffer for results, after the live views were erased from the screen.
    fn results(&mut self) -> &mut Vec<u8> {
        let out = self.out.bytes();
        if let Some(screen) = &mut self.screen {
            screen.erase(out);
        }
        let idle = std::mem::take(&mut self.idle);
        if !idle.is_empty() {
            if std::mem::take(&mut self.is_below_maps) {
                out.push(b'\n');
            }
            let layout = self.screen.as_ref().map_or(Layout::default(), Screen::layout);
            write_lines(&idle_lines(&idle, layout), out);
            self.is_below_idle = true;
        }
        out
    }

    /// Empty lines that separate a table from what is above it.
    fn separate(&mut self) {
        // Sentences that wait are above it too.
        self.results();
        let is_below = std::mem::take(&mut self.is_below_maps) | std::mem::take(&mut self.is_below_idle);
        if is_below {
            self.out.bytes().push(b'\n');
        }
    }

    /// Sets whether the results of tests are coloured.
    #[must_use]
    pub fn coloured(self, coloured: bool) -> Text {
        Text { coloured, ..self }
    }

    /// Writes a line where notes go.
    pub fn remark(&mut self, line: &str) {
        self.note(format_args!("{line}\n"));
    }

    /// Writes where notes go. A failure cannot be reported anywhere.
    fn note(&mut self, text: std::fmt::Arguments<'_>) {
        if self.screen.is_some() {
            // Notes usually go to the same terminal.
            self.results();
            let _ = self.out.flush();
        }
        let written = if self.escapes_notes {
            self.notes.write_all(escaped(&text.to_string()).as_bytes())
        } else {
            self.notes.write_fmt(text)
        };
        let _ = written.and_then(|()| self.notes.flush());
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Text").field("out", &self.out).field("quiet", &self.quiet).finish_non_exhaustive()
    }
}

impl Text {
    /// Lays out all live views anew: they share the height of the terminal.
    fn arrange(&mut self, symbols: &dyn Symbols) {
        let Some(screen) = &mut self.screen else { return };
        let wanted: Vec<usize> = self.live.iter().map(Live::wanted_lines).collect();
        let layouts = screen.live_layouts(&wanted);
        let (mut views, mut left_out) = (Vec::new(), Vec::new());
        for (live, layout) in self.live.iter().zip(layouts) {
            match layout {
                Some(layout) => views.push((live.view, live.lines(layout, symbols))),
                None => left_out.push(live.table.title.as_str()),
            }
        }
        let words = (!left_out.is_empty()).then(|| format!("… no lines left for: {}", left_out.join(", ")));
        screen.update(views, words.map(|words| table::notice(&words, screen.layout())));
    }

    /// Writes a table that stays, or remembers it for the sentence about tables without rows.
    fn write_table(&mut self, shown: &Live, symbols: &dyn Symbols) {
        let Live { table, window, .. } = shown;
        if Idle::is(table, window.as_ref()) {
            if !self.idle.add(table, window.clone()) {
                self.results();
                self.idle = Idle::of(table, window.clone());
            }
            return;
        }
        let layout = self.screen.as_ref().map_or(Layout::default(), Screen::layout);
        let lines = shown.lines(layout, symbols);
        self.separate();
        write_lines(&lines, self.out.bytes());
        self.out.bytes().push(b'\n');
    }

    /// Writes the calls of macros that led to a place.
    fn expansions(&mut self, severity: &str, place: &SourceLocation) {
        for call in &place.expanded_from {
            self.note(format_args!("{}: {severity}: expanded from\n{}", position(call), excerpt(call)));
        }
    }
}

/// The line of a warning or an error.
pub(crate) fn noted(kind: &str, text: &[u8], place: &SourceLocation) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let before = if place.file.is_empty() { String::new() } else { format!("{}: ", position(place)) };
    format!("{before}{}: {text}\n", severity(kind))
}

/// A section of the losses, as lines.
pub(crate) fn section_lines(section: &Section) -> String {
    format!("{}\n{}\n", section.title, section.lines.join("\n"))
}

fn severity(kind: &str) -> &'static str {
    if kind.starts_with("error") { "ERROR" } else { "WARNING" }
}

/// `script.bt:3:5-12`.
fn position(place: &SourceLocation) -> String {
    let end = place.end_column.map_or_else(String::new, |end| format!("-{end}"));
    format!("{}:{}:{}{end}", place.file, place.line, place.column)
}

/// The line of a place, with marks below it.
fn excerpt(place: &SourceLocation) -> String {
    let width = place.end_column.map_or(1, |end| end.saturating_sub(place.column).max(1)) as usize;
    let before = place.column.saturating_sub(1) as usize;
    format!("{}\n{:before$}{}\n", place.text, "", "~".repeat(width))
}

impl EventSink for Text {
    fn attached(&mut self, probes: u32) {
        if !self.quiet {
            let plural = if probes == 1 { "" } else { "s" };
            self.note(format_args!("Attached {probes} probe{plural}\n"));
        }
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.results();
        self.is_below_idle = false;
        if kind == "printf" {
            // The values are already escaped; the rest is the script's own text.
            self.results().extend_from_slice(bytes);
            return self.out.settle();
        }
        self.put(|out| {
            out.extend_from_slice(bytes);
            if matches!(kind, "join" | "syscall") {
                out.push(b'\n');
            }
        });
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &SourceLocation) {
        // Earlier results must precede the note if both go to one terminal.
        let _ = self.out.flush();
        self.note(format_args!("{}", noted(kind, text, place)));
        self.expansions(severity(kind), place);
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &SourceLocation) {
        let HelperFailure { helper, code, words } = failure;
        let _ = self.out.flush();
        let position = position(place);
        let words = format!("{words}\nAdditional Info - helper: {helper}, retcode: {code}");
        self.note(format_args!("{position}: WARNING: {words}\n{}", excerpt(place)));
        self.expansions("WARNING", place);
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        self.put(|out| {
            write_value(value, symbols, out);
            out.push(b'\n');
        });
    }

    fn lost(&mut self, events: u64) {
        self.note(format_args!("Lost {events} events\n"));
    }

    fn trial(&mut self, trial: &Trial<'_>, symbols: &dyn Symbols) {
        self.out.bytes().extend(trials::lines(trial, symbols, self.coloured, self.escapes));
        self.out.settle();
    }

    fn escapes(&self) -> bool {
        self.escapes
    }
}

impl SnapshotSink for Text {
    fn map(&mut self, map: &MapSnapshot, print: MapPrint, symbols: &dyn Symbols) {
        self.is_below_maps = true;
        if let Some(unit) = print.flame {
            let layout = self.screen.as_ref().map_or(Layout::default(), Screen::layout);
            if let Some(lines) = picture::of_map(map, unit, layout, symbols) {
                let out = self.results();
                write_lines(&lines, out);
                out.push(b'\n');
            }
            return self.out.settle();
        }
        for (key, value, _) in arranged(map, print) {
            self.put(|out| {
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
            });
        }
    }

    fn view(&mut self, shown: &ViewSnapshot<'_>, symbols: &dyn Symbols) {
        let window = shown.is_periodic.then(|| window::for_people(&shown.window, symbols));
        let length = shown.window.length;
        let shown_now = Live { view: shown.view, table: shown.table.clone(), window, length };
        if shown.is_live && self.screen.as_ref().is_some_and(Screen::redraws) {
            self.live.retain(|live| live.view != shown.view);
            self.live.push(shown_now);
            self.live.sort_by_key(|live| live.view);
            self.arrange(symbols);
            self.results();
        } else {
            if let Some(screen) = &mut self.screen {
                screen.forget(shown.view);
            }
            let drawn = self.live.extract_if(.., |live| live.view == shown.view).last();
            // The last full window was only drawn; it now stays, above the remainder if that is
            // long enough to say something.
            let stays = drawn.filter(|_| shown.is_remainder);
            let is_short = stays.as_ref().is_some_and(|full| length < full.length / 2);
            for live in stays.into_iter().chain((!is_short).then_some(shown_now)) {
                self.write_table(&live, symbols);
            }
        }
        self.out.settle();
    }

    fn spans(&mut self, spans: &[SpanLedger]) {
        // Earlier results must precede the notes if both go to one terminal.
        self.results();
        let _ = self.out.flush();
        let omits_whole = self.omits_whole_spans;
        for span in spans.iter().filter(|span| !(omits_whole && span.is_whole())) {
            self.note(format_args!("span {}: {}\n", span.name, span.summary()));
        }
    }

    fn quality(&mut self, sections: &[Section]) {
        for section in sections {
            self.note(format_args!("{}", section_lines(section)));
        }
    }

    fn end_of_run(&mut self) {
        self.results().extend_from_slice(b"\n\n");
    }

    fn follows_size(&self) -> bool {
        self.screen.as_ref().is_some_and(Screen::redraws)
    }

    fn resized(&mut self, symbols: &dyn Symbols) {
        self.arrange(symbols);
        if !self.live.is_empty() {
            // Erases the views, which the next flush redraws.
            self.results();
        }
    }
}

impl Flush for Text {
    fn flush(&mut self) -> io::Result<()> {
        if !self.idle.is_empty() {
            self.results();
        }
        let out = self.out.bytes();
        if let Some(screen) = &mut self.screen {
            screen.draw(out);
        }
        self.out.flush()
    }
}

impl Live {
    /// The view as lines: a table, a picture of its stacks, or what replaces a table without rows.
    fn lines(&self, layout: Layout, symbols: &dyn Symbols) -> Vec<Line> {
        let Live { table, window, .. } = self;
        if Idle::is(table, window.as_ref()) {
            return idle_lines(&Idle::of(table, window.clone()), layout);
        }
        let title = window.as_ref().map_or_else(|| table.title.clone(), |window| format!("{}, {window}", table.title));
        picture::of_view(table, &title, layout, symbols).unwrap_or_else(|| table::lines(table, &title, layout, symbols))
    }

    /// How many lines it takes if all of it is shown; stacks and pictures take what there is.
    fn wanted_lines(&self) -> usize {
        let Live { table, window, .. } = self;
        let has_stacks = table.rows.iter().flatten().any(|cell| matches!(cell, Cell::Value(Value::Stack(_))));
        if Idle::is(table, window.as_ref()) {
            usize::from(!Idle::of(table, window.clone()).lines().is_empty())
        } else if table.flame.is_some() || has_stacks {
            usize::MAX
        } else {
            // Title, headings, and the lines that may be needed for what is left out.
            4 + table.rows.len() + usize::from(table.rest.is_some()) + table.notes.len()
        }
    }
}

fn idle_lines(idle: &Idle, layout: Layout) -> Vec<Line> {
    idle.lines().iter().flat_map(|line| table::sentence(line, layout)).collect()
}

fn write_lines(lines: &[Line], out: &mut Vec<u8>) {
    for line in lines {
        out.extend_from_slice(line.text.as_bytes());
        out.push(b'\n');
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
