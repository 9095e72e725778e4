//! The script's maps, read back, cleared and zeroed.
//!
//! In: a [`UserMap`] and the loaded object. Out: a [`MapSnapshot`] of values.
//! Guarantee: every entry that is in a map for the whole time of reading is read exactly once, whatever the kernel's batch
//! calls return.

pub mod carry;
mod pages;

use std::collections::HashSet;
use std::io;

use profiler_compiler::decode::{Lookup, decode};
use profiler_compiler::object::{MapValue, Storage, UserMap};
use profiler_compiler::value::Value;

use crate::load::Loaded;
use crate::render::MapSnapshot;
use crate::sys::map::{Batch, Map, Take};
use crate::threads;

/// An entry of a map as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The script's key; empty for a scalar.
    pub key: Vec<u8>,
    /// Its value; in pages when it is kept so, else one.
    pub pages: Vec<Page>,
}

/// The bytes of a value, or of a page of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The page's number; 0 where there are none.
    pub number: u64,
    /// One, or each CPU's.
    pub copies: Vec<Vec<u8>>,
}

/// What a map held, as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// In any order.
    pub entries: Vec<Entry>,
    /// Whether values are in pages.
    pub is_paged: bool,
}

/// What is in a place of a map now; with [`Take::Remove`], nothing is there any more.
pub fn contents(map: &UserMap, generation: u64, loaded: &Loaded, take: Take) -> io::Result<Contents> {
    let place = map.place(generation);
    let mut contents = Contents::default();
    match place {
        Storage::Global { .. } => {
            let copies = read_global(place, loaded)?;
            if !copies.is_empty() {
                contents.entries.push(Entry { key: Vec::new(), pages: vec![Page { number: 0, copies }] });
            }
            if take == Take::Remove {
                clear_place(place, loaded)?;
            }
        }
        Storage::Threads(values) => {
            let entry = |(thread, value): (u32, Vec<u8>)| Entry {
                key: thread.to_ne_bytes().to_vec(),
                pages: vec![Page { number: 0, copies: vec![value] }],
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
                let entry = |(key, pages): (_, Vec<_>)| Entry { key, pages: pages.into_iter().map(page).collect() };
                contents.entries = found.into_pages().map(entry).collect();
            } else {
                each_entry(&elements, take, &mut |key, value| {
                    let page = Page { number: 0, copies: owned(value) };
                    contents.entries.push(Entry { key: key.to_vec(), pages: vec![page] });
                })?;
            }
            if let (Take::Remove, Some(offset)) = (take, length_offset) {
                loaded.globals().set_bss_u64(*offset, 0);
            }
        }
    }
    Ok(contents)
}

/// The value that several entries of a map with an aggregation are together.
pub fn merge_entries(map: &UserMap, is_paged: bool, entries: &[&Entry], lookup: &dyn Lookup) -> Value {
    let pages = entries.iter().flat_map(|entry| &entry.pages);
    if is_paged {
        let pages: Vec<(u64, Vec<&[u8]>)> =
            pages.map(|page| (page.number, page.copies.iter().map(Vec::as_slice).collect())).collect();
        return pages::merged(map, &pages);
    }
    let copies: Vec<&[u8]> = pages.flat_map(|page| &page.copies).map(Vec::as_slice).collect();
    merge(map, &copies, lookup)
}

/// A map's contents at this moment, in the place that programs use while the generation is this.
pub fn snapshot<'a>(
    map: &'a UserMap,
    generation: u64,
    loaded: &Loaded,
    lookup: &dyn Lookup,
) -> io::Result<MapSnapshot<'a>> {
    let mut snapshot = empty_snapshot(map);
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

