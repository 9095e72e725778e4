//! From what maps held to a table.
//!
//! In: a view, the bytes of its maps, the length of the window. Out: a [`Table`].
//! Guarantee: as for the parent.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use profiler_compiler::decode::{Lookup, decode};
use profiler_compiler::object::{MapValue, UserMap};
use profiler_compiler::statistics::{Number, Statistic};
use profiler_compiler::units::Unit;
use profiler_compiler::value::Value;
use profiler_compiler::view::{Measure, Source, View};

use super::Held;
use super::table::{Cell, Header, Quantity, Rest, Table};
use crate::maps::{Contents, Entry, merge_entries};

/// Fills a view. `seconds` is how long the maps were filled.
pub fn fill(view: &View, held: &Held<'_>, seconds: f64, lookup: &dyn Lookup) -> Table {
    let filling = Filling { view, held, seconds, lookup, totals: totals(held, lookup) };
    let mut rows = filling.rows();
    let order = view.order.map(|order| (order.by, order.ascending));
    if let Some((by, _)) = order {
        for row in &mut rows {
            row.rank = filling.cell(row, by);
        }
    }
    rows.sort_by(|a, b| compare(order.is_some_and(|(_, ascending)| ascending), a, b));
    let most = view.top.map_or(usize::MAX, |top| top.rows as usize);
    let others = rows.split_off(rows.len().min(most));
    let wants_rest = view.top.is_some_and(|top| top.rest) && !others.is_empty();
    Table {
        title: view.title.clone(),
        headers: view.columns.iter().map(|column| filling.header(&column.header, column.source)).collect(),
        rows: rows
            .iter()
            .map(|row| view.columns.iter().map(|column| filling.cell(row, column.source)).collect())
            .collect(),
        rest: wants_rest.then(|| filling.rest(&others)),
    }
}

/// A key with what each map of the view has for it.
struct Row<'a> {
    key: Option<Value>,
    entries: Vec<Option<&'a Entry>>,
    values: Vec<Option<Value>>,
    /// What orders it.
    rank: Cell,
}

struct Filling<'a> {
    view: &'a View,
    held: &'a Held<'a>,
    seconds: f64,
    lookup: &'a dyn Lookup,
    /// For each map, what its keys' measure of [`Measure::Share`] adds up to.
    totals: Vec<f64>,
}

/// What a share is one of, by map.
fn totals(held: &Held<'_>, lookup: &dyn Lookup) -> Vec<f64> {
    let total = |(map, contents): &(&UserMap, &Contents)| {
        let values = contents.entries.iter().map(|entry| value_of(map, contents, &[entry], lookup));
        values.filter_map(|value| measured(map, &value, amount(map))).map(Number::as_f64).sum()
    };
    held.iter().map(total).collect()
}

/// What the share and the order of a map's keys go by: their sums, or where those are not kept, their counts.
fn amount(map: &UserMap) -> Statistic {
    match &map.value {
        MapValue::Aggregate { word, .. } if !word.yields(Statistic::Sum) => Statistic::Count,
        _ => Statistic::Sum,
    }
}

/// What a rate is one of: counts, or where they are not kept, sums.
fn rated(map: &UserMap) -> Statistic {
    match &map.value {
        MapValue::Aggregate { word, .. } if word.yields(Statistic::Count) => Statistic::Count,
        _ => Statistic::Sum,
    }
}

fn measured(map: &UserMap, value: &Value, statistic: Statistic) -> Option<Number> {
    match (&map.value, value) {
        (MapValue::Aggregate { .. }, value) => value.statistic(&statistic),
        (MapValue::Plain(_), Value::Enum { number, .. }) => Some(Number::Integer(i128::from(*number))),
        (MapValue::Plain(_), value) => value.statistic(&Statistic::Sum),
    }
}

/// The value of several entries together: an aggregation's are merged like those of CPUs, integers are added up.
fn value_of(map: &UserMap, contents: &Contents, entries: &[&Entry], lookup: &dyn Lookup) -> Value {
    match (&map.value, entries) {
        (MapValue::Aggregate { .. }, _) | (_, [_]) => merge_entries(map, contents.is_paged, entries, lookup),
        (MapValue::Plain(_), entries) => {
            let values = entries.iter().map(|entry| value_of(map, contents, &[entry], lookup));
            let sum = values.map(|value| match value {
                Value::Int(n) => Some(n),
                Value::Uint(n) => Some(n as i64),
                _ => None,
            });
            sum.sum::<Option<i64>>().map_or(Value::Missing, Value::Int)
        }
    }
}

