//! Results as JSON, one document per line. Keyed maps are arrays of rows. In the drop-in, they have
//! bpftrace's form, and what bpftrace does not write as JSON is text for people.
//!
//! In: values. Out: lines, each a JSON object with a `type`; in the drop-in, that text, apart.
//! Guarantee: every line is valid JSON in UTF-8, whatever bytes the values contain, and no object
//! repeats a name. Integers that a double cannot represent are strings.

mod distribution;
mod keys;
mod pieces;
mod view;

use std::io::{self, Write};

use profiler_model::output::{
    EventSink, Flush, MapPrint, MapSnapshot, Section, SnapshotSink, SourceLocation, SpanLedger, Trial, ViewSnapshot,
};
use profiler_model::results::HelperFailure;
use profiler_model::series::{Series, moment};
use profiler_model::text::write_value;
use profiler_model::value::{Bucket, Histogram, Labels, Symbols, Value};

use super::buffer::Buffer;
use super::entries::arranged;
use super::text::{noted, section_lines};
use super::trials;

pub use pieces::quoted;
use pieces::write_integer;
pub(crate) use pieces::{put, write_list, write_string};

/// Renderer for JSON.
#[derive(Debug)]
pub struct Json {
    out: Buffer,
    quiet: bool,
    /// In the drop-in, where losses and errors of the runtime go.
    notes: Option<Buffer>,
}

impl Json {
    /// Writes lines to `out`. `quiet` omits the line about attached probes.
    pub fn new(out: Box<dyn Write>, quiet: bool) -> Json {
        Json { out: Buffer::new(out), quiet, notes: None }
    }

    /// Writes keyed maps in bpftrace's form, losses to `notes`, unless `quiet`, and errors of the
    /// runtime there too.
    #[must_use]
    pub fn of_bpftrace(mut self, notes: Box<dyn Write>) -> Json {
        self.notes = Some(Buffer::new(notes));
        self
    }

    /// Writes a line of this type with the data that `data` appends.
    fn line(&mut self, kind: &str, data: impl FnOnce(&mut Vec<u8>)) {
        self.versioned_line(kind, None, data);
    }

    /// As `line`, with a version number for types that have one.
    fn versioned_line(&mut self, kind: &str, version: Option<u32>, data: impl FnOnce(&mut Vec<u8>)) {
        let out = self.out.bytes();
        put(out, format_args!("{{\"type\": \"{kind}\", "));
        if let Some(version) = version {
            put(out, format_args!("\"version\": {version}, "));
        }
        put(out, format_args!("\"data\": "));
        data(out);
        out.extend_from_slice(b"}\n");
        self.out.settle();
    }

    /// A line with its number both in `data` and in `count`.
    fn counted(&mut self, kind: &str, name: &str, count: u64) {
        let out = self.out.bytes();
        put(out, format_args!("{{\"type\": \"{kind}\", \"count\": {count}, \"data\": {{\"{name}\": {count}}}}}\n"));
        self.out.settle();
    }
}

impl EventSink for Json {
    fn attached(&mut self, probes: u32) {
        if !self.quiet {
            self.counted("attached_probes", "probes", u64::from(probes));
        }
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.line(kind, |out| write_string(bytes, out));
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &SourceLocation) {
        if let Some(notes) = self.notes.as_mut().filter(|_| kind == "error") {
            notes.bytes().extend_from_slice(noted(kind, text, place).as_bytes());
            // Without a reader of notes, results go on.
            let _ = notes.flush();
            return;
        }
        let out = self.out.bytes();
        put(out, format_args!("{{\"type\": \"{kind}\", \"msg\": "));
        write_string(text, out);
        out.extend_from_slice(b", \"filename\": ");
        write_string(place.file.as_bytes(), out);
        put(out, format_args!(", \"line\": {}, \"col\": {}}}\n", place.line, place.column));
        self.out.settle();
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &SourceLocation) {
        let out = self.out.bytes();
        out.extend_from_slice(b"{\"type\": \"helper_error\", \"msg\": ");
        write_string(failure.words.as_bytes(), out);
        put(out, format_args!(", \"helper\": \"{}\", \"retcode\": {}, \"filename\": ", failure.helper, failure.code));
        write_string(place.file.as_bytes(), out);
        put(out, format_args!(", \"line\": {}, \"col\": {}}}\n", place.line, place.column));
        self.out.settle();
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        self.line("value", |out| write_json(value, symbols, out));
    }

