//! Merges keys of several processes that print alike into one row.
//!
//! In: map contents, symbol names. Out: the same contents, with one entry for all aggregation
//! entries whose keys print alike.
//! Guarantee: no part of a value is lost. Keys that differ in anything but user-space addresses
//! stay apart, and so do plain values, which cannot be merged.
//!
//! In each process, the same function of a program has a different address, and so have the stacks.
//! What distinguishes such keys is not printed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use profiler_model::decode::{Lookup, decode};
use profiler_model::object::{MapValue, Object, UserMap};
use profiler_model::text::write_value;
use profiler_model::types::{Space, Type};
use profiler_model::value::{Symbols, Value};

use super::{Contents, Entry};
use crate::view::write_identity;

/// Whether keys of a map may print alike and can be merged.
pub fn may_merge(map: &UserMap) -> bool {
    matches!(map.value, MapValue::Aggregate { .. }) && map.key.as_ref().is_some_and(Type::has_user_addresses)
}

/// Merges entries of each map. Entries of several maps whose keys print alike get the same key, so
/// that views find them.
pub fn merge(object: &Object, contents: &mut BTreeMap<usize, Contents>, lookup: &dyn Lookup, symbols: &dyn Symbols) {
    let merged: Vec<usize> = contents.keys().copied().filter(|map| is_merged(object, *map)).collect();
    let decoded: Vec<Vec<Value>> =
        merged.iter().map(|map| keys_of(&object.maps[*map], &contents[map], lookup)).collect();
    let mut all = BTreeSet::new();
    decoded.iter().flatten().for_each(|key| add_processes(key, &mut all));
    // Within one process, different addresses print differently.
    if all.len() < 2 {
        return;
    }
    symbols.expect(&mut decoded.iter().flatten());
    let mut groups = Groups::default();
    let places: Vec<Vec<usize>> = merged
        .iter()
        .zip(decoded)
        .map(|(map, keys)| {
            let entries = contents[map].entries.iter().zip(keys);
            entries.map(|(entry, key)| groups.add(&entry.key, key, symbols)).collect()
        })
        .collect();
    for (map, places) in merged.iter().zip(places) {
        if let Some(contents) = contents.get_mut(map) {
            join(contents, &places, &groups.all);
        }
    }
}

/// Groups of keys that print alike.
#[derive(Default)]
struct Groups {
    all: Vec<Alike>,
    /// Indexed by 128 bits of two hashes with random seeds, because the printed keys may take much
    /// memory.
    known: HashMap<[u64; 2], usize>,
    hashers: [RandomState; 2],
}

impl Groups {
    /// Adds a key to its group. Returns the group's index.
    fn add(&mut self, bytes: &[u8], key: Value, symbols: &dyn Symbols) -> usize {
        let mut shown = Vec::new();
        write_identity(&printed(&key, symbols), &mut shown);
        let hash = [0, 1].map(|which: usize| self.hashers[which].hash_one(&shown));
        let at = *self.known.entry(hash).or_insert(self.all.len());
        let mut processes = BTreeSet::new();
        add_processes(&key, &mut processes);
        match self.all.get_mut(at) {
            None => self.all.push(Alike { key, bytes: bytes.to_vec(), processes }),
            Some(alike) => {
                alike.processes.append(&mut processes);
                if key.compare(&alike.key).is_lt() {
                    (alike.key, alike.bytes) = (key, bytes.to_vec());
                }
            }
        }
        at
    }
}

/// Keys that print alike.
struct Alike {
    /// The smallest of these keys.
    key: Value,
    bytes: Vec<u8>,
    /// The processes that the keys belong to.
    processes: BTreeSet<u32>,
}

/// Whether the keys of a map are merged. A view that shows it next to plain values finds both by
/// their keys, which must then not change.
fn is_merged(object: &Object, map: usize) -> bool {
    let together = object.views.iter().filter(|view| view.maps.contains(&map)).flat_map(|view| &view.maps);
    let mut all = together.copied().chain([map]);
    all.all(|map| object.maps.get(map).is_some_and(may_merge))
}

fn keys_of(map: &UserMap, contents: &Contents, lookup: &dyn Lookup) -> Vec<Value> {
    let key = |bytes: &[u8]| map.key.as_ref().map_or(Value::Missing, |ty| decode(ty, bytes, lookup));
    contents.entries.iter().map(|entry| key(&entry.key)).collect()
}

/// Joins the entries of a map that are in the same group.
fn join(contents: &mut Contents, places: &[usize], groups: &[Alike]) {
    let mut joined: BTreeMap<usize, Entry> = BTreeMap::new();
    for (mut entry, place) in contents.entries.drain(..).zip(places) {
        if let Some(first) = joined.get_mut(place) {
            first.pages.append(&mut entry.pages);
            continue;
        }
        if let Some(alike) = groups.get(*place) {
            entry.key.clone_from(&alike.bytes);
            entry.processes = alike.processes.iter().copied().collect();
        }
        joined.insert(*place, entry);
    }
    contents.entries = joined.into_values().collect();
}

/// Collects the processes whose addresses a key contains.
fn add_processes(key: &Value, processes: &mut BTreeSet<u32>) {
    match key {
        Value::Stack(stack) if stack.space == Space::User => drop(processes.insert(stack.pid)),
        Value::Symbol { space: Space::User, pid, .. } => drop(processes.insert(*pid)),
        Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| add_processes(part, processes)),
        Value::Record(fields) => fields.iter().for_each(|(_, part)| add_processes(part, processes)),
        _ => {}
    }
}

/// The key, with its user-space addresses replaced by their printed form.
fn printed(key: &Value, symbols: &dyn Symbols) -> Value {
    let all = |parts: &[Value]| parts.iter().map(|part| printed(part, symbols)).collect();
    let is_text = match key {
        Value::Stack(stack) => stack.space == Space::User,
        Value::Symbol { space, .. } => *space == Space::User,
        _ => false,
    };
    match key {
        _ if is_text => {
            let mut text = Vec::new();
            write_value(key, symbols, &mut text);
            Value::Str(text)
        }
        Value::Tuple(parts) => Value::Tuple(all(parts)),
        Value::Array(parts) => Value::Array(all(parts)),
        Value::Record(fields) => {
            Value::Record(fields.iter().map(|(name, part)| (name.clone(), printed(part, symbols))).collect())
        }
        other => other.clone(),
    }
}