impl<'a> Filling<'a> {
    /// One row a key of any map.
    fn rows(&self) -> Vec<Row<'a>> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        // With several maps, rows are found by their keys.
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for (place, (map, contents)) in self.held.iter().enumerate() {
            for entry in &contents.entries {
                let key = map.key.as_ref().map(|ty| decode(ty, &entry.key, self.lookup));
                let value = value_of(map, contents, &[entry], self.lookup);
                let next = rows.len();
                let at = if self.held.len() == 1 { next } else { *known.entry(format!("{key:?}")).or_insert(next) };
                if at == next {
                    let nothing = || self.held.iter().map(|_| None);
                    let values = self.held.iter().map(|_| None).collect();
                    rows.push(Row { key, entries: nothing().collect(), values, rank: Cell::Missing });
                }
                rows[at].entries[place] = Some(entry);
                rows[at].values[place] = Some(value);
            }
        }
        rows
    }

    fn unit(&self, place: usize) -> Unit {
        self.held.get(place).map_or(Unit::None, |(map, _)| map.unit)
    }

    fn header(&self, name: &str, source: Source) -> Header {
        let quantity = match source {
            Source::Key(_) => None,
            Source::Measure { map, measure } => self.quantity(map, measure),
        };
        Header { name: name.to_owned(), quantity }
    }

    fn quantity(&self, place: usize, measure: Measure) -> Option<Quantity> {
        let (map, _) = self.held.get(place)?;
        let of = |statistic: Statistic| if statistic.has_unit() { self.unit(place) } else { Unit::None };
        Some(match measure {
            Measure::Value => match &map.value {
                MapValue::Plain(ty) if ty.as_int().is_some() => Quantity::Of(self.unit(place)),
                _ => return None,
            },
            Measure::Statistic(statistic) => Quantity::Of(of(statistic)),
            Measure::Rate => Quantity::PerSecond(of(rated(map))),
            Measure::Share => Quantity::Share,
        })
    }

    fn cell(&self, row: &Row<'_>, source: Source) -> Cell {
        match source {
            Source::Key(part) => key_part(row.key.as_ref(), part).cloned().map_or(Cell::Missing, Cell::Value),
            Source::Measure { map, measure } => match row.values.get(map) {
                Some(Some(value)) => self.measure(map, measure, value),
                _ => Cell::Missing,
            },
        }
    }

    fn measure(&self, place: usize, measure: Measure, value: &Value) -> Cell {
        let Some((map, _)) = self.held.get(place) else { return Cell::Missing };
        let number = match measure {
            Measure::Value => match value {
                Value::Int(n) => Some(Number::Integer(i128::from(*n))),
                Value::Uint(n) => Some(Number::Integer(i128::from(*n))),
                other => return Cell::Value(other.clone()),
            },
            Measure::Statistic(statistic) => measured(map, value, statistic),
            Measure::Rate => {
                let of_window = |number: Number| Number::Real(number.as_f64() / self.seconds);
                measured(map, value, rated(map)).filter(|_| self.seconds > 0.0).map(of_window)
            }
            Measure::Share => {
                let total = self.totals.get(place).copied().unwrap_or(0.0);
                let of_total = |number: Number| Number::Real(number.as_f64() * 100.0 / total);
                measured(map, value, amount(map)).filter(|_| total != 0.0).map(of_total)
            }
        };
        number.map_or(Cell::Missing, Cell::Number)
    }

    /// All rows that are not shown as one.
    fn rest(&self, others: &[Row<'_>]) -> Rest {
        let together = |place: usize| {
            let entries: Vec<&Entry> = others.iter().filter_map(|row| row.entries[place]).collect();
            (!entries.is_empty()).then(|| value_of(self.held[place].0, self.held[place].1, &entries, self.lookup))
        };
        let values = (0..self.held.len()).map(together).collect();
        let row = Row { key: None, entries: Vec::new(), values, rank: Cell::Missing };
        let cell = |source: Source| match source {
            Source::Key(_) => Cell::Missing,
            // Values that are no sums are one key's each.
            Source::Measure { measure: Measure::Value, .. } => Cell::Missing,
            source @ Source::Measure { .. } => self.cell(&row, source),
        };
        Rest { others: others.len(), cells: self.view.columns.iter().map(|column| cell(column.source)).collect() }
    }
}

/// What is missing comes last in either order; equal rows are in the order of their keys.
fn compare(ascending: bool, a: &Row<'_>, b: &Row<'_>) -> Ordering {
    let by_rank = match (&a.rank, &b.rank) {
        (Cell::Missing, Cell::Missing) => Ordering::Equal,
        (Cell::Missing, _) => Ordering::Greater,
        (_, Cell::Missing) => Ordering::Less,
        (a, b) if ascending => compare_cells(a, b),
        (a, b) => compare_cells(b, a),
    };
    by_rank.then_with(|| match (&a.key, &b.key) {
        (Some(a), Some(b)) => a.compare(b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    })
}

fn compare_cells(a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Number(a), Cell::Number(b)) => a.compare(*b),
        (Cell::Value(a), Cell::Value(b)) => a.compare(b),
        _ => Ordering::Equal,
    }
}

/// A part of a tuple or record; another key is its only part.
fn key_part(key: Option<&Value>, part: usize) -> Option<&Value> {
    match key? {
        Value::Tuple(parts) => parts.get(part),
        Value::Record(fields) => fields.get(part).map(|(_, value)| value),
        whole => (part == 0).then_some(whole),
    }
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
