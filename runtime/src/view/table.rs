//! A table of results.
//!
//! In: made by [`super::fill`]. Out: read by the renderers.
//! Guarantee: all rows have one cell a column.

use profiler_compiler::statistics::Number;
use profiler_compiler::units::Unit;
use profiler_compiler::value::Value;

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The line above it.
    pub title: String,
    /// The columns.
    pub headers: Vec<Header>,
    /// The rows, in order.
    pub rows: Vec<Vec<Cell>>,
    /// What the rows that are not shown come to, when the view asks for it and there are any.
    pub rest: Option<Rest>,
}

/// A column's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// What stands there.
    pub name: String,
    /// What its numbers are; `None` for a part of the key.
    pub quantity: Option<Quantity>,
}

/// What a column's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A value, or a number of the values' unit.
    Of(Unit),
    /// A number of them a second.
    PerSecond(Unit),
    /// A share in percent.
    Share,
}

/// The rows that are not shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    /// How many they are.
    pub others: usize,
    /// One cell a column; nothing for parts of the key.
    pub cells: Vec<Cell>,
}

/// What stands in a row and a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing: the map does not have the key, or the number cannot be told.
    Missing,
    /// A part of the key, or a value that is no number.
    Value(Value),
    /// A number.
    Number(Number),
}

impl Header {
    /// Whether numbers stand below it, to be aligned to the right.
    pub fn is_number(&self) -> bool {
        self.quantity.is_some()
    }

    /// Its name for machines, with the unit that its numbers are in.
    pub fn machine_name(&self) -> String {
        let name = self.name.trim_start_matches('@');
        match self.quantity {
            // A column `bytes` of bytes says it.
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
