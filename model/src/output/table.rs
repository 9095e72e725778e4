//! A table of results.
//!
//! In: made by a view from the contents of its maps. Out: read by output formats.
//! Guarantee: all rows have one cell per column.

use crate::statistics::Number;
use crate::value::Value;
use crate::view::Quantity;

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The line above it.
    pub title: String,
    /// The columns.
    pub headers: Vec<Header>,
    /// The rows, in order.
    pub rows: Vec<Vec<Cell>>,
    /// The summary of the rows that are not shown, if the view asks for it and there are any.
    pub rest: Option<Rest>,
    /// Why there are no rows, if a condition withholds all of them.
    pub withheld: Option<String>,
    /// Notes about the numbers.
    pub notes: Vec<String>,
    /// The column with the widths, if the rows are shown to people as a picture of their stacks.
    pub flame: Option<usize>,
    /// What the view says about having no rows, if there are none. People read it instead of the
    /// table; if the text is empty, they read nothing.
    pub empty: Option<String>,
}

/// A column heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its text.
    pub name: String,
    /// The quantity of its numbers; `None` for parts of the key and for values that are not
    /// numbers.
    pub quantity: Option<Quantity>,
}

/// The summary of the rows that are not shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    /// The number of rows.
    pub others: usize,
    /// One cell per column; missing for parts of the key.
    pub cells: Vec<Cell>,
}

/// The content of a row in one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// The map does not have the key, or the number cannot be computed.
    Missing,
    /// A part of the key, or a value that is not a number.
    Value(Value),
    /// A number.
    Number(Number),
}

impl Header {
    /// Whether the column contains numbers and is aligned to the right.
    pub fn is_number(&self) -> bool {
        self.quantity.is_some()
    }

    /// The name for machines, which includes the unit of its numbers.
    pub fn machine_name(&self) -> String {
        let name = self.name.trim_start_matches('@');
        match self.quantity {
            // The name already is the unit, such as `bytes`.
            Some(Quantity::Of(unit)) if unit.name() == Some(name) => name.to_owned(),
            None => name.to_owned(),
            Some(Quantity::Of(unit)) => match unit.name() {
                None => name.to_owned(),
                Some(unit) => format!("{name}_{unit}"),
            },
            Some(Quantity::PerSecond(unit)) => match unit.name() {
                None => format!("{name}_per_s"),
                Some(unit) => format!("{name}_{unit}_per_s"),
            },
            Some(Quantity::Share) => format!("{name}_percent"),
        }
    }
}
