//! Reads, clears and zeroes the script's maps.
//!
//! In: a [`UserMap`] and the loaded object. Out: a [`MapSnapshot`] of values.
//! Guarantee: every entry that is in a map during the whole read is read exactly once, whatever the
//! kernel's batch calls return.

pub mod alike;
pub mod handover;
mod pages;
mod walk;

use std::collections::BTreeMap;
use std::io;

use profiler_model::decode::{Lookup, decode};
use profiler_model::object::{MapValue, Storage, UserMap};
use profiler_model::output::MapSnapshot;
use profiler_model::results::Merge;
use profiler_model::value::Value;

use crate::load::Loaded;
use crate::sys::map::{Map, Take};
use crate::threads;
use walk::each_entry;

/// A map entry as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The script's key; empty for a scalar.
    pub key: Vec<u8>,
    /// The value: several pages if the map stores values in pages, otherwise one.
    pub pages: Vec<Page>,
    /// The processes whose keys were merged into this one because they print alike.
    pub processes: Vec<u32>,
}

impl Entry {
    /// An entry that was not merged from others.
    pub fn of(key: Vec<u8>, pages: Vec<Page>) -> Entry {
        Entry { key, pages, processes: Vec::new() }
    }
}

/// The bytes of a value, or of one page of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The page's number; 0 if values are not paged.
    pub number: u64,
    /// One copy, or one per CPU.
    pub copies: Vec<Vec<u8>>,
}

/// The contents of a map as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// In no particular order.
    pub entries: Vec<Entry>,
    /// Whether values are stored in pages.
    pub is_paged: bool,
}

impl Contents {
    /// The contents of two buffers of a map together.
    #[must_use]
    pub fn join(mut self, other: &Contents) -> Contents {
        let of_key: BTreeMap<Vec<u8>, usize> =
            self.entries.iter().enumerate().map(|(index, entry)| (entry.key.clone(), index)).collect();
        for entry in &other.entries {
            match of_key.get(&entry.key) {
                Some(index) => self.entries[*index].pages.extend(entry.pages.iter().cloned()),
                None => self.entries.push(entry.clone()),
            }
        }
        self.is_paged |= other.is_paged;
        self
    }
}

/// The current contents of a map: those of the buffer that this generation selects, or of both
/// buffers if the map keeps both. [`Take::Remove`] also removes them.
pub fn contents(map: &UserMap, generation: u64, loaded: &Loaded, take: Take) -> io::Result<Contents> {
    let contents = of_place(map, map.place(generation), loaded, take)?;
    match &map.alternate {
        Some(alternate) if alternate.keeps => {
            let other = map.place(generation ^ 1 << alternate.bit);
            Ok(contents.join(&of_place(map, other, loaded, take)?))
        }
        _ => Ok(contents),
    }
}

/// The contents of a map that no view or handler has taken yet: those of both buffers if the map
/// has two.
pub fn not_taken(map: &UserMap, generation: u64, loaded: &Loaded) -> io::Result<Contents> {
    let contents = of_place(map, map.place(generation), loaded, Take::Copy)?;
    let Some(alternate) = &map.alternate else { return Ok(contents) };
    let other = map.place(generation ^ 1 << alternate.bit);
    Ok(contents.join(&of_place(map, other, loaded, Take::Copy)?))
}

/// The current contents of one buffer of a map. [`Take::Remove`] also removes them.
pub fn of_place(map: &UserMap, place: &Storage, loaded: &Loaded, take: Take) -> io::Result<Contents> {
    let mut contents = Contents::default();
    match place {
        Storage::Global { .. } => {
            let copies = read_global(place, loaded)?;
            if !copies.is_empty() {
                contents.entries.push(Entry::of(Vec::new(), vec![Page { number: 0, copies }]));
            }
            if take == Take::Remove {
                clear_place(place, loaded)?;
            }
        }
        Storage::Threads(values) => {
            let entry = |(thread, value): (u32, Vec<u8>)| {
                Entry::of(thread.to_ne_bytes().to_vec(), vec![Page { number: 0, copies: vec![value] }])
            };
            contents.entries = threads::values(values, loaded)?.into_iter().map(entry).collect();
        }
        Storage::Map { length_offset, .. } => {
            let owned = |value: &[u8]| copies(place, value).into_iter().map(<[u8]>::to_vec).collect();
            let elements = find(place, loaded)?;
            contents.is_paged = map.value.pages().is_some();
            if contents.is_paged {
                let mut found = pages::Found::default();
                each_entry(&elements, take, &mut |key, value| found.add(key, value))?;
                let page = |(number, value): (u64, Vec<u8>)| Page { number, copies: owned(&value) };
                let entry = |(key, pages): (_, Vec<_>)| Entry::of(key, pages.into_iter().map(page).collect());
                contents.entries = found.into_pages().map(entry).collect();
            } else {
                each_entry(&elements, take, &mut |key, value| {
                    let page = Page { number: 0, copies: owned(value) };
                    contents.entries.push(Entry::of(key.to_vec(), vec![page]));
                })?;
            }
            if let (Take::Remove, Some(offset)) = (take, length_offset) {
                loaded.globals().set_bss_u64(*offset, 0);
            }
        }
    }
    Ok(contents)
}

