//! Results as JSON, one document a line, as bpftrace 0.26 writes them.
//!
//! In: values. Out: lines, each a JSON object with a `type`.
//! Guarantee: every line is valid JSON in UTF-8, whatever bytes the values hold. Integers that a double cannot hold are
//! strings.

mod distribution;
mod view;

use std::io::{self, Write};

use profiler_compiler::series::{Series, moment};
use profiler_compiler::text::write_value;
use profiler_compiler::value::{Bucket, Histogram, Labels, Symbols, Value};
use profiler_compiler::words::HelperFailure;

use super::buffer::Buffer;
use super::entries::{Entry, arranged, write_key};
use super::{MapPrint, MapSnapshot, Place, Render, Shown, Trial};
use crate::ledger::Section;
use crate::spans::SpanLedger;

/// JSON for programs.
#[derive(Debug)]
pub struct Json {
    out: Buffer,
    quiet: bool,
}

impl Json {
    /// Lines go to `out`. `quiet` drops the line about attached probes.
    pub fn new(out: Box<dyn Write>, quiet: bool) -> Json {
        Json { out: Buffer::new(out), quiet }
    }

    /// A line: what `data` appends, in the frame of its type.
    fn line(&mut self, kind: &str, data: impl FnOnce(&mut Vec<u8>)) {
        let out = self.out.bytes();
        put(out, format_args!("{{\"type\": \"{kind}\", \"data\": "));
        data(out);
        out.extend_from_slice(b"}\n");
        self.out.settle();
    }

    /// A line whose number stands beside the data as well as in it.
    fn counted(&mut self, kind: &str, name: &str, count: u64) {
        let out = self.out.bytes();
        put(out, format_args!("{{\"type\": \"{kind}\", \"count\": {count}, \"data\": {{\"{name}\": {count}}}}}\n"));
        self.out.settle();
    }
}

impl Render for Json {
    fn attached(&mut self, probes: u32) {
        if !self.quiet {
            self.counted("attached_probes", "probes", u64::from(probes));
        }
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.line(kind, |out| write_string(bytes, out));
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &Place) {
        let out = self.out.bytes();
        put(out, format_args!("{{\"type\": \"{kind}\", \"msg\": "));
        write_string(text, out);
        out.extend_from_slice(b", \"filename\": ");
        write_string(place.file.as_bytes(), out);
        put(out, format_args!(", \"line\": {}, \"col\": {}}}\n", place.line, place.column));
        self.out.settle();
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &Place) {
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

    fn map(&mut self, map: &MapSnapshot<'_>, print: MapPrint, symbols: &dyn Symbols) {
        let entries = arranged(map, print);
        if entries.is_empty() {
            return;
        }
        let kind = map.aggregation.map_or("map", |aggregation| aggregation.json_type());
        self.line(kind, |out| {
            out.push(b'{');
            write_string(map.name.as_bytes(), out);
            out.extend_from_slice(b": ");
            write_entries(&entries, symbols, out);
            out.push(b'}');
        });
    }

    fn end_of_run(&mut self) {}

    fn trial(&mut self, trial: &Trial<'_>) {
        let (kind, name) = match trial {
            Trial::Test { names, passed, .. } => ("test_result", names.get(passed.len().wrapping_sub(1))),
            Trial::Benchmark { names, index, .. } => ("benchmark_result", names.get(*index)),
        };
        self.line(kind, |out| {
            out.push(b'{');
            write_string(name.map_or(b"", |name| name.as_bytes()), out);
            match trial {
                Trial::Test { passed, duration, output, .. } => {
                    let passed = passed.last().copied().unwrap_or_default();
                    let ns = duration.as_nanos();
                    put(out, format_args!(": {{\"duration\": {ns}, \"passed\": {passed}, \"output\": "));
                    write_string(output, out);
                    out.extend_from_slice(b"}}");
                }
                Trial::Benchmark { average_ns, runs, .. } => {
                    put(out, format_args!(": {{\"average\": {average_ns}, \"iters\": {runs}}}}}"));
                }
            }
        });
    }

    fn lost(&mut self, events: u64) {
        self.counted("lost_events", "events", events);
    }

    fn spans(&mut self, spans: &[SpanLedger]) {
        for span in spans {
            self.line("span", |out| write_span(span, out));
        }
    }

    fn view(&mut self, shown: &Shown<'_>, symbols: &dyn Symbols) {
        self.line("view", |out| view::write_view(shown, symbols, out));
    }

    fn is_for_machines(&self) -> bool {
        true
    }

    fn quality(&mut self, sections: &[Section]) {
        if !sections.is_empty() {
            self.line("quality", |out| view::write_quality(sections, out));
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A span's ledger: numbers that are always there, then those that only some spans have.
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

/// A scalar is its value alone, a keyed map an object.
fn write_entries(entries: &[Entry<'_>], symbols: &dyn Symbols, out: &mut Vec<u8>) {
    if let [(None, value)] = entries {
        write_json(value, symbols, out);
        return;
    }
    out.push(b'{');
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        let mut text = Vec::new();
        if let Some(key) = key {
            write_key(key, symbols, &mut text);
        }
        // As in bpftrace, keys have no blanks.
        text.retain(|&byte| byte != b' ');
        write_string(&text, out);
        out.extend_from_slice(b": ");
        write_json(value, symbols, out);
    }
    out.push(b'}');
}

fn write_json(value: &Value, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    match value {
        Value::Missing => out.extend_from_slice(b"null"),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        Value::Int(n) | Value::Average { average: n } | Value::Enum { number: n, .. } => {
            write_integer(i128::from(*n), out);
        }
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
            let numbers = [("{\"count\": ", i128::from(*count)), (", \"average\": ", (*average).into())];
            for (name, number) in numbers.into_iter().chain([(", \"total\": ", i128::from(*total))]) {
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

/// Arrays have no blank behind the comma.
fn write_list<T>(items: &[T], out: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
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

/// The largest value of a bucket that is not open above. The last one of powers ends at 2^63.
fn last_value(bucket: &Bucket, labels: Labels) -> Option<i64> {
    match (bucket.high, labels) {
        (Some(high), _) => Some(high.wrapping_sub(1)),
        (None, Labels::Powers { .. }) => Some(i64::MAX),
        (None, _) => None,
    }
}

/// A number, or a string when a double cannot hold it.
fn write_integer(n: i128, out: &mut Vec<u8>) {
    let magnitude = n.unsigned_abs();
    let significant_bits = (128 - magnitude.leading_zeros()).saturating_sub(magnitude.trailing_zeros());
    if significant_bits <= f64::MANTISSA_DIGITS {
        put(out, format_args!("{n}"));
    } else {
        put(out, format_args!("\"{n}\""));
    }
}

/// A string; bytes that are not UTF-8 become U+FFFD.
/// A string as JSON has it, with its quotes.
pub fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0..=0x1f => put(out, format_args!("\\u{byte:04x}")),
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
