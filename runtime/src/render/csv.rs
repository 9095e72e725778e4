//! Tables for machines: comma-separated values, quoted as RFC 4180 has it.
//!
//! In: tables. Out: a line of names whenever they differ from those before, a line a row; all other output goes to where notes go.
//! Guarantee: numbers are in base units and bare; whatever bytes a value holds, lines have as many fields as their line of names.

use std::io::{self, Write};

use profiler_compiler::statistics::Number;
use profiler_compiler::text::write_value;
use profiler_compiler::value::{Symbols, Value};
use profiler_compiler::words::HelperFailure;

use super::buffer::Buffer;
use super::text::Text;
use super::{MapPrint, MapSnapshot, Place, Render, Shown, Trial};
use crate::ledger::Section;
use crate::view::{Cell, Quantity};

/// Comma-separated values.
#[derive(Debug)]
pub struct Csv {
    out: Buffer,
    notes: Text,
    names: Vec<String>,
}

impl Csv {
    /// Tables go to `out`, all else to `notes` (standard error), `remarks` too.
    pub fn new(out: Box<dyn Write>, notes: Box<dyn Write>, remarks: Box<dyn Write>, quiet: bool) -> Csv {
        Csv { out: Buffer::new(out), notes: Text::new(notes, remarks, quiet), names: Vec::new() }
    }
}

impl Render for Csv {
    fn attached(&mut self, probes: u32) {
        self.notes.attached(probes);
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.notes.text(kind, bytes);
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &Place) {
        Render::note(&mut self.notes, kind, text, place);
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        self.notes.value(value, symbols);
    }

    fn map(&mut self, map: &MapSnapshot<'_>, print: MapPrint, symbols: &dyn Symbols) {
        self.notes.map(map, print, symbols);
    }

    fn view(&mut self, shown: &Shown<'_>, symbols: &dyn Symbols) {
        let table = shown.table;
        let mut names: Vec<String> = ["view", "start", "end", "others"].map(str::to_owned).to_vec();
        names.extend(table.headers.iter().map(crate::view::Header::machine_name));
        let out = self.out.bytes();
        if names != self.names {
            // Another table begins behind an empty line.
            if !self.names.is_empty() {
                out.extend_from_slice(b"\n");
            }
            write_line(names.iter().map(String::as_bytes), out);
            self.names = names;
        }
        let (start, end) = (shown.window.start_text(), shown.window.end_text());
        let rest = table.rest.iter().map(|rest| (rest.others, &rest.cells));
        for (others, cells) in table.rows.iter().map(|row| (0, row)).chain(rest) {
            let fields = [table.title.clone(), start.clone(), end.clone(), others.to_string()].map(String::into_bytes);
            let cells = cells.iter().zip(&table.headers).map(|(cell, header)| field(cell, header.quantity, symbols));
            let fields: Vec<Vec<u8>> = fields.into_iter().chain(cells).collect();
            write_line(fields.iter().map(Vec::as_slice), out);
        }
        self.out.settle();
    }

    fn wants_tables(&self) -> bool {
        true
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &Place) {
        self.notes.helper_failed(failure, place);
    }

    fn trial(&mut self, trial: &Trial<'_>) {
        self.notes.trial(trial);
    }

    fn end_of_run(&mut self) {}

    fn lost(&mut self, events: u64) {
        self.notes.lost(events);
    }

    fn spans(&mut self, spans: &[crate::spans::SpanLedger]) {
        self.notes.spans(spans);
    }

    fn quality(&mut self, sections: &[Section]) {
        self.notes.quality(sections);
    }

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

/// A number in base units: whole ones in full, others with as many digits as they have.
pub(super) fn machine_number(number: Number, quantity: Option<Quantity>) -> String {
    match number {
        Number::Integer(n) | Number::Below(n) => n.to_string(),
        // A share is no more exact than its print.
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
