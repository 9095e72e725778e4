//! Maps whose values are in pages, put together again.
//!
//! In: entries as the kernel returned them, each a page. Out: one entry a key of the script.
//! Guarantee: the pages of a key become one value, whatever order they come in.

use std::collections::BTreeMap;
use std::io;

use profiler_compiler::decode::{Lookup, decode};
use profiler_compiler::layout;
use profiler_compiler::object::{MapValue, UserMap};
use profiler_compiler::value::Value;
use profiler_compiler::words::{PAGE_NUMBER_BYTES, Pages};

use super::{Elements, copies, in_unit};

/// Bytes of a page's number behind the script's key.
const NUMBER_BYTES: usize = PAGE_NUMBER_BYTES as usize;

/// The pages that were read, by key.
#[derive(Debug, Default)]
pub(super) struct Found(BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>>);

impl Found {
    /// Takes an entry of the kernel's map.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        let Some((key, number)) = key.split_last_chunk::<NUMBER_BYTES>() else { return };
        let page = u64::from(u32::from_ne_bytes(*number));
        self.0.entry(key.to_vec()).or_default().push((page, value.to_vec()));
    }

    /// A key and a value for each key.
    pub(super) fn entries(&self, map: &UserMap, lookup: &dyn Lookup) -> Vec<(Option<Value>, Value)> {
        let key = |bytes: &[u8]| map.key.as_ref().map(|ty| decode(ty, bytes, lookup));
        let value = |pages: &[(u64, Vec<u8>)]| {
            let pages: Vec<_> = pages.iter().map(|(page, value)| (*page, copies(&map.storage, value))).collect();
            merged(map, &pages)
        };
        self.0.iter().map(|(bytes, pages)| (key(bytes), value(pages))).collect()
    }

    /// The pages of each key.
    pub(super) fn into_pages(self) -> impl Iterator<Item = (Vec<u8>, Vec<(u64, Vec<u8>)>)> {
        self.0.into_iter()
    }
}

/// The pages of one key, of which at least so many bytes are given as it has.
pub(super) fn of_key(map: &UserMap, pages: Pages, key: &[u8], elements: &impl Elements) -> io::Result<Found> {
    let mut found = Found::default();
    let mut whole = vec![0u8; elements.key_size_bytes()];
    let key_bytes = map.key.as_ref().map_or(0, |ty| layout::of(ty, None).size_bytes as usize);
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

/// The value of pages, of which several may have one number.
pub(super) fn merged(map: &UserMap, pages: &[(u64, Vec<&[u8]>)]) -> Value {
    let MapValue::Aggregate { word, params, signed } = &map.value else { return Value::Missing };
    in_unit(map, word.merge_pages(params, *signed, pages))
}
