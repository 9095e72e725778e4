//! One cell of a table as text.
//!
//! In: a cell. Out: one line of text, or a line per frame for a stack.
//! Guarantee: the text contains no control characters.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use profiler_model::output::{Cell, Header};
use profiler_model::statistics::Number;
use profiler_model::text::controls::is_harmless;
use profiler_model::text::write_value;
use profiler_model::units::Unit;
use profiler_model::value::{Symbols, Value};
use profiler_model::view::Quantity;

use super::ELLIPSIS;

/// Shown for a missing value.
const MISSING: &str = "-";

/// The lines of a cell, at least one: a stack has one per frame, the innermost first.
pub(super) fn cell_lines(cell: &Cell, header: &Header, symbols: &dyn Symbols) -> Vec<String> {
    match (cell, header.quantity) {
        (Cell::Missing, _) => vec![MISSING.to_owned()],
        (Cell::Value(value @ Value::Stack(_)), _) => {
            let frames = frames(value, symbols);
            if frames.is_empty() { vec![MISSING.to_owned()] } else { frames }
        }
        (Cell::Value(value), _) => vec![value_text(value, symbols)],
        (Cell::Number(number), quantity) => vec![number_text(*number, quantity.unwrap_or(Quantity::Of(Unit::None)))],
    }
}

/// The frames of a stack, the innermost first.
fn frames(stack: &Value, symbols: &dyn Symbols) -> Vec<String> {
    let mut text = Vec::new();
    write_value(stack, symbols, &mut text);
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).filter(|frame| !frame.is_empty()).map(printable).collect()
}

/// A number for people: in a unit that suits its magnitude.
pub(super) fn number_text(number: Number, quantity: Quantity) -> String {
    let in_unit = |unit: Unit| match (unit, number) {
        // Whole numbers without a unit are printed in full.
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

/// A rate without a unit: no decimals from 100 on, one or two below.
fn few_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A value on one line; a stack lists its frames from the innermost outward.
pub(super) fn value_text(value: &Value, symbols: &dyn Symbols) -> String {
    if let Value::Stack(_) = value {
        return frames(value, symbols).join(" < ");
    }
    let mut text = Vec::new();
    write_value(value, symbols, &mut text);
    printable(&String::from_utf8_lossy(&text))
}

/// Escapes what would leave the cell, or that a terminal interprets.
pub(super) fn printable(text: &str) -> String {
    let is_escaped = |c: char| c.is_control() || !is_harmless(c);
    if !text.contains(is_escaped) {
        return text.to_owned();
    }
    let shown = |c: char| if is_escaped(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Cuts a text to this width by omitting its middle.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    // The end of a path or a symbol tells as much as its start.
    let (front, back) = (room.div_ceil(2), room / 2);
    let head = taken(text.chars(), front);
    let tail: Vec<char> = taken(text.chars().rev(), back).chars().rev().collect();
    format!("{head}{ELLIPSIS}{}", tail.into_iter().collect::<String>())
}

/// The leading characters that fit the width.
fn taken(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    characters.take_while(fits).collect()
}
