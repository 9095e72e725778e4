//! Reassembles maps whose values are stored in pages.
//!
//! In: entries as the kernel returned them, each one page. Out: one entry per key of the script.
//! Guarantee: the pages of a key become one value, in whatever order they arrive.

use std::collections::BTreeMap;
use std::io;

use profiler_model::decode::{Lookup, decode};
use profiler_model::layout;
use profiler_model::object::{MapValue, PAGE_NUMBER_BYTES, Pages, UserMap};
use profiler_model::types::NoRecords;
use profiler_model::value::Value;

use super::walk::Elements;
use super::{aggregation, copies, in_unit};

/// Size of the page number after the script's key, in bytes.
const NUMBER_BYTES: usize = PAGE_NUMBER_BYTES as usize;

/// The pages read so far, by key.
#[derive(Debug, Default)]
pub(super) struct Found(BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>>);

impl Found {
    /// Adds an entry of the kernel's map.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        let Some((key, number)) = key.split_last_chunk::<NUMBER_BYTES>() else { return };
        let page = u64::from(u32::from_ne_bytes(*number));
        self.0.entry(key.to_vec()).or_default().push((page, value.to_vec()));
    }

    /// Decodes the key and the merged value of each key.
    pub(super) fn entries(&self, map: &UserMap, lookup: &dyn Lookup) -> Vec<(Option<Value>, Value)> {
        let key = |bytes: &[u8]| map.key.as_ref().map(|ty| decode(ty, bytes, lookup));
        let value = |pages: &[(u64, Vec<u8>)]| {
            let pages: Vec<_> = pages.iter().map(|(page, value)| (*page, copies(&map.storage, value))).collect();
            merged(map, &pages, lookup)
        };
        self.0.iter().map(|(bytes, pages)| (key(bytes), value(pages))).collect()
    }

    /// The pages of each key.
    pub(super) fn into_pages(self) -> impl Iterator<Item = (Vec<u8>, Vec<(u64, Vec<u8>)>)> {
        self.0.into_iter()
    }
}

/// Reads the pages of one key; bytes beyond the key's size are ignored.
pub(super) fn of_key(map: &UserMap, pages: Pages, key: &[u8], elements: &impl Elements) -> io::Result<Found> {
    let mut found = Found::default();
    let mut whole = vec![0u8; elements.key_size_bytes()];
    let key_bytes = map.key.as_ref().map_or(0, |ty| layout::of(ty, &NoRecords).size_bytes as usize);
    let end = whole.len().saturating_sub(NUMBER_BYTES);
    for (to, from) in whole[..end].iter_mut().zip(key.iter().take(key_bytes)) {
        *to = *from;
    }
    for page in 0..pages.count {
        for (to, from) in whole[end..].iter_mut().zip(page.to_ne_bytes()) {
            *to = from;
        }
        if let Some(value) = elements.lookup(&whole)? {
            found.add(&whole, &value);
        }
    }
    Ok(found)
}

/// Merges pages into a value; several of them may have the same number.
pub(super) fn merged(map: &UserMap, pages: &[(u64, Vec<&[u8]>)], lookup: &dyn Lookup) -> Value {
    let MapValue::Aggregate { params, signed, .. } = &map.value else { return Value::Missing };
    let merged = aggregation(map, lookup).map(|word| word.merge_pages(params, *signed, pages));
    in_unit(map, merged.unwrap_or(Value::Missing))
}