    fn lost(&mut self, events: u64) {
        self.counted("lost_events", "events", events);
    }

    fn trial(&mut self, trial: &Trial<'_>, symbols: &dyn Symbols) {
        let (kind, name) = match trial {
            Trial::Test { names, passed, .. } => ("test_result", names.get(passed.len().wrapping_sub(1))),
            Trial::Benchmark { names, index, .. } => ("benchmark_result", names.get(*index)),
        };
        self.line(kind, |out| {
            out.push(b'{');
            write_string(name.map_or(b"", |name| name.as_bytes()), out);
            match trial {
                Trial::Test { passed, duration, printed, .. } => {
                    let passed = passed.last().copied().unwrap_or_default();
                    let ns = duration.as_nanos();
                    put(out, format_args!(": {{\"duration\": {ns}, \"passed\": {passed}, \"output\": "));
                    write_string(&trials::text_of(printed, symbols), out);
                    out.extend_from_slice(b"}}");
                }
                Trial::Benchmark { average_ns, runs, .. } => {
                    put(out, format_args!(": {{\"average\": {average_ns}, \"iters\": {runs}}}}}"));
                }
            }
        });
    }
}

impl SnapshotSink for Json {
    fn map(&mut self, map: &MapSnapshot, print: MapPrint, symbols: &dyn Symbols) {
        let entries = arranged(map, print);
        if entries.is_empty() {
            return;
        }
        let kind = map.aggregation.map_or("map", |aggregation| aggregation.json_type());
        let has_rows = map.keyed && self.notes.is_none();
        self.versioned_line(kind, has_rows.then_some(keys::VERSION), |out| {
            out.push(b'{');
            write_string(map.name.as_bytes(), out);
            out.extend_from_slice(b": ");
            match entries.as_slice() {
                [(None, value, _)] => write_json(value, symbols, out),
                entries if has_rows => keys::write_rows(entries, symbols, out),
                entries => keys::write_object(entries, symbols, out),
            }
            out.push(b'}');
        });
    }

    fn view(&mut self, shown: &ViewSnapshot<'_>, symbols: &dyn Symbols) {
        self.line("view", |out| view::write_view(shown, symbols, out));
    }

    fn spans(&mut self, spans: &[SpanLedger]) {
        for span in spans {
            self.line("span", |out| write_span(span, out));
        }
    }

    fn quality(&mut self, sections: &[Section]) {
        match &mut self.notes {
            None if sections.is_empty() => {}
            None => self.line("quality", |out| view::write_quality(sections, out)),
            Some(_) if self.quiet => {}
            Some(notes) => {
                notes.bytes().extend(sections.iter().map(section_lines).collect::<String>().into_bytes());
                // Without a reader of notes, results go on.
                let _ = notes.flush();
            }
        }
    }

    fn end_of_run(&mut self) {}

    fn is_for_machines(&self) -> bool {
        true
    }
}