/// Merges several entries of a map with an aggregation into one value.
pub fn merge_entries(map: &UserMap, is_paged: bool, entries: &[&Entry], lookup: &dyn Lookup) -> Value {
    let pages = entries.iter().flat_map(|entry| &entry.pages);
    if is_paged {
        let pages: Vec<(u64, Vec<&[u8]>)> =
            pages.map(|page| (page.number, page.copies.iter().map(Vec::as_slice).collect())).collect();
        return pages::merged(map, &pages, lookup);
    }
    let copies: Vec<&[u8]> = pages.flat_map(|page| &page.copies).map(Vec::as_slice).collect();
    merge(map, &copies, lookup)
}

/// One entry of saved map contents.
pub fn entry_of(map: &UserMap, contents: &Contents, key: &[u8], lookup: &dyn Lookup) -> MapSnapshot {
    // A string key is sent with its actual length, and any key with the padding of its record.
    let is_it = |entry: &&Entry| {
        let (long, short) =
            if entry.key.len() > key.len() { (entry.key.as_slice(), key) } else { (key, entry.key.as_slice()) };
        long.starts_with(short) && long[short.len()..].iter().all(|byte| *byte == 0)
    };
    let entries = contents.entries.iter().filter(is_it).cloned().collect();
    snapshot_of(map, &Contents { entries, is_paged: contents.is_paged }, lookup)
}

/// Decodes saved map contents.
pub fn snapshot_of(map: &UserMap, contents: &Contents, lookup: &dyn Lookup) -> MapSnapshot {
    let mut snapshot = empty(map, lookup);
    for entry in &contents.entries {
        let key = map.key.as_ref().map(|ty| decode(ty, &entry.key, lookup));
        snapshot.entries.push((key, merge_entries(map, contents.is_paged, &[entry], lookup)));
        snapshot.processes.push(entry.processes.clone());
    }
    snapshot
}

/// The current contents of a map, from the buffer that this generation selects.
pub fn snapshot(map: &UserMap, generation: u64, loaded: &Loaded, lookup: &dyn Lookup) -> io::Result<MapSnapshot> {
    if map.is_both_places() {
        return Ok(snapshot_of(map, &contents(map, generation, loaded, Take::Copy)?, lookup));
    }
    let mut snapshot = empty(map, lookup);
    let place = map.place(generation);
    match place {
        Storage::Global { .. } => {
            let copies = read_global(place, loaded)?;
            let values: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
            if !values.is_empty() {
                snapshot.entries.push((None, merge(map, &values, lookup)));
            }
        }
        Storage::Map { .. } => {
            let elements = find(place, loaded)?;
            if map.value.pages().is_some() {
                let mut found = pages::Found::default();
                each_entry(&elements, Take::Copy, &mut |key, value| found.add(key, value))?;
                snapshot.entries = found.entries(map, lookup);
                return Ok(snapshot);
            }
            each_entry(&elements, Take::Copy, &mut |key, value| {
                snapshot.entries.push(entry(map, key, value, lookup));
            })?;
        }
        Storage::Threads(values) => {
            for (thread, value) in threads::values(values, loaded)? {
                snapshot.entries.push(thread_entry(map, thread, &value, lookup));
            }
        }
    }
    Ok(snapshot)
}

/// As `snapshot`, but a scalar that was never written is the zero of its type. A histogram
/// without values stays empty.
pub fn snapshot_or_zero(
    map: &UserMap,
    generation: u64,
    loaded: &Loaded,
    lookup: &dyn Lookup,
) -> io::Result<MapSnapshot> {
    let snapshot = snapshot(map, generation, loaded, lookup)?;
    Ok(or_zero(map, snapshot, lookup))
}

/// Replaces an empty snapshot of a scalar that was never written by the zero of its type.
pub fn or_zero(map: &UserMap, snapshot: MapSnapshot, lookup: &dyn Lookup) -> MapSnapshot {
    if snapshot.entries.is_empty() { empty_or_zero(map, lookup) } else { snapshot }
}

