//! Turns map contents into a table.
//!
//! In: a view, the bytes of its maps, the length of the window. Out: a [`Table`].
//! Guarantee: as for the parent module.

mod by_function;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use profiler_model::decode::{Lookup, decode};
use profiler_model::object::{MapValue, UserMap};
use profiler_model::output::{Cell, Header, Rest, SpanLedger, Table};
use profiler_model::statistics::{Number, Statistic};
use profiler_model::types::Type;
use profiler_model::units::Unit;
use profiler_model::value::{Symbols, Value};
use profiler_model::view::{Column, Measure, Quantity, Source, View};

use super::formula::Inputs;
use super::{Held, trust};
use crate::maps::{Contents, Entry, aggregation, merge_entries};

/// Names of what keys and values refer to.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub lookup: &'a dyn Lookup,
    pub symbols: &'a dyn Symbols,
}

/// Fills a view. `seconds` is the length of the window; `spans` has the accounting of the script's
/// spans.
pub fn fill(view: &View, held: &Held<'_>, seconds: f64, spans: &[SpanLedger], names: Names<'_>) -> Table {
    let lookup = names.lookup;
    let (without_rate, notes) = trust::broken(view, spans);
    let filling = Filling {
        view,
        held,
        seconds,
        lookup,
        symbols: names.symbols,
        spans,
        without_rate,
        totals: totals(held, lookup),
    };
    let withheld = trust::withheld(view, spans);
    if withheld.is_some() {
        return Table { title: view.title.clone(), headers: filling.headers(), withheld, ..Table::default() };
    }
    let mut rows = if view.by_function { filling.functions() } else { filling.rows() };
    if let Some(filter) = &view.filter {
        rows.retain(|row| {
            let cell = |source| filling.cell(row, source);
            filling.inputs(&cell, &|part| filling.one_or_count(row, part)).holds(filter)
        });
    }
    let order = view.order.map(|order| (order.by, order.ascending));
    if let Some((by, _)) = order {
        for row in &mut rows {
            row.rank = filling.cell(row, by);
        }
    }
    rows.sort_by(|a, b| compare(order.is_some_and(|(_, ascending)| ascending), a, b));
    let most = view.top.map_or(usize::MAX, |top| top.rows as usize);
    let others = rows.split_off(rows.len().min(most));
    let empty = view.empty.clone().filter(|_| rows.is_empty());
    let wants_rest = view.top.is_some_and(|top| top.rest) && !others.is_empty();
    Table {
        title: view.title.clone(),
        headers: filling.headers(),
        rows: rows
            .iter()
            .map(|row| view.columns.iter().map(|column| filling.cell(row, column.source)).collect())
            .collect(),
        rest: wants_rest.then(|| filling.rest(&others)),
        withheld: None,
        notes,
        flame: view.flame,
        empty,
    }
}

/// A key, or several keys that are equal in all visible parts, with the data of each map of the
/// view.
struct Row<'a> {
    /// The key; hidden parts are missing.
    key: Option<Value>,
    entries: Vec<Vec<&'a Entry>>,
    values: Vec<Option<Summarised>>,
    /// The cell by which the row is ordered.
    rank: Cell,
}

/// The value of a map in a row.
enum Summarised {
    Value(Value),
    /// The sum of several keys' integers; `None` if they cannot be added.
    Sum(Option<i128>),
}

struct Filling<'a> {
    view: &'a View,
    held: &'a Held<'a>,
    seconds: f64,
    lookup: &'a dyn Lookup,
    symbols: &'a dyn Symbols,
    spans: &'a [SpanLedger],
    /// Maps whose rates would mislead.
    without_rate: Vec<usize>,
    /// For each map, the total that [`Measure::Share`] divides by.
    totals: Vec<f64>,
}