/// The same, where a scalar that was never written is the zero of its type. A histogram without values stays empty.
pub fn snapshot_or_zero<'a>(
    map: &'a UserMap,
    generation: u64,
    loaded: &Loaded,
    lookup: &dyn Lookup,
) -> io::Result<MapSnapshot<'a>> {
    let mut snapshot = snapshot(map, generation, loaded, lookup)?;
    if let (Storage::Global { value_size_bytes, .. }, true) = (&map.storage, snapshot.entries.is_empty()) {
        let zero = merge(map, &[&vec![0u8; *value_size_bytes as usize]], lookup);
        if !matches!(zero, Value::Histogram(_) | Value::Series(_) | Value::Missing) {
            snapshot.entries.push((None, zero));
        }
    }
    Ok(snapshot)
}

/// One entry of a map, by the key's bytes; no entries when the key is not there.
pub fn snapshot_entry<'a>(
    map: &'a UserMap,
    generation: u64,
    key: &[u8],
    loaded: &Loaded,
    lookup: &dyn Lookup,
) -> io::Result<MapSnapshot<'a>> {
    let mut snapshot = empty_snapshot(map);
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
    if let Some(value) = elements.lookup(key)? {
        snapshot.entries.push(entry(map, key, &value, lookup));
    }
    Ok(snapshot)
}

/// Removes all entries.
pub fn clear(map: &UserMap, generation: u64, loaded: &Loaded) -> io::Result<()> {
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
        Storage::Map { .. } => each_entry(&find(place, loaded)?, Take::Remove, &mut |_, _| {}),
        Storage::Threads(values) => threads::clear(values, loaded),
    }
}

/// Shows every entry of a map of the object that is no map of the script.
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
            let mut keys = Vec::new();
            each_entry(&elements, Take::Copy, &mut |key, _| keys.push(key.to_vec()))?;
            let nothing = vec![0u8; elements.value_size_bytes()];
            for key in keys {
                elements.replace(&key, &nothing)?;
            }
            Ok(())
        }
        // The checker refuses it.
        Storage::Threads(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// The `u64` in front of a value in `.bss` that says whether it was ever written.
const FLAG_BYTES: u32 = 8;

fn empty_snapshot(map: &UserMap) -> MapSnapshot<'_> {
    let aggregation = match &map.value {
        MapValue::Plain(_) => None,
        MapValue::Aggregate { word, .. } => Some(*word),
    };
    MapSnapshot { name: &map.name, keyed: map.key.is_some(), aggregation, entries: Vec::new() }
}

fn find<'a>(place: &Storage, loaded: &'a Loaded) -> io::Result<Map<'a>> {
    let Storage::Map { map: name, .. } = place else { return Err(io::ErrorKind::InvalidInput.into()) };
    loaded.map(name).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The values of the copies that were written.
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

/// Key and value of an entry as the kernel returned them.
fn entry(map: &UserMap, key: &[u8], value: &[u8], lookup: &dyn Lookup) -> (Option<Value>, Value) {
    let values = copies(&map.storage, value);
    (map.key.as_ref().map(|ty| decode(ty, key, lookup)), merge(map, &values, lookup))
}

/// Each CPU's bytes of a value as the kernel returned it.
fn copies<'v>(place: &Storage, value: &'v [u8]) -> Vec<&'v [u8]> {
    let Storage::Map { per_cpu, value_size_bytes, .. } = place else { return Vec::new() };
    let size = *value_size_bytes as usize;
    // The kernel rounds each CPU's value up to 8 bytes.
    let stride = if *per_cpu { size.next_multiple_of(8) } else { value.len() };
    value.chunks_exact(stride.max(1)).map(|value| &value[..size.min(value.len())]).collect()
}

/// The same of a thread.
fn thread_entry(map: &UserMap, thread: u32, value: &[u8], lookup: &dyn Lookup) -> (Option<Value>, Value) {
    let key = map.key.as_ref().map(|ty| decode(ty, &thread.to_ne_bytes(), lookup));
    (key, merge(map, &[value], lookup))
}

