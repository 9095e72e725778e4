//! One cell of a table as text.
//!
//! In: a cell. Out: text of one line.
//! Guarantee: no control character is left.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use profiler_compiler::statistics::Number;
use profiler_compiler::text::write_value;
use profiler_compiler::units::Unit;
use profiler_compiler::value::{Symbols, Value};

use super::ELLIPSIS;
use crate::view::{Cell, Header, Quantity};

/// What stands for a number that cannot be told.
const MISSING: &str = "-";

pub(super) fn cell_text(cell: &Cell, header: &Header, symbols: &dyn Symbols) -> String {
    match (cell, header.quantity) {
        (Cell::Missing, _) => MISSING.to_owned(),
        (Cell::Value(value), _) => value_text(value, symbols),
        (Cell::Number(number), quantity) => number_text(*number, quantity.unwrap_or(Quantity::Of(Unit::None))),
    }
}

/// A number for people: in a unit of its magnitude.
pub fn number_text(number: Number, quantity: Quantity) -> String {
    let in_unit = |unit: Unit| match (unit, number) {
        // Whole numbers without a unit are shown in full.
        (Unit::None, Number::Integer(n) | Number::Below(n)) => n.to_string(),
        (unit, number) => unit.text(number.as_f64()),
    };
    let text = match quantity {
        Quantity::Of(unit) => in_unit(unit),
        Quantity::PerSecond(Unit::None) => format!("{}/s", few_digits(number.as_f64())),
        Quantity::PerSecond(unit) => format!("{}/s", in_unit(unit)),
        Quantity::Share => format!("{:.1} %", number.as_f64()),
    };
    if matches!(number, Number::Below(_)) { format!("<{text}") } else { text }
}

/// A bare rate: whole from 100 on, with one or two decimals below.
fn few_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A value in one line: of a stack, the frames from the innermost on.
pub fn value_text(value: &Value, symbols: &dyn Symbols) -> String {
    let mut text = Vec::new();
    write_value(value, symbols, &mut text);
    let text = String::from_utf8_lossy(&text);
    match value {
        Value::Stack(_) => {
            let frames: Vec<&str> = text.lines().map(str::trim).filter(|frame| !frame.is_empty()).collect();
            printable(&frames.join(" < "))
        }
        _ => printable(&text),
    }
}

/// The text with its control characters written out.
pub(super) fn printable(text: &str) -> String {
    if !text.contains(|c: char| c.is_control()) {
        return text.to_owned();
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// The text in so many columns: its middle is left out.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    // The end of a path or a symbol says as much as its beginning.
    let (front, back) = (room.div_ceil(2), room / 2);
    let head = taken(text.chars(), front);
    let tail: Vec<char> = taken(text.chars().rev(), back).chars().rev().collect();
    format!("{head}{ELLIPSIS}{}", tail.into_iter().collect::<String>())
}

/// As many characters as fit.
fn taken(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    characters.take_while(fits).collect()
}
