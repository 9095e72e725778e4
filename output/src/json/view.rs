//! Views and the quality sections as JSON.
//!
//! In: a filled view. Out: one object.
//! Guarantee: numbers are in base units, which the object names; each column has a unique name,
//! whatever its header is.

use profiler_model::output::{Cell, Field, Header, Section, ViewSnapshot};
use profiler_model::statistics::Number;
use profiler_model::value::Symbols;
use profiler_model::view::Quantity;

use super::{put, write_integer, write_json, write_list, write_string};
use crate::csv::machine_number;
use crate::window::utc;

pub(super) fn write_view(shown: &ViewSnapshot<'_>, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    let table = shown.table;
    let columns: Vec<Column<'_>> = columns(&table.headers);
    out.extend_from_slice(b"{\"view\": ");
    write_string(table.title.as_bytes(), out);
    for (name, text) in [("start", utc(shown.window.start_ns)), ("end", utc(shown.window.end_ns))] {
        put(out, format_args!(", \"{name}\": "));
        write_string(text.as_bytes(), out);
    }
    put(out, format_args!(", \"seconds\": {}, \"units\": {{", shown.window.length.as_secs_f64()));
    let units = columns.iter().filter_map(|column| Some((&column.name, unit(column.header)?)));
    for (at, (name, unit)) in units.enumerate() {
        out.extend_from_slice(if at > 0 { b", " } else { b"" });
        write_string(name.as_bytes(), out);
        put(out, format_args!(": \"{unit}\""));
    }
    out.extend_from_slice(b"}, \"rows\": ");
    write_list(&table.rows, out, |row, out| write_row(None, row, &columns, symbols, out));
    if let Some(rest) = &table.rest {
        out.extend_from_slice(b", \"rest\": ");
        write_row(Some(rest.others), &rest.cells, &columns, symbols, out);
    }
    if let Some(why) = &table.withheld {
        out.extend_from_slice(b", \"withheld\": ");
        write_string(why.as_bytes(), out);
    }
    if let Some(empty) = &table.empty {
        out.extend_from_slice(b", \"empty\": ");
        write_string(empty.as_bytes(), out);
    }
    if !table.notes.is_empty() {
        out.extend_from_slice(b", \"notes\": ");
        write_list(&table.notes, out, |note, out| write_string(note.as_bytes(), out));
    }
    out.extend_from_slice(b", \"quality\": ");
    write_quality(shown.quality, out);
    out.push(b'}');
}

/// A column with its unique JSON name.
struct Column<'a> {
    name: String,
    header: &'a Header,
}

/// Names the columns; a repeated name gets a numeric suffix.
fn columns(headers: &[Header]) -> Vec<Column<'_>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for header in headers {
        let mut name = header.name.clone();
        let mut number = 1;
        while columns.iter().any(|column| column.name == name) {
            number += 1;
            name = format!("{}_{number}", header.name);
        }
        columns.push(Column { name, header });
    }
    columns
}

fn unit(header: &Header) -> Option<String> {
    match header.quantity? {
        Quantity::Of(unit) => unit.name().map(str::to_owned),
        Quantity::PerSecond(unit) => Some(format!("{}/s", unit.name().unwrap_or("1"))),
        Quantity::Share => Some("percent".into()),
    }
}

/// A summary row has its number of rows instead of the key columns.
fn write_row(others: Option<usize>, cells: &[Cell], columns: &[Column<'_>], symbols: &dyn Symbols, out: &mut Vec<u8>) {
    out.push(b'{');
    if let Some(others) = others {
        put(out, format_args!("\"others\": {others}"));
    }
    let shown = cells.iter().zip(columns).filter(|(_, column)| others.is_none() || column.header.is_number());
    for (at, (cell, column)) in shown.enumerate() {
        out.extend_from_slice(if at > 0 || others.is_some() { b", " } else { b"" });
        write_string(column.name.as_bytes(), out);
        out.extend_from_slice(b": ");
        match cell {
            Cell::Missing => out.extend_from_slice(b"null"),
            Cell::Value(value) => write_json(value, symbols, out),
            Cell::Number(number) => write_number(*number, column.header.quantity, out),
        }
    }
    out.push(b'}');
}

fn write_number(number: Number, quantity: Option<Quantity>, out: &mut Vec<u8>) {
    match number {
        Number::Integer(n) => write_integer(n, out),
        Number::Below(n) => {
            out.extend_from_slice(b"{\"below\": ");
            write_integer(n, out);
            out.push(b'}');
        }
        real @ Number::Real(_) => put(out, format_args!("{}", machine_number(real, quantity))),
    }
}

/// Writes an object with a list of objects for each section.
pub(super) fn write_quality(sections: &[Section], out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, section) in sections.iter().enumerate() {
        put(out, format_args!("{}\"{}\": ", if at > 0 { ", " } else { "" }, section.name));
        write_list(&section.entries, out, |entry, out| {
            out.push(b'{');
            for (at, (name, field)) in entry.iter().enumerate() {
                put(out, format_args!("{}\"{name}\": ", if at > 0 { ", " } else { "" }));
                match field {
                    Field::Text(text) => write_string(text.as_bytes(), out),
                    Field::Count(count) => write_integer(i128::from(*count), out),
                    Field::Real(number) => put(out, format_args!("{number}")),
                }
            }
            out.push(b'}');
        });
    }
    out.push(b'}');
}