/// What the bytes of all CPUs, or of one, stand for.
fn merge(map: &UserMap, values: &[&[u8]], lookup: &dyn Lookup) -> Value {
    match &map.value {
        MapValue::Plain(ty) => decode(ty, values.first().copied().unwrap_or_default(), lookup),
        MapValue::Aggregate { word, params, signed } => in_unit(map, word.merge(params, *signed, values)),
    }
}

/// A value that shows its unit gets that of its map.
fn in_unit(map: &UserMap, mut value: Value) -> Value {
    if let Value::Distribution(distribution) = &mut value {
        distribution.unit = map.unit;
    }
    value
}

/// What reading needs of a map; the kernel's in life, a fake in tests.
trait Elements {
    fn key_size_bytes(&self) -> usize;
    fn value_size_bytes(&self) -> usize;
    fn max_entries(&self) -> u32;
    fn batch(&self, cursor: &mut Vec<u8>, keys: &mut [u8], values: &mut [u8], take: Take) -> io::Result<Batch>;
    fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>>;
    fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>>;
    fn remove(&self, key: &[u8]) -> io::Result<bool>;
}

impl Elements for Map<'_> {
    fn key_size_bytes(&self) -> usize {
        Map::key_size_bytes(self)
    }
    fn value_size_bytes(&self) -> usize {
        Map::value_size_bytes(self)
    }
    fn max_entries(&self) -> u32 {
        Map::max_entries(self)
    }
    fn batch(&self, cursor: &mut Vec<u8>, keys: &mut [u8], values: &mut [u8], take: Take) -> io::Result<Batch> {
        Map::batch(self, cursor, keys, values, take)
    }
    fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        Map::next_key(self, key)
    }
    fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Map::lookup(self, key)
    }
    fn remove(&self, key: &[u8]) -> io::Result<bool> {
        Map::remove(self, key)
    }
}

/// A first batch holds about this many bytes of values.
const BATCH_BYTES: usize = 256 << 10;

/// `ENOTSUPP` of the kernel, which no header for user space names.
const ENOTSUPP: i32 = 524;

/// Visits all entries, in batches where the map can.
fn each_entry(map: &impl Elements, take: Take, visit: &mut impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    let (key_size, value_size) = (map.key_size_bytes(), map.value_size_bytes());
    let most = (map.max_entries() as usize).max(1);
    let mut room = (BATCH_BYTES / value_size.max(1)).clamp(1, most);
    let (mut keys, mut values) = (vec![0u8; room * key_size], vec![0u8; room * value_size]);
    let mut cursor = Vec::new();
    loop {
        match map.batch(&mut cursor, &mut keys, &mut values, take) {
            Ok(batch) => {
                let read = batch.entries.min(room);
                for (key, value) in keys.chunks_exact(key_size).zip(values.chunks_exact(value_size)).take(read) {
                    visit(key, value);
                }
                // A short batch is not the last one: a hash map stops before a bucket that does not fit.
                if batch.last {
                    return Ok(());
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && room < most => {
                room = (room * 2).min(most);
                keys.resize(room * key_size, 0);
                values.resize(room * value_size, 0);
            }
            Err(error) if cursor.is_empty() && has_no_batches(&error) => return each_key(map, take, visit),
            Err(error) => return Err(error),
        }
    }
}

/// Since 5.6: batches, and not for every kind of map.
fn has_no_batches(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | ENOTSUPP))
}

/// Visits all entries one by one.
fn each_key(map: &impl Elements, take: Take, visit: &mut impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    // When the key that the walk stands on is removed meanwhile, the kernel starts over.
    let mut seen = HashSet::new();
    let mut key = map.next_key(None)?;
    let mut repeats = 0;
    while let Some(at) = key {
        key = map.next_key(Some(&at))?;
        if seen.contains(&at) {
            repeats += 1;
            if repeats > map.max_entries() {
                break;
            }
            continue;
        }
        seen.insert(at);
    }
    for key in &seen {
        if let Some(value) = map.lookup(key)? {
            visit(key, &value);
        }
        if take == Take::Remove {
            map.remove(key)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "maps_tests.rs"]
mod tests;
