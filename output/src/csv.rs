//! Tables as comma-separated values, quoted as in RFC 4180.
//!
//! In: tables. Out: a header line whenever the column names change, and a line per row; all other
//! output goes where notes go.
//! Guarantee: numbers are in base units, without unit names. Whatever bytes a value contains, each
//! line has as many fields as its header line.

use std::io::{self, Write};

use profiler_model::output::{
    Cell, EventSink, Flush, Header, MapPrint, MapSnapshot, Section, SnapshotSink, SourceLocation, SpanLedger, Trial,
    ViewSnapshot,
};
use profiler_model::results::HelperFailure;
use profiler_model::statistics::Number;
use profiler_model::text::write_value;
use profiler_model::value::{Symbols, Value};
use profiler_model::view::Quantity;

use super::buffer::Buffer;
use super::text::Text;
use super::window::utc;

/// Renderer for comma-separated values.
#[derive(Debug)]
pub struct Csv {
    out: Buffer,
    notes: Text,
    names: Vec<String>,
}

impl Csv {
    /// Writes tables to `out`, everything else to `notes` (standard error), and remarks to
    /// `remarks`.
    pub fn new(out: Box<dyn Write>, notes: Box<dyn Write>, remarks: Box<dyn Write>, quiet: bool) -> Csv {
        Csv { out: Buffer::new(out), notes: Text::new(notes, remarks, quiet), names: Vec::new() }
    }
}

impl EventSink for Csv {
    fn attached(&mut self, probes: u32) {
        self.notes.attached(probes);
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.notes.text(kind, bytes);
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &SourceLocation) {
        EventSink::note(&mut self.notes, kind, text, place);
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &SourceLocation) {
        self.notes.helper_failed(failure, place);
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        self.notes.value(value, symbols);
    }

    fn lost(&mut self, events: u64) {
        self.notes.lost(events);
    }

    fn trial(&mut self, trial: &Trial<'_>, symbols: &dyn Symbols) {
        self.notes.trial(trial, symbols);
    }
}

impl SnapshotSink for Csv {
    fn map(&mut self, map: &MapSnapshot, print: MapPrint, symbols: &dyn Symbols) {
        self.notes.map(map, print, symbols);
    }

    fn view(&mut self, shown: &ViewSnapshot<'_>, symbols: &dyn Symbols) {
        let table = shown.table;
        let mut names: Vec<String> = ["view", "start", "end", "others"].map(str::to_owned).to_vec();
        names.extend(table.headers.iter().map(Header::machine_name));
        let out = self.out.bytes();
        if names != self.names {
            // An empty line separates tables.
            if !self.names.is_empty() {
                out.extend_from_slice(b"\n");
            }
            write_line(names.iter().map(String::as_bytes), out);
            self.names = names;
        }
        let (start, end) = (utc(shown.window.start_ns), utc(shown.window.end_ns));
        let rest = table.rest.iter().map(|rest| (rest.others, &rest.cells));
        for (others, cells) in table.rows.iter().map(|row| (0, row)).chain(rest) {
            let fields = [table.title.clone(), start.clone(), end.clone(), others.to_string()].map(String::into_bytes);
            let cells = cells.iter().zip(&table.headers).map(|(cell, header)| field(cell, header.quantity, symbols));
            let fields: Vec<Vec<u8>> = fields.into_iter().chain(cells).collect();
            write_line(fields.iter().map(Vec::as_slice), out);
        }
        let empty = table.empty.iter().filter(|text| !text.is_empty());
        for note in table.withheld.iter().chain(empty).chain(&table.notes) {
            self.notes.remark(&format!("{}: {note}", table.title));
        }
        self.out.settle();
    }

    fn spans(&mut self, spans: &[SpanLedger]) {
        self.notes.spans(spans);
    }

    fn quality(&mut self, sections: &[Section]) {
        self.notes.quality(sections);
    }

    fn wants_tables(&self) -> bool {
        true
    }
}

impl Flush for Csv {
    fn flush(&mut self) -> io::Result<()> {
        self.notes.flush()?;
        self.out.flush()
    }
}

fn field(cell: &Cell, quantity: Option<Quantity>, symbols: &dyn Symbols) -> Vec<u8> {
    match cell {
        Cell::Missing => Vec::new(),
        Cell::Value(value) => {
            let mut text = Vec::new();
            write_value(value, symbols, &mut text);
            text
        }
        Cell::Number(number) => machine_number(*number, quantity).into_bytes(),
    }
}

/// A number in base units: whole numbers in full, others with all their digits.
pub(super) fn machine_number(number: Number, quantity: Option<Quantity>) -> String {
    match number {
        Number::Integer(n) | Number::Below(n) => n.to_string(),
        // A share is no more exact than its printed form.
        Number::Real(n) if quantity == Some(Quantity::Share) => format!("{n:.3}"),
        Number::Real(n) => format!("{n}"),
    }
}

fn write_line<'a>(fields: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if field.iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) || field.first() == Some(&b' ') {
            out.push(b'"');
            for &byte in field {
                if byte == b'"' {
                    out.push(b'"');
                }
                out.push(byte);
            }
            out.push(b'"');
        } else {
            out.extend_from_slice(field);
        }
    }
    out.extend_from_slice(b"\n");
}

#[cfg(test)]
#[path = "csv_tests.rs"]
mod tests;
