//! Tests of [`super`] against a map in memory that behaves like the kernel's.

use std::cell::RefCell;
use std::collections::BTreeMap;

use profiler_model::results::{Merge, Perform, Vocabulary, WordName};
use profiler_model::source::Span;
use profiler_model::types::BtfId;
use profiler_model::types::{StackType, Type};

use super::walk::{BATCH_BYTES, ENOTSUPP, Elements};
use super::*;
use crate::sys::map::Batch;

/// Entries in buckets, as in a hash map: a batch contains whole buckets.
struct Fake {
    buckets: Vec<usize>,
    entries: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    batches: bool,
}

impl Fake {
    fn new(buckets: &[usize], batches: bool) -> Fake {
        let count: usize = buckets.iter().sum();
        let entries = (0..count as u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 8])).collect();
        Fake { buckets: buckets.to_vec(), entries: RefCell::new(entries), batches }
    }

    /// Reads all entries, checks that each value belongs to its key, and returns the keys.
    fn read(&self, take: Take) -> Vec<u32> {
        let mut keys = Vec::new();
        each_entry(self, take, &mut |key, value| {
            let number = u32::from_be_bytes(key.try_into().unwrap());
            assert!(!value.is_empty() && value.iter().all(|byte| *byte == number as u8));
            keys.push(number);
        })
        .unwrap();
        keys.sort_unstable();
        keys
    }

    fn expect_all(&self, take: Take) {
        let count = self.entries.borrow().len() as u32;
        assert_eq!(self.read(take), (0..count).collect::<Vec<_>>());
    }
}

impl Elements for Fake {
    fn key_size_bytes(&self) -> usize {
        4
    }
    fn value_size_bytes(&self) -> usize {
        // Large, so that few entries fit the first batch.
        BATCH_BYTES / 4
    }
    fn max_entries(&self) -> u32 {
        10_000
    }
    fn batch(&self, cursor: &mut Vec<u8>, keys: &mut [u8], values: &mut [u8], take: Take) -> io::Result<Batch> {
        if !self.batches {
            return Err(io::Error::from_raw_os_error(ENOTSUPP));
        }
        let first = cursor.first().map_or(0, |bucket| usize::from(*bucket));
        let room = keys.len() / 4;
        let mut bucket = first;
        let mut number: usize = self.buckets[..first].iter().sum();
        let mut read = 0;
        while bucket < self.buckets.len() && read + self.buckets[bucket] <= room {
            for _ in 0..self.buckets[bucket] {
                let key = (number as u32).to_be_bytes();
                keys[read * 4..read * 4 + 4].copy_from_slice(&key);
                let size = self.value_size_bytes();
                values[read * size..(read + 1) * size].fill(number as u8);
                if take == Take::Remove {
                    self.entries.borrow_mut().remove(&key[..]);
                }
                (number, read) = (number + 1, read + 1);
            }
            bucket += 1;
        }
        if read == 0 && bucket < self.buckets.len() && self.buckets[bucket] > 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        *cursor = vec![bucket as u8];
        Ok(Batch { entries: read, last: bucket == self.buckets.len() })
    }
    fn next_key(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        let entries = self.entries.borrow();
        // A deleted key starts the walk over.
        let key = key.filter(|key| entries.contains_key(*key));
        Ok(entries.keys().find(|other| key.is_none_or(|key| other.as_slice() > key)).cloned())
    }
    fn lookup(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.entries.borrow().get(key).cloned())
    }
    fn remove(&self, key: &[u8]) -> io::Result<bool> {
        Ok(self.entries.borrow_mut().remove(key).is_some())
    }
}

#[test]
fn short_batches_are_not_the_last() {
    Fake::new(&[3, 2, 4, 1, 1, 3], true).expect_all(Take::Copy);
}

#[test]
fn a_bucket_that_does_not_fit_gets_more_room() {
    Fake::new(&[3, 30, 0, 1, 9], true).expect_all(Take::Copy);
}

#[test]
fn an_empty_map_is_read_once() {
    Fake::new(&[], true).expect_all(Take::Copy);
    Fake::new(&[0, 0], false).expect_all(Take::Copy);
}

#[test]
fn maps_without_batches_are_read_by_key() {
    let map = Fake::new(&[20], false);
    assert_eq!(map.read(Take::Copy).len(), 20);
    assert_eq!(map.entries.borrow().len(), 20);
    assert_eq!(map.read(Take::Remove).len(), 20);
    assert!(map.entries.borrow().is_empty());
}

#[test]
fn removing_reads_what_it_removes() {
    let map = Fake::new(&[2, 2], true);
    map.expect_all(Take::Remove);
    assert!(map.entries.borrow().is_empty());
}

/// Adds up the words of all CPUs.
#[derive(Debug)]
struct Total;

impl Merge for Total {
    fn merge(&self, params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        assert_eq!((params, signed), (&[7i64][..], true));
        Value::Uint(per_cpu.iter().map(|bytes| u64::from_ne_bytes((*bytes).try_into().unwrap())).sum())
    }
}

impl Vocabulary for Total {
    fn aggregation(&self, name: &WordName) -> Option<&'static dyn Merge> {
        (name.as_str() == "total").then_some(&Total)
    }
    fn function(&self, _name: &WordName) -> Option<&'static dyn Perform> {
        None
    }
}

#[derive(Debug)]
struct NoTables;

impl Lookup for NoTables {
    fn stack(&self, _ty: StackType, _id: i64) -> Option<Vec<u64>> {
        None
    }
    fn probe_name(&self, _index: u64) -> Option<&str> {
        None
    }
    fn string(&self, _index: u64) -> Option<&str> {
        None
    }
    fn enumerator(&self, _id: BtfId, _number: i64) -> Option<String> {
        None
    }
    fn vocabulary(&self) -> &dyn Vocabulary {
        &Total
    }
}

#[test]
fn the_values_of_all_cpus_are_merged() {
    let map = UserMap {
        name: "@x".into(),
        key: Some(Type::U32),
        value: MapValue::Aggregate { word: WordName::new("total"), params: vec![7], signed: true, pages: None },
        unit: profiler_model::units::Unit::None,
        storage: Storage::Map {
            map: "x".into(),
            per_cpu: true,
            key_size_bytes: 4,
            value_size_bytes: 8,
            max_entries: 10,
            on_demand: false,
            evicts: false,
            length_offset: None,
        },
        alternate: None,
        thread: None,
        span: Span { start: 0, end: 0 },
    };
    let bytes: Vec<u8> = [1u64, 20, 300].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let (key, value) = entry(&map, &[0; 4], &bytes, &NoTables);
    assert!(key.is_some());
    assert_eq!(value, Value::Uint(321));
    assert!(empty(&map, &NoTables).aggregation.is_some());
}
