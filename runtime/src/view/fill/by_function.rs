//! The rows of a view by function.
//!
//! In: the contents of its map, the names of addresses. Out: a row for each function.
//! Guarantee: each key is the innermost one of exactly one row.

use std::collections::BTreeMap;

use profiler_model::decode::decode;
use profiler_model::output::Cell;
use profiler_model::value::Value;

use super::super::functions::{Function, functions};
use super::{Filling, Row, identity};
use crate::maps::Entry;

impl<'a> Filling<'a> {
    /// The rows of a view by function, unordered. A key is in the row of each of its functions
    /// once.
    pub(super) fn functions(&self) -> Vec<Row<'a>> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        let Some((map, contents)) = self.held.first() else { return rows };
        let key = |entry: &Entry| map.key.as_ref().map_or(Value::Missing, |ty| decode(ty, &entry.key, self.lookup));
        let keys: Vec<Value> = contents.entries.iter().map(key).collect();
        self.symbols.expect(&mut keys.iter());
        let mut known: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (entry, key) in contents.entries.iter().zip(&keys) {
            for (depth, function) in functions(key, self.symbols).into_iter().enumerate() {
                let key = self.shown_of(with_function(key, function));
                let next = rows.len();
                let at = *known.entry(identity(Some(&key))).or_insert(next);
                if at == next {
                    let entries = self.held.iter().map(|_| Vec::new()).collect();
                    rows.push(Row { key: Some(key), entries, values: Vec::new(), rank: Cell::Missing });
                }
                for of_map in rows[at].entries.iter_mut().take(if depth == 0 { 2 } else { 1 }) {
                    // The entries of a key are added one after the other.
                    if of_map.last().is_none_or(|last| !std::ptr::eq(*last, entry)) {
                        of_map.push(entry);
                    }
                }
            }
        }
        for row in &mut rows {
            row.values = self.values(&row.entries);
        }
        rows
    }
}

/// A key with two more parts, the name and the module of a function. The stacks are left out: they
/// are many times as long.
fn with_function(key: &Value, function: Function) -> Value {
    let without_stack = |part: &Value| if matches!(part, Value::Stack(_)) { Value::Missing } else { part.clone() };
    let mut parts: Vec<Value> = match key {
        Value::Tuple(parts) => parts.iter().map(without_stack).collect(),
        Value::Record(fields) => fields.iter().map(|(_, part)| without_stack(part)).collect(),
        whole => vec![without_stack(whole)],
    };
    parts.extend([function.name, function.module].map(|text| Value::Str(text.into_bytes())));
    Value::Tuple(parts)
}

#[cfg(test)]
#[path = "by_function_tests.rs"]
mod tests;
