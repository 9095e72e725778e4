//! Iterates over the entries of a kernel map.
//!
//! In: a map. Out: keys and values as bytes.
//! Guarantee: every entry that is present during the whole walk is visited exactly once, with
//! batches or without.

use std::collections::HashSet;
use std::io;

use crate::sys::map::{Batch, Map, Take};

/// What the walk needs of a map: the kernel's maps in production, a fake in tests.
pub(super) trait Elements {
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

/// The first batch holds about this many bytes of values.
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// The kernel's `ENOTSUPP`, which no user-space header defines.
pub(super) const ENOTSUPP: i32 = 524;

/// Visits all entries, in batches if the map supports them.
pub(super) fn each_entry(map: &impl Elements, take: Take, visit: &mut impl FnMut(&[u8], &[u8])) -> io::Result<()> {
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
                // A short batch is not necessarily the last one: a hash map stops before a bucket
                // that does not fit.
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

/// Since 5.6: batches, but not for every type of map.
fn has_no_batches(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | ENOTSUPP))
}

/// Visits all entries one at a time.
fn each_key(map: &impl Elements, take: Take, visit: &mut impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    // If the current key is removed during the walk, the kernel starts over.
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