impl Flush for Json {
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A span's accounting: first the numbers that every span has, then those that only some have.
fn write_span(span: &SpanLedger, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"name\": ");
    write_string(span.name.as_bytes(), out);
    let always = [
        ("started", span.started),
        ("matched", span.matched),
        ("replaced", span.replaced),
        ("expired", span.expired),
        ("open", span.open),
        ("unmatched_ends", span.unmatched),
        ("busy_ends", span.unmatched_busy),
        ("dropped", span.dropped),
        ("dropped_busy", span.dropped_busy),
    ];
    for (name, count) in always {
        put(out, format_args!(", \"{name}\": {count}"));
    }
    let some = [
        ("unmatched_marks", span.unmatched_marks),
        ("evicted", span.evicted),
        ("abandoned", span.abandoned),
        ("ended", span.ended),
        ("kept", span.kept),
        ("dropped_deep", span.dropped_deep),
        ("open_in_map", span.in_map),
    ];
    for (name, count) in some {
        if let Some(count) = count {
            put(out, format_args!(", \"{name}\": {count}"));
        }
    }
    out.push(b'}');
}

fn write_json(value: &Value, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    match value {
        Value::Missing => out.extend_from_slice(b"null"),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        Value::Int(n) | Value::Enum { number: n, .. } => write_integer(i128::from(*n), out),
        Value::Average { average } => write_integer(*average, out),
        Value::Float(bits) => match f64::from_bits(*bits) {
            number if number.is_finite() => put(out, format_args!("{number:?}")),
            // JSON has no infinity.
            number => write_string(format!("{number:?}").as_bytes(), out),
        },
        Value::Uint(n) | Value::Pointer(n) => write_integer(i128::from(*n), out),
        Value::Str(text) => write_string(text, out),
        Value::Buf(bytes) => write_list(bytes, out, |byte, out| put(out, format_args!("{byte}"))),
        Value::Array(values) | Value::Tuple(values) => {
            write_list(values, out, |value, out| write_json(value, symbols, out));
        }
        Value::Record(fields) => {
            out.push(b'{');
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                write_string(name.as_bytes(), out);
                out.extend_from_slice(b": ");
                write_json(value, symbols, out);
            }
            out.push(b'}');
        }
        Value::Histogram(histogram) => write_histogram(histogram, out),
        Value::Series(series) => write_series(series, symbols, out),
        Value::Distribution(values) => distribution::write_distribution(values, out),
        Value::Stats { count, average, total } => {
            let numbers =
                [("{\"count\": ", i128::from(*count)), (", \"average\": ", *average), (", \"total\": ", *total)];
            for (name, number) in numbers {
                out.extend_from_slice(name.as_bytes());
                write_integer(number, out);
            }
            out.push(b'}');
        }
        Value::Stack(_) | Value::Symbol { .. } | Value::Inet(_) | Value::Timestamp { .. } | Value::Username(_) => {
            let mut text = Vec::new();
            write_value(value, symbols, &mut text);
            write_string(&text, out);
        }
    }
}

fn write_series(series: &Series, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    write_list(&series.points, out, |(number, value), out| {
        let start = moment(series.start_ns(*number), "%Y-%m-%d %H:%M:%S", 9, symbols);
        put(out, format_args!("{{\"interval_start\":\"{start}\",\"value\":"));
        write_integer(*value, out);
        out.push(b'}');
    });
}

fn write_histogram(histogram: &Histogram, out: &mut Vec<u8>) {
    write_list(&histogram.buckets, out, |bucket, out| {
        out.push(b'{');
        if let Some(low) = bucket.low {
            out.extend_from_slice(b"\"min\": ");
            write_integer(low.into(), out);
            out.extend_from_slice(b", ");
        }
        if let Some(max) = last_value(bucket, histogram.labels) {
            out.extend_from_slice(b"\"max\": ");
            write_integer(max.into(), out);
            out.extend_from_slice(b", ");
        }
        put(out, format_args!("\"count\": {}}}", bucket.count));
    });
}

/// The largest value of a bucket; `None` if it has no upper bound. The last power-of-two bucket
/// ends at 2^63.
fn last_value(bucket: &Bucket, labels: Labels) -> Option<i64> {
    match (bucket.high, labels) {
        (Some(high), _) => Some(high.wrapping_sub(1)),
        (None, Labels::Powers { .. }) => Some(i64::MAX),
        (None, _) => None,
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
