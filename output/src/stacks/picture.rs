//! Results of a run as pictures of text in their place: views with `flame`, and `flame(@x)`.
//!
//! In: tables whose rows have a stack and a width, or maps with stacks in their keys. Out: lines.
//! Guarantee: the widths are those of the rows, the one for all others included.

use unicode_width::UnicodeWidthStr as _;

use profiler_model::output::{Cell, MapSnapshot, Table};
use profiler_model::statistics::Number;
use profiler_model::text::controls::escaped;
use profiler_model::units::Unit;
use profiler_model::value::{Symbols, Value};
use profiler_model::view::Quantity;

use super::icicle::{self, Look};
use super::samples::Samples;
use super::{Folded, fold};
use crate::table::{Layout, Line};

/// Width of a picture that does not go to a terminal.
const FILE_COLUMNS: usize = 120;

/// A view with its title, if it is a picture and has something to draw.
pub(crate) fn of_view(table: &Table, title: &str, layout: Layout, symbols: &dyn Symbols) -> Option<Vec<Line>> {
    let column = table.flame?;
    let unit = match table.headers.get(column)?.quantity {
        Some(Quantity::Of(unit)) => unit,
        _ => Unit::None,
    };
    let rows = table.rows.iter().filter_map(|row| Some((Some(key(row)), Value::Uint(width(row, column)?))));
    let entries = rows.collect();
    let mut folded = folded(
        &MapSnapshot { name: String::new(), keyed: true, aggregation: None, entries, processes: Vec::new() },
        unit,
        symbols,
    );
    if let Some((rest, width)) = table.rest.as_ref().and_then(|rest| Some((rest, width(&rest.cells, column)?))) {
        folded.add(format!("[{} others]", rest.others), width);
    }
    folded.notes.clone_from(&table.notes);
    (!folded.is_empty()).then(|| lines(&folded, title, layout))
}

/// A map under its name, if it has something to draw.
pub(crate) fn of_map(map: &MapSnapshot, unit: Unit, layout: Layout, symbols: &dyn Symbols) -> Option<Vec<Line>> {
    let folded = folded(map, unit, symbols);
    (!folded.is_empty()).then(|| lines(&folded, &map.name, layout))
}

fn folded(map: &MapSnapshot, unit: Unit, symbols: &dyn Symbols) -> Folded {
    let mut samples = Samples::default();
    samples.add(map, unit, None, symbols);
    fold::fold(&samples)
}

/// The values of a row that are no numbers.
fn key(row: &[Cell]) -> Value {
    let values = row.iter().filter_map(|cell| match cell {
        Cell::Value(value) => Some(value.clone()),
        Cell::Number(_) | Cell::Missing => None,
    });
    Value::Tuple(values.collect())
}

fn width(row: &[Cell], column: usize) -> Option<u64> {
    match row.get(column)? {
        Cell::Number(Number::Integer(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn lines(folded: &Folded, title: &str, layout: Layout) -> Vec<Line> {
    let look = Look { columns: layout.width.unwrap_or(FILE_COLUMNS), has_colour: layout.colour };
    // The title and the notes are lines too.
    let most = layout.height.map_or(usize::MAX, |height| height.saturating_sub(1 + folded.notes.len()).max(1));
    let lines = icicle::lines(folded, &escaped(title), look, most);
    let width = |text: &str| if look.has_colour { look.columns.min(text.width()) } else { text.width() };
    lines.into_iter().map(|text| Line { width: width(&text), text }).collect()
}
