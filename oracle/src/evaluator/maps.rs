//! Maps and ring buffers of the VM.
//!
//! In: keys, values, records. Out: addresses of values, the kernel's error numbers, and contents
//! for the caller to read.
//! Guarantee: behaves as the kernel's maps do for one program at a time; a full LRU map evicts the
//! entry that was inserted first.

use std::collections::{BTreeMap, BTreeSet};

use super::memory::{Access, Bytes, Memory, RegionId};
use super::{Fault, Kernel, Machine};
use profiler_compiler::ir::{Map, MapId, MapKind};

pub(super) const ENOENT: i64 = -2;
pub(super) const E2BIG: i64 = -7;
pub(super) const EFAULT: i64 = -14;
pub(super) const EEXIST: i64 = -17;
pub(super) const EINVAL: i64 = -22;

const UPDATE_NO_EXIST: u64 = 1;
const UPDATE_EXIST: u64 = 2;
/// Size of the header that the kernel puts before each record.
const RECORD_HEADER_BYTES: u64 = 8;

/// A key with its value, or with one value per CPU.
pub type MapEntry = (Vec<u8>, Vec<Vec<u8>>);

/// A map's entry.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// One value, or one per CPU.
    values: Vec<RegionId>,
    /// Insertion sequence number, for eviction.
    serial: u64,
}

/// A ring's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    region: RegionId,
    state: RecordState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordState {
    Reserved,
    Submitted,
    Discarded,
}

/// The contents of a map.
#[derive(Debug, Clone, Default)]
pub(super) struct Storage {
    /// Entries by key; in task storage the key is the task's address.
    entries: BTreeMap<Vec<u8>, Entry>,
    serial: u64,
    records: Vec<Record>,
    /// Total bytes ever produced in and consumed from the ring buffer.
    produced_bytes: u64,
    consumed_bytes: u64,
    stacks: Vec<Vec<u64>>,
}

fn is_per_cpu(kind: MapKind) -> bool {
    matches!(kind, MapKind::PerCpuHash | MapKind::PerCpuArray | MapKind::LruPerCpuHash)
}

fn is_array(kind: MapKind) -> bool {
    matches!(kind, MapKind::Array | MapKind::PerCpuArray)
}

