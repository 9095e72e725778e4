//! What a view shows: maps as a table, its order, and when.
//!
//! In: made by `check` from `view "title" { … }`, or by hand. Out: read by the runtime, which fills it from the maps.
//! Guarantee: plain data; maps are named by their place among the script's.

use std::fmt;

use crate::statistics::Statistic;
use crate::types::Type;
use crate::units::Unit;
use crate::words::Aggregation;

/// How maps are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The line above it.
    pub title: String,
    /// The maps, by their place among the script's; all have the same kind of key. Rows are the keys of any, put together where
    /// the parts that are shown are alike.
    pub maps: Vec<usize>,
    /// The columns, from left to right.
    pub columns: Vec<Column>,
    /// What orders the rows; without it the key does.
    pub order: Option<Order>,
    /// How many rows.
    pub top: Option<Top>,
    /// When it is shown, besides at the end.
    pub every: Option<Every>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its header.
    pub header: String,
    /// What stands in it.
    pub source: Source,
}

/// What stands in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A part of the key; of a key that is no tuple, the whole.
    Key(usize),
    /// A number of a map's values.
    Measure {
        /// The map, by its place in [`View::maps`].
        map: usize,
        /// Which.
        measure: Measure,
    },
    /// A field of a map's records.
    Field {
        /// The map, by its place in [`View::maps`].
        map: usize,
        /// Which.
        field: usize,
        /// Whether it is a number, and then what it counts.
        number: Option<Unit>,
    },
}

impl Source {
    /// A field of a map's records, of this type; `unit` is what it counts when it is a number.
    pub fn field(map: usize, field: usize, ty: &Type, unit: Unit) -> Source {
        Source::Field { map, field, number: matches!(ty, Type::Int(_)).then_some(unit) }
    }

    /// Whether it is a number, which is shown on the right and sorted from the largest.
    pub fn is_number(&self) -> bool {
        match self {
            Source::Key(_) => false,
            Source::Measure { .. } => true,
            Source::Field { number, .. } => number.is_some(),
        }
    }
}

impl View {
    /// Whether a part of the key is shown.
    pub fn shows(&self, part: usize) -> bool {
        self.columns.iter().any(|column| column.source == Source::Key(part))
    }

    /// Whether it puts keys together: those of so many parts that are alike in all parts that it shows.
    pub fn groups(&self, parts: usize) -> bool {
        !(0..parts).all(|part| self.shows(part))
    }
}

/// What can be told of a key's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// The value itself.
    Value,
    /// A number that describes the values.
    Statistic(Statistic),
    /// How many a second, or where they are not counted, how much.
    Rate,
    /// The share of all keys' together: of the sums, or where they are not kept, of the counts.
    Share,
}

/// What orders rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// By what.
    pub by: Source,
    /// Smallest first.
    pub ascending: bool,
}

/// How many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Top {
    /// Most rows.
    pub rows: u32,
    /// Whether the others are put together in one more.
    pub rest: bool,
}

/// When a view is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every {
    /// The time between two.
    pub period_ns: u64,
    /// Whether the maps begin anew each time.
    pub clear: bool,
}

impl Measure {
    /// The words that name a measure, without those of percentiles.
    pub const NAMES: [&'static str; 8] = ["value", "count", "sum", "mean", "min", "max", "rate", "share"];

    /// The measure of a name: one of [`Measure::NAMES`], or `p99.9`.
    pub fn named(name: &str) -> Option<Measure> {
        Some(match name {
            "value" => Measure::Value,
            "rate" => Measure::Rate,
            "share" => Measure::Share,
            _ => Measure::Statistic(Statistic::named(name)?),
        })
    }

    /// Whether an aggregation tells it.
    pub fn is_told_by(self, word: &dyn Aggregation) -> bool {
        match self {
            Measure::Value => false,
            Measure::Statistic(statistic) => word.yields(statistic),
            Measure::Rate | Measure::Share => word.yields(Statistic::Count) || word.yields(Statistic::Sum),
        }
    }

    /// What a view shows of an aggregation when it does not say.
    pub fn usual(word: &dyn Aggregation) -> Vec<Measure> {
        let is_distribution = Statistic::named("p50").is_some_and(|median| word.yields(median));
        let names: &[&str] = if is_distribution {
            &["count", "mean", "p50", "p90", "p99", "max"]
        } else {
            &["count", "mean", "min", "max", "sum"]
        };
        names.iter().filter_map(|name| Measure::named(name)).filter(|measure| measure.is_told_by(word)).collect()
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Value => f.write_str("value"),
            Measure::Statistic(statistic) => statistic.fmt(f),
            Measure::Rate => f.write_str("rate"),
            Measure::Share => f.write_str("share"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_measures_stand_for_each_other() {
        for name in Measure::NAMES.into_iter().chain(["p50", "p99", "p99.9", "p99.999", "p0", "p100", "p12.5"]) {
            assert_eq!(Measure::named(name).map(|measure| measure.to_string()).as_deref(), Some(name));
        }
        for wrong in ["", "p", "p101", "p1000", "p99.9999", "px", "p9.x", "pid", "median"] {
            assert_eq!(Measure::named(wrong), None, "{wrong}");
        }
        assert_eq!(Measure::named("p99.90"), Measure::named("p99.9"));
    }
}