/// The totals that shares divide by, one per map.
fn totals(held: &Held<'_>, lookup: &dyn Lookup) -> Vec<f64> {
    let total = |(map, contents): &(&UserMap, &Contents)| {
        let values = contents.entries.iter().map(|entry| summarise(map, contents, &[entry], lookup));
        values.filter_map(|value| measured(map, &value, amount(map, lookup))).map(Number::as_f64).sum()
    };
    held.iter().map(total).collect()
}

/// The statistic for shares and order: the sum, or the count if no sum is kept.
fn amount(map: &UserMap, lookup: &dyn Lookup) -> Statistic {
    match aggregation(map, lookup) {
        Some(word) if !word.yields(Statistic::Sum) => Statistic::Count,
        _ => Statistic::Sum,
    }
}

/// The statistic for rates: the count, or the sum if no count is kept.
fn rated(map: &UserMap, lookup: &dyn Lookup) -> Statistic {
    match aggregation(map, lookup) {
        Some(word) if word.yields(Statistic::Count) => Statistic::Count,
        _ => Statistic::Sum,
    }
}

fn measured(map: &UserMap, summarise: &Summarised, statistic: Statistic) -> Option<Number> {
    match (&map.value, summarise) {
        (_, Summarised::Sum(sum)) => sum.map(Number::Integer),
        (MapValue::Aggregate { .. }, Summarised::Value(value)) => value.statistic(&statistic),
        (MapValue::Plain(_), Summarised::Value(value)) => integer(value).map(Number::Integer),
    }
}

/// Widths of a normal distribution on each side of its mean that contain 95 % of it.
const CONFIDENCE: f64 = 1.96;

/// A share of a total, or the error that it has if the total is a number of independent samples.
fn share_or_error(measure: Measure, share: f64, total: f64) -> f64 {
    match measure {
        Measure::ShareError => CONFIDENCE * (share * (1.0 - share) / total).sqrt(),
        _ => share,
    }
}

/// A plain integer value as a number.
fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int(n) => Some(i128::from(*n)),
        Value::Uint(n) => Some(i128::from(*n)),
        _ => None,
    }
}

/// The value of several entries together: aggregations are merged like per-CPU copies, integers are
/// added.
fn summarise(map: &UserMap, contents: &Contents, entries: &[&Entry], lookup: &dyn Lookup) -> Summarised {
    match (&map.value, entries) {
        (MapValue::Aggregate { .. }, _) | (_, [_]) => {
            Summarised::Value(merge_entries(map, contents.is_paged, entries, lookup))
        }
        (MapValue::Plain(_), entries) => {
            let numbers = entries.iter().map(|entry| integer(&merge_entries(map, contents.is_paged, &[entry], lookup)));
            Summarised::Sum(numbers.sum())
        }
    }
}