impl Machine<'_> {
    /// The entries of a map in key order, each with its value or with one value per CPU. For an
    /// array, only the entries that were accessed. In task storage, the key is the task's address.
    pub fn map_entries(&self, map: MapId) -> Vec<MapEntry> {
        let Some(storage) = self.kernel.maps.get(map.0 as usize) else { return Vec::new() };
        let value = |region: &RegionId| self.kernel.memory.region(*region).bytes.value.clone();
        let entry = |(key, entry): (&Vec<u8>, &Entry)| (key.clone(), entry.values.iter().map(value).collect());
        storage.entries.iter().map(entry).collect()
    }

    /// Sets an entry of a map on the current CPU, as a program would; returns the kernel's error
    /// number on failure.
    pub fn set_map_entry(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<(), i64> {
        let declaration = self.kernel.declaration(map).map_err(|_| EINVAL)?;
        let sizes = (declaration.key_size_bytes as usize, declaration.value_size_bytes as usize);
        if sizes != (key.len(), value.len()) {
            return Err(EINVAL);
        }
        let bytes = Bytes::defined(value.to_vec());
        match self.kernel.update(map, key.to_vec(), &bytes, 0).map_err(|_| EINVAL)? {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// The submitted records of a ring buffer, in the order of their reservation.
    pub fn ring_records(&self, ring: MapId) -> Vec<Vec<u8>> {
        let Some(storage) = self.kernel.maps.get(ring.0 as usize) else { return Vec::new() };
        let submitted = storage.records.iter().filter(|r| r.state == RecordState::Submitted);
        submitted.map(|record| self.kernel.memory.region(record.region).bytes.value.clone()).collect()
    }

    /// Consumes the submitted records of a ring buffer, which frees its space.
    pub fn take_ring_records(&mut self, ring: MapId) -> Vec<Vec<u8>> {
        let taken = self.ring_records(ring);
        if let Some(storage) = self.kernel.maps.get_mut(ring.0 as usize) {
            storage.records.retain(|record| record.state == RecordState::Reserved);
            storage.consumed_bytes = storage.produced_bytes;
        }
        taken
    }

    /// The stack for an id that `get_stackid` returned.
    pub fn stack(&self, map: MapId, id: u32) -> Option<&[u64]> {
        self.kernel.maps.get(map.0 as usize)?.stacks.get(id as usize).map(Vec::as_slice)
    }
}

impl Kernel<'_> {
    pub(super) fn declaration(&self, map: MapId) -> Result<&Map, Fault> {
        self.declarations.get(map.0 as usize).ok_or(Fault::Malformed("no such map"))
    }

    fn storage(&mut self, map: MapId) -> Result<&mut Storage, Fault> {
        self.maps.get_mut(map.0 as usize).ok_or(Fault::Malformed("no such map"))
    }

    /// The address of the current CPU's value, or 0 if there is no entry.
    pub(super) fn lookup(&mut self, map: MapId, key: &[u8]) -> Result<u64, Fault> {
        self.lookup_on(map, key, self.environment.cpu)
    }

    /// The keys of a map.
    pub(super) fn keys(&self, map: MapId) -> Vec<Vec<u8>> {
        self.maps.get(map.0 as usize).map_or(Vec::new(), |storage| storage.entries.keys().cloned().collect())
    }

    /// The address of a CPU's value, or 0 if there is none.
    pub(super) fn lookup_on(&mut self, map: MapId, key: &[u8], cpu: u32) -> Result<u64, Fault> {
        let kind = self.declaration(map)?.kind;
        let has_index = self.is_index(map, key)?;
        if is_array(kind) && has_index && !self.storage(map)?.entries.contains_key(key) {
            self.insert(map, key.to_vec(), None)?;
        }
        let cpu = if is_per_cpu(kind) { cpu as usize } else { 0 };
        let entry = self.storage(map)?.entries.get(key);
        let region = entry.and_then(|entry| entry.values.get(cpu).copied());
        Ok(region.map_or(0, |region| Memory::address(region, 0)))
    }

    /// Whether the key is a valid index of an array.
    fn is_index(&self, map: MapId, key: &[u8]) -> Result<bool, Fault> {
        let map = self.declaration(map)?;
        let index = <[u8; 4]>::try_from(key).map(u32::from_le_bytes);
        Ok(is_array(map.kind) && index.is_ok_and(|index| index < map.max_entries))
    }

    /// Inserts an entry; its value is zero if none is given.
    fn insert(&mut self, map: MapId, key: Vec<u8>, value: Option<&Bytes>) -> Result<(), Fault> {
        let declaration = self.declaration(map)?;
        let (size_bytes, per_cpu) = (declaration.value_size_bytes as usize, is_per_cpu(declaration.kind));
        let cpus = if per_cpu { self.environment.cpus.max(self.environment.cpu + 1) } else { 1 };
        let mine = if per_cpu { self.environment.cpu } else { 0 };
        let mut values = Vec::with_capacity(cpus as usize);
        for cpu in 0..cpus {
            let bytes = value.filter(|_| cpu == mine).cloned();
            let bytes = bytes.unwrap_or_else(|| Bytes::zeroed(size_bytes));
            values.push(self.memory.add(Access::Data, bytes));
        }
        let storage = self.storage(map)?;
        storage.serial += 1;
        let serial = storage.serial;
        storage.entries.insert(key, Entry { values, serial });
        Ok(())
    }

    pub(super) fn update(&mut self, map: MapId, key: Vec<u8>, value: &Bytes, flags: u64) -> Result<i64, Fault> {
        let (kind, max_entries) = {
            let map = self.declaration(map)?;
            (map.kind, map.max_entries as usize)
        };
        if is_array(kind) && !self.is_index(map, &key)? {
            return Ok(E2BIG);
        }
        // An array has all its entries from the start.
        let exists = is_array(kind) || self.storage(map)?.entries.contains_key(&key);
        match flags {
            UPDATE_NO_EXIST if exists => return Ok(EEXIST),
            UPDATE_EXIST if !exists => return Ok(ENOENT),
            0..=UPDATE_EXIST => {}
            _ => return Ok(EINVAL),
        }
        if exists && (is_array(kind) || is_per_cpu(kind)) {
            let address = self.lookup(map, &key)?;
            self.memory.write(address, value)?;
            return Ok(0);
        }
        if !exists && self.storage(map)?.entries.len() >= max_entries {
            if !matches!(kind, MapKind::LruHash | MapKind::LruPerCpuHash) {
                return Ok(E2BIG);
            }
            self.storage(map)?.evict();
        }
        // The kernel replaces the entry of a hash: a program that still holds the old value's
        // address keeps the old value.
        self.insert(map, key, Some(value))?;
        Ok(0)
    }

    pub(super) fn delete(&mut self, map: MapId, key: &[u8]) -> Result<i64, Fault> {
        if is_array(self.declaration(map)?.kind) {
            return Ok(EINVAL);
        }
        let removed = self.storage(map)?.entries.remove(key);
        Ok(if removed.is_some() { 0 } else { ENOENT })
    }

    /// The tasks that have a value in any map, in the order of their addresses.
    pub(super) fn tasks(&self) -> Vec<u64> {
        let storages = self.declarations.iter().zip(&self.maps).filter(|(map, _)| map.kind == MapKind::TaskStorage);
        let keys = storages.flat_map(|(_, storage)| storage.entries.keys());
        let tasks: BTreeSet<u64> =
            keys.filter_map(|key| Some(u64::from_le_bytes(key.as_slice().try_into().ok()?))).collect();
        tasks.into_iter().collect()
    }

    /// The address of a task's value, or 0; inserts a value if `create` is set.
    pub(super) fn task_value(
        &mut self,
        map: MapId,
        task: u64,
        initial: Option<&Bytes>,
        create: bool,
    ) -> Result<u64, Fault> {
        let key = task.to_le_bytes();
        if create && task != 0 && !self.storage(map)?.entries.contains_key(key.as_slice()) {
            self.insert(map, key.to_vec(), initial)?;
        }
        self.lookup(map, &key)
    }

    /// The id of a stack; equal stacks have the same id.
    pub(super) fn stack_id(&mut self, map: MapId, stack: Vec<u64>) -> Result<i64, Fault> {
        let max_entries = self.declaration(map)?.max_entries as usize;
        let stacks = &mut self.storage(map)?.stacks;
        if let Some(id) = stacks.iter().position(|known| *known == stack) {
            return Ok(id as i64);
        }
        if stacks.len() >= max_entries {
            return Ok(EEXIST);
        }
        stacks.push(stack);
        Ok(stacks.len() as i64 - 1)
    }

    /// The address of a new record, or 0 when the ring buffer is full.
    pub(super) fn reserve(&mut self, ring: MapId, size_bytes: u64) -> Result<u64, Fault> {
        let capacity_bytes = u64::from(self.declaration(ring)?.max_entries);
        let storage = self.storage(ring)?;
        let used_bytes = storage.produced_bytes - storage.consumed_bytes;
        let free_bytes = capacity_bytes.saturating_sub(used_bytes);
        let needs_bytes = size_bytes.checked_next_multiple_of(8).and_then(|n| n.checked_add(RECORD_HEADER_BYTES));
        // The kernel never fills a ring buffer to its last byte.
        let Some(needs_bytes) = needs_bytes.filter(|needs| *needs < free_bytes) else {
            return Ok(0);
        };
        storage.produced_bytes += needs_bytes;
        let region = self.memory.add(Access::Data, Bytes::undefined(size_bytes as usize));
        let record = Record { region, state: RecordState::Reserved };
        self.storage(ring)?.records.push(record);
        Ok(Memory::address(region, 0))
    }

    /// Submits or discards the record at an address.
    pub(super) fn close_record(&mut self, address: u64, submit: bool) -> Result<(), Fault> {
        let region = self.memory.starting_at(address).ok_or(Fault::BadAddress(address))?;
        let records = self.maps.iter_mut().flat_map(|storage| &mut storage.records);
        let mut open = records.filter(|record| record.state == RecordState::Reserved);
        let record = open.find(|r| r.region == region).ok_or(Fault::BadAddress(address))?;
        record.state = if submit { RecordState::Submitted } else { RecordState::Discarded };
        self.memory.close(region);
        Ok(())
    }

    pub(super) fn open_records(&self) -> usize {
        let records = self.maps.iter().flat_map(|storage| &storage.records);
        records.filter(|record| record.state == RecordState::Reserved).count()
    }

    /// Discards the records that a run left open.
    pub(super) fn discard_open_records(&mut self) {
        for record in self.maps.iter_mut().flat_map(|storage| &mut storage.records) {
            if record.state == RecordState::Reserved {
                record.state = RecordState::Discarded;
                self.memory.close(record.region);
            }
        }
    }

    /// The result of `ringbuf_query`; flags as in the kernel.
    pub(super) fn ring_query(&mut self, ring: MapId, flags: u64) -> Result<u64, Fault> {
        let size_bytes = u64::from(self.declaration(ring)?.max_entries);
        let storage = self.storage(ring)?;
        Ok(match flags {
            0 => storage.produced_bytes - storage.consumed_bytes,
            1 => size_bytes,
            2 => storage.consumed_bytes,
            3 => storage.produced_bytes,
            _ => 0,
        })
    }
}

impl Storage {
    fn evict(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.serial);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.entries.remove(&key);
        }
    }
}