/// A map before anything was written: empty, or the zero of a scalar's type.
pub fn empty_or_zero(map: &UserMap, lookup: &dyn Lookup) -> MapSnapshot {
    let mut snapshot = empty(map, lookup);
    if let Storage::Global { value_size_bytes, .. } = &map.storage {
        let zero = merge(map, &[&vec![0u8; *value_size_bytes as usize]], lookup);
        if !matches!(zero, Value::Histogram(_) | Value::Series(_) | Value::Missing) {
            snapshot.entries.push((None, zero));
        }
    }
    snapshot
}

/// One map entry by the bytes of its key; no entries if the map lacks the key.
pub fn snapshot_entry(
    map: &UserMap,
    generation: u64,
    key: &[u8],
    loaded: &Loaded,
    lookup: &dyn Lookup,
) -> io::Result<MapSnapshot> {
    if map.is_both_places() {
        let contents = contents(map, generation, loaded, Take::Copy)?;
        return Ok(entry_of(map, &contents, key, lookup));
    }
    let mut snapshot = empty(map, lookup);
    if let Storage::Threads(values) = map.place(generation) {
        let all = threads::values(values, loaded)?;
        let one = all.iter().find(|(thread, _)| key.starts_with(&thread.to_ne_bytes()));
        snapshot.entries.extend(one.map(|(thread, value)| thread_entry(map, *thread, value, lookup)));
        return Ok(snapshot);
    }
    let place = map.place(generation);
    let elements = find(place, loaded)?;
    if let Some(pages) = map.value.pages() {
        snapshot.entries = pages::of_key(map, pages, key, &elements)?.entries(map, lookup);
        return Ok(snapshot);
    }
    // A string key is sent with its actual length, and any key with the padding of its record.
    let mut key = key.to_vec();
    key.resize(elements.key_size_bytes(), 0);
    if let Some(value) = elements.lookup(&key)? {
        snapshot.entries.push(entry(map, &key, &value, lookup));
    }
    Ok(snapshot)
}

/// Removes all entries.
pub fn clear(map: &UserMap, generation: u64, loaded: &Loaded) -> io::Result<()> {
    if let Some(alternate) = map.alternate.as_ref().filter(|alternate| alternate.keeps) {
        clear_place(map.place(generation ^ 1 << alternate.bit), loaded)?;
    }
    clear_place(map.place(generation), loaded)
}

fn clear_place(place: &Storage, loaded: &Loaded) -> io::Result<()> {
    match place {
        Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } => {
            for copy in 0..*copies {
                loaded.globals().zero_bss(offset_bytes + copy * stride_bytes, FLAG_BYTES + value_size_bytes);
            }
            Ok(())
        }
        Storage::Map { length_offset, .. } => {
            let mut removed = 0u64;
            each_entry(&find(place, loaded)?, Take::Remove, &mut |_, _| removed += 1)?;
            // Programs may have added and counted other entries meanwhile.
            if let Some(offset) = length_offset {
                loaded.globals().add_bss_u64(*offset, removed.wrapping_neg());
            }
            Ok(())
        }
        Storage::Threads(values) => threads::clear(values, loaded),
    }
}

/// Visits every entry of a map that the object has but the script does not declare.
pub fn each_of(map: &Map<'_>, mut visit: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    each_entry(map, Take::Copy, &mut visit)
}