impl<'a> Filling<'a> {
    /// The rows, unordered.
    fn rows(&self) -> Vec<Row<'a>> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        let parts = self.held.first().map_or(0, |(map, _)| key_parts(map));
        let groups = self.view.groups(parts);
        // If a key can occur twice, rows are looked up by its visible parts.
        let may_repeat = groups || self.held.len() > 1;
        let mut known: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (place, (map, contents)) in self.held.iter().enumerate() {
            for entry in &contents.entries {
                let key = map.key.as_ref().map(|ty| decode(ty, &entry.key, self.lookup));
                let key = if groups { key.map(|key| self.shown_of(key)) } else { key };
                let next = rows.len();
                let at = if may_repeat { *known.entry(identity(key.as_ref())).or_insert(next) } else { next };
                if at == next {
                    let entries = self.held.iter().map(|_| Vec::new()).collect();
                    rows.push(Row { key, entries, values: Vec::new(), rank: Cell::Missing });
                }
                rows[at].entries[place].push(entry);
            }
        }
        for row in &mut rows {
            row.values = self.values(&row.entries);
        }
        rows
    }

    /// A key without its hidden parts.
    fn shown_of(&self, key: Value) -> Value {
        let shown = |part: usize, value: Value| if self.view.shows(part) { value } else { Value::Missing };
        match key {
            Value::Tuple(parts) => {
                Value::Tuple(parts.into_iter().enumerate().map(|(part, value)| shown(part, value)).collect())
            }
            Value::Record(fields) => {
                let field = |(part, (name, value))| (name, shown(part, value));
                Value::Record(fields.into_iter().enumerate().map(field).collect())
            }
            whole => shown(0, whole),
        }
    }

    /// The values of each map for these entries together.
    fn values(&self, entries: &[Vec<&Entry>]) -> Vec<Option<Summarised>> {
        let of = |((map, contents), entries): (&(&UserMap, &Contents), &Vec<&Entry>)| {
            (!entries.is_empty()).then(|| summarise(map, contents, entries, self.lookup))
        };
        self.held.iter().zip(entries).map(of).collect()
    }

    fn unit(&self, place: usize) -> Unit {
        self.held.get(place).map_or(Unit::None, |(map, _)| map.unit)
    }

    fn headers(&self) -> Vec<Header> {
        self.view.columns.iter().map(|column| self.header(&column.header, column.source)).collect()
    }

    fn inputs<'b>(&'b self, cell: &'b dyn Fn(Source) -> Cell, one_or_count: &'b dyn Fn(usize) -> Cell) -> Inputs<'b> {
        Inputs { cell, one_or_count, spans: self.spans }
    }

    /// A part of the key if all keys of a row agree in it, otherwise the number of its values.
    fn one_or_count(&self, row: &Row<'_>, part: usize) -> Cell {
        let (mut first, mut values) = (None, BTreeSet::new());
        for ((map, _), entries) in self.held.iter().zip(&row.entries) {
            for entry in entries {
                let key = map.key.as_ref().map(|ty| decode(ty, &entry.key, self.lookup));
                values.insert(identity(key_part(key.as_ref(), part)));
                first = first.or(key);
            }
        }
        match (values.len(), key_part(first.as_ref(), part)) {
            (0 | 1, one) => one.cloned().map_or(Cell::Missing, Cell::Value),
            (count, _) => Cell::Value(Value::Str(format!("×{count}").into_bytes())),
        }
    }

    fn header(&self, name: &str, source: Source) -> Header {
        let quantity = match source {
            Source::Key(_) => None,
            Source::Measure { map, measure } => self.quantity(map, measure),
            Source::Field { number, .. } => number.map(Quantity::Of),
            Source::Computed { place, .. } => self.view.computed.get(place).and_then(|computed| computed.quantity),
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
            Measure::Rate => Quantity::PerSecond(of(rated(map, self.lookup))),
            Measure::Share | Measure::ShareError => Quantity::Share,
        })
    }

    fn cell(&self, row: &Row<'_>, source: Source) -> Cell {
        match source {
            Source::Key(part) => key_part(row.key.as_ref(), part).cloned().map_or(Cell::Missing, Cell::Value),
            Source::Measure { map, measure } => match row.values.get(map) {
                Some(Some(summarise)) => self.measure(map, measure, summarise),
                _ => Cell::Missing,
            },
            Source::Field { map, field, .. } => match row.values.get(map) {
                Some(Some(Summarised::Value(Value::Record(fields)))) => {
                    fields.get(field).map_or(Cell::Missing, |(_, value)| cell_of(value))
                }
                _ => Cell::Missing,
            },
            Source::Computed { place, .. } => self.view.computed.get(place).map_or(Cell::Missing, |computed| {
                let cell = |source| self.cell(row, source);
                self.inputs(&cell, &|part| self.one_or_count(row, part)).compute(&computed.formula)
            }),
        }
    }

    fn measure(&self, place: usize, measure: Measure, summarise: &Summarised) -> Cell {
        let Some((map, _)) = self.held.get(place) else { return Cell::Missing };
        let number = match measure {
            Measure::Value => match summarise {
                Summarised::Value(value) => return cell_of(value),
                // Several keys together have no single value.
                Summarised::Sum(_) => None,
            },
            Measure::Statistic(statistic) => measured(map, summarise, statistic),
            Measure::Rate if self.without_rate.contains(&place) => None,
            Measure::Rate => {
                let of_window = |number: Number| Number::Real(number.as_f64() / self.seconds);
                measured(map, summarise, rated(map, self.lookup)).filter(|_| self.seconds > 0.0).map(of_window)
            }
            Measure::Share | Measure::ShareError => {
                let total = self.totals.get(place).copied().unwrap_or(0.0);
                let share = measured(map, summarise, amount(map, self.lookup)).filter(|_| total != 0.0);
                share.map(|number| Number::Real(100.0 * share_or_error(measure, number.as_f64() / total, total)))
            }
        };
        number.map_or(Cell::Missing, Cell::Number)
    }

    /// Combines all rows that are not shown into one.
    fn rest(&self, others: &[Row<'_>]) -> Rest {
        let together = |place: usize| {
            // The entries of a view by function are in several rows.
            let mut seen = BTreeSet::new();
            let entries = others.iter().flat_map(|row| row.entries[place].iter().copied());
            entries.filter(|entry| !self.view.by_function || seen.insert(std::ptr::from_ref(*entry))).collect()
        };
        let entries: Vec<Vec<&Entry>> = (0..self.held.len()).map(together).collect();
        let row = Row { key: None, values: self.values(&entries), entries: Vec::new(), rank: Cell::Missing };
        let cell = |source: Source| match source {
            // Values other than sums belong to a single key.
            Source::Key(_) | Source::Field { .. } | Source::Measure { measure: Measure::Value, .. } => Cell::Missing,
            source => self.cell(&row, source),
        };
        let of_column =
            |column: &Column| match column.source {
                Source::Computed { place, .. } => self.view.computed.get(place).map_or(Cell::Missing, |computed| {
                    self.inputs(&cell, &|_| Cell::Missing).compute(&computed.formula)
                }),
                source => cell(source),
            };
        Rest { others: others.len(), cells: self.view.columns.iter().map(of_column).collect() }
    }
}

