//! The description of a view: which maps it displays as a table, in which order, and when.
//!
//! In: made by `check` from `view "title" { … }`, or constructed directly. Out: read by the
//! runtime, which fills it from the maps.
//! Guarantee: plain data; maps are given by index.

mod formula;

pub use formula::{Computed, Fed, Formula, LedgerCount, Naming, OR_COUNT, Quantity, Requirement};

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::results::Merge;
use crate::statistics::Statistic;
use crate::types::Type;
use crate::units::Unit;

/// How maps are displayed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The title, printed above it.
    pub title: String,
    /// The maps, by index in the object; all have the same key type. The rows are the keys of all
    /// maps, merged if they are equal in all displayed parts.
    pub maps: Vec<usize>,
    /// Whether the rows are the functions of the stacks in the keys. Then `maps` has one map twice:
    /// first for all values whose stack contains a function, then for those in which it is the
    /// innermost one. The key has two more parts, the function's name and its module.
    pub by_function: bool,
    /// The columns, from left to right.
    pub columns: Vec<Column>,
    /// Computed columns, for [`Source::Computed`].
    pub computed: Vec<Computed>,
    /// The condition for a row to be shown.
    pub filter: Option<Formula>,
    /// Conditions for any row to be shown.
    pub requires: Vec<Requirement>,
    /// The maps that are filled by spans.
    pub fed: Vec<Fed>,
    /// The sort order; by key if `None`.
    pub order: Option<Order>,
    /// The maximum number of rows.
    pub top: Option<Top>,
    /// The interval at which it is shown, in addition to the end of the run.
    pub every: Option<Every>,
    /// The column with the widths, if the rows are shown to people as a picture of their stacks.
    pub flame: Option<usize>,
    /// What people read instead of a table without rows; nothing if it is empty.
    pub empty: Option<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub header: String,
    /// The source of its values.
    pub source: Source,
}

/// The source of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A part of the key; index 0 is the whole key if it is not a tuple.
    Key(usize),
    /// A measure of a map's values.
    Measure {
        /// The map, as an index into [`View::maps`].
        map: usize,
        measure: Measure,
    },
    /// A field of a map's records.
    Field {
        /// The map, as an index into [`View::maps`].
        map: usize,
        /// The index of the field.
        field: usize,
        /// The unit if the field is a number, otherwise `None`.
        number: Option<Unit>,
    },
    /// A computed column.
    Computed {
        /// The index in [`View::computed`].
        place: usize,
        /// Whether its values are numbers.
        is_number: bool,
    },
}

impl Source {
    /// A field of a map's records, with this type; `unit` is used if it is a number.
    pub fn field(map: usize, field: usize, ty: &Type, unit: Unit) -> Source {
        Source::Field { map, field, number: matches!(ty, Type::Int(_)).then_some(unit) }
    }

    /// Whether it is a number; numbers are right-aligned and sorted in descending order.
    pub fn is_number(&self) -> bool {
        match self {
            Source::Key(_) => false,
            Source::Measure { .. } => true,
            Source::Field { number, .. } => number.is_some(),
            Source::Computed { is_number, .. } => *is_number,
        }
    }
}

impl View {
    /// Whether a part of the key is shown, directly or in a computed column.
    pub fn shows(&self, part: usize) -> bool {
        self.columns.iter().flat_map(|column| self.sources(column.source)).any(|source| source == Source::Key(part))
    }

    /// The columns that a column is computed from, or the column itself.
    pub fn sources(&self, source: Source) -> Vec<Source> {
        match source {
            Source::Computed { place, .. } => {
                self.computed.get(place).map_or(Vec::new(), |computed| computed.formula.sources())
            }
            plain => vec![plain],
        }
    }

    /// Whether it merges keys of `parts` parts that are equal in all displayed parts.
    pub fn groups(&self, parts: usize) -> bool {
        !(0..parts).all(|part| self.shows(part))
    }
}

/// What can be measured of a key's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Measure {
    /// The value itself.
    Value,
    /// A statistic of the values.
    Statistic(Statistic),
    /// Count per second; if the values are not counted, the sum per second.
    Rate,
    /// The share of the total over all keys: of the sums, or of the counts if there are no sums.
    Share,
    /// The error of the share if the counts are those of random samples: half of the 95 %
    /// confidence interval.
    ShareError,
}

/// The sort order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The column to sort by.
    pub by: Source,
    /// Whether to sort in ascending order.
    pub ascending: bool,
}

/// The maximum number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// Maximum number of rows.
    pub rows: u32,
    /// Whether the remaining rows are merged into one more row.
    pub rest: bool,
}

/// When a view is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Every {
    /// The interval in nanoseconds.
    pub period_ns: u64,
    /// Whether the maps are cleared each time.
    pub clear: bool,
}

impl Measure {
    /// The names of the measures, except percentiles.
    pub const NAMES: [&'static str; 9] =
        ["value", "count", "sum", "mean", "min", "max", "rate", "share", "share_error"];

    /// The measure with this name: one of [`Measure::NAMES`], or `p99.9`.
    pub fn named(name: &str) -> Option<Measure> {
        Some(match name {
            "value" => Measure::Value,
            "rate" => Measure::Rate,
            "share" => Measure::Share,
            "share_error" => Measure::ShareError,
            _ => Measure::Statistic(Statistic::named(name)?),
        })
    }

    /// Whether an aggregation can provide it.
    pub fn is_provided_by(self, word: &dyn Merge) -> bool {
        match self {
            Measure::Value => false,
            Measure::Statistic(statistic) => word.yields(statistic),
            Measure::Rate | Measure::Share => word.yields(Statistic::Count) || word.yields(Statistic::Sum),
            // Sums of samples have another error.
            Measure::ShareError => word.yields(Statistic::Count) && !word.yields(Statistic::Sum),
        }
    }

    /// The default measures of an aggregation.
    pub fn usual(word: &dyn Merge) -> Vec<Measure> {
        let is_distribution = Statistic::named("p50").is_some_and(|median| word.yields(median));
        let names: &[&str] = if is_distribution {
            &["count", "mean", "p50", "p90", "p99", "max"]
        } else {
            &["count", "mean", "min", "max", "sum"]
        };
        names.iter().filter_map(|name| Measure::named(name)).filter(|measure| measure.is_provided_by(word)).collect()
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Value => f.write_str("value"),
            Measure::Statistic(statistic) => statistic.fmt(f),
            Measure::Rate => f.write_str("rate"),
            Measure::Share => f.write_str("share"),
            Measure::ShareError => f.write_str("share_error"),
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