/// Sets all values to zero and keeps the keys.
pub fn zero(map: &UserMap, generation: u64, loaded: &Loaded) -> io::Result<()> {
    let place = map.place(generation);
    match place {
        Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } => {
            for copy in 0..*copies {
                loaded.globals().zero_bss(offset_bytes + copy * stride_bytes + FLAG_BYTES, *value_size_bytes);
            }
            Ok(())
        }
        Storage::Map { .. } => {
            let elements = find(place, loaded)?;
            let nothing = vec![0u8; elements.value_size_bytes()];
            for key in keys_of(&elements, Take::Copy)? {
                elements.replace(&key, &nothing)?;
            }
            Ok(())
        }
        // The checker rejects this.
        Storage::Threads(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Clears one buffer, and inserts its keys with zero values into another where they are missing.
pub fn zero_into(map: &UserMap, from: u64, into: u64, loaded: &Loaded) -> io::Result<()> {
    let (from, into) = (map.place(from), map.place(into));
    match (from, into) {
        (
            Storage::Global { offset_bytes: from_bytes, stride_bytes, copies, .. },
            Storage::Global { offset_bytes: into_bytes, .. },
        ) => {
            for at in (0..*copies).map(|copy| copy * stride_bytes) {
                if loaded.globals().bss_u64(from_bytes + at).is_some_and(|written| written != 0) {
                    loaded.globals().set_bss_u64(into_bytes + at, 1);
                }
            }
            clear_place(from, loaded)
        }
        (Storage::Map { length_offset: from_length, .. }, Storage::Map { length_offset: into_length, .. }) => {
            let keys = keys_of(&find(from, loaded)?, Take::Remove)?;
            let add = |offset: &Option<u32>, by: u64| {
                if let Some(offset) = offset {
                    loaded.globals().add_bss_u64(*offset, by);
                }
            };
            add(from_length, (keys.len() as u64).wrapping_neg());
            let elements = find(into, loaded)?;
            let nothing = vec![0u8; elements.value_size_bytes()];
            for key in keys {
                add(into_length, u64::from(elements.insert_new(&key, &nothing)?));
            }
            Ok(())
        }
        // The checker rejects this.
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn keys_of(elements: &Map<'_>, take: Take) -> io::Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    each_entry(elements, take, &mut |key, _| keys.push(key.to_vec()))?;
    Ok(keys)
}

/// Size of the `u64` before a value in `.bss` that says whether it was ever written.
const FLAG_BYTES: u32 = 8;

/// A map without entries.
pub fn empty(map: &UserMap, lookup: &dyn Lookup) -> MapSnapshot {
    let aggregation = aggregation(map, lookup);
    MapSnapshot {
        name: map.name.clone(),
        keyed: map.key.is_some(),
        aggregation,
        entries: Vec::new(),
        processes: Vec::new(),
    }
}

fn find<'a>(place: &Storage, loaded: &'a Loaded) -> io::Result<Map<'a>> {
    let Storage::Map { map: name, .. } = place else { return Err(io::ErrorKind::InvalidInput.into()) };
    loaded.map(name).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The values of the copies that have been written.
fn read_global(storage: &Storage, loaded: &Loaded) -> io::Result<Vec<Vec<u8>>> {
    let Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } = storage else {
        return Ok(Vec::new());
    };
    let outside = || io::Error::from(io::ErrorKind::InvalidData);
    let mut values = Vec::new();
    for copy in 0..*copies {
        let at = offset_bytes + copy * stride_bytes;
        if loaded.globals().bss_u64(at).ok_or_else(outside)? != 0 {
            values.push(loaded.globals().bss_bytes(at + FLAG_BYTES, *value_size_bytes).ok_or_else(outside)?);
        }
    }
    Ok(values)
}

/// Decodes the key and the value of an entry as the kernel returned them.
fn entry(map: &UserMap, key: &[u8], value: &[u8], lookup: &dyn Lookup) -> (Option<Value>, Value) {
    let values = copies(&map.storage, value);
    (map.key.as_ref().map(|ty| decode(ty, key, lookup)), merge(map, &values, lookup))
}

/// The bytes of each CPU's copy of a value that the kernel returned.
fn copies<'v>(place: &Storage, value: &'v [u8]) -> Vec<&'v [u8]> {
    let Storage::Map { per_cpu, value_size_bytes, .. } = place else { return Vec::new() };
    let size = *value_size_bytes as usize;
    // The kernel rounds each CPU's value up to 8 bytes.
    let stride = if *per_cpu { size.next_multiple_of(8) } else { value.len() };
    value.chunks_exact(stride.max(1)).map(|value| &value[..size.min(value.len())]).collect()
}

/// Decodes an entry of a per-thread map.
fn thread_entry(map: &UserMap, thread: u32, value: &[u8], lookup: &dyn Lookup) -> (Option<Value>, Value) {
    let key = map.key.as_ref().map(|ty| decode(ty, &thread.to_ne_bytes(), lookup));
    (key, merge(map, &[value], lookup))
}

/// The aggregation of a map; `None` if its values were assigned.
pub fn aggregation(map: &UserMap, lookup: &dyn Lookup) -> Option<&'static dyn Merge> {
    match &map.value {
        MapValue::Plain(_) => None,
        MapValue::Aggregate { word, .. } => lookup.vocabulary().aggregation(word),
    }
}

/// Merges the bytes of all CPUs, or of one copy, into a value.
fn merge(map: &UserMap, values: &[&[u8]], lookup: &dyn Lookup) -> Value {
    match &map.value {
        MapValue::Plain(ty) => decode(ty, values.first().copied().unwrap_or_default(), lookup),
        MapValue::Aggregate { params, signed, .. } => {
            let value = aggregation(map, lookup).map_or(Value::Missing, |word| word.merge(params, *signed, values));
            in_unit(map, value)
        }
    }
}

/// Gives a distribution the unit of its map.
fn in_unit(map: &UserMap, mut value: Value) -> Value {
    if let Value::Distribution(distribution) = &mut value {
        distribution.unit = map.unit;
    }
    value
}

#[cfg(test)]
#[path = "maps_tests.rs"]
mod tests;