/// Missing values come last in either order; equal rows are ordered by key.
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

/// Converts a value to a cell.
fn cell_of(value: &Value) -> Cell {
    match value {
        Value::Int(n) => Cell::Number(Number::Integer(i128::from(*n))),
        Value::Uint(n) => Cell::Number(Number::Integer(i128::from(*n))),
        other => Cell::Value(other.clone()),
    }
}

/// How many parts a map's key has.
pub(super) fn key_parts(map: &UserMap) -> usize {
    match &map.key {
        None => 0,
        Some(Type::Tuple(parts)) => parts.len(),
        Some(Type::Record(parts)) => parts.len(),
        Some(_) => 1,
    }
}

/// Bytes that are equal for equal keys; numbers compare by value, whatever their width and sign in
/// the maps.
fn identity(key: Option<&Value>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(key) = key {
        write_identity(key, &mut bytes);
    }
    bytes
}

/// Appends the identity of a key or of a part of it.
pub fn write_identity(value: &Value, out: &mut Vec<u8>) {
    let mut tagged = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(&(bytes.len() as u64).to_ne_bytes());
        out.extend_from_slice(bytes);
    };
    match value {
        Value::Missing => tagged(b'-', &[]),
        Value::Int(n) => tagged(b'i', &i128::from(*n).to_ne_bytes()),
        Value::Uint(n) => tagged(b'i', &i128::from(*n).to_ne_bytes()),
        Value::Str(text) => tagged(b's', text),
        Value::Tuple(parts) | Value::Array(parts) => {
            tagged(b't', &[]);
            for part in parts {
                write_identity(part, out);
            }
        }
        Value::Record(fields) => {
            tagged(b't', &[]);
            for (_, value) in fields {
                write_identity(value, out);
            }
        }
        other => tagged(b'o', format!("{other:?}").as_bytes()),
    }
}

/// A part of a tuple or record; any other key has itself as its only part.
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
