//! Chooses the storage of each map of the script.
//!
//! In: a map's types, the facts of the first pass, the number of CPUs. Out: a [`Storage`] and its
//! BPF map.
//! Guarantee: an update is never lost to another CPU, an interrupt or preemption. A plain
//! read-modify-write is chosen only if nothing can interrupt it.
//!
//! | map | place | cost over an empty program, as measured by hand-written programs on Linux 6.18 |
//! |---|---|---|
//! | scalar, assigned or counted up | one copy in `.bss` | 1–4 ns |
//! | scalar aggregation | a copy in `.bss` for each CPU, a cache line apart | 2 ns |
//! | keyed aggregation | per-CPU hash; a shared hash with atomics when per-CPU copies would be large | 16 ns |
//! | keyed, assigned | hash | 15–60 ns |

use crate::ir::{Map, MapId, MapKind, preallocated_bytes};
use crate::layout;
use crate::lower::pages;
use crate::lower::shared::Shared;
use crate::lower::storage::Storage;
use crate::object;
use crate::typed::MapValue;

/// Above this size, per-CPU values of one map go to a shared hash instead.
const MAX_PER_CPU_BYTES: u64 = 64 << 20;

/// Above this size, maps are allocated on demand instead of preallocated. During a burst of new
/// keys the kernel's allocator for such maps can be empty; it then refuses (and we count) keys
/// although there is space. So this is only for maps whose memory matters.
const MAX_PREALLOCATED_BYTES: u64 = 64 << 20;

/// Distance between two CPUs' values: a cache line, to avoid false sharing.
const CACHE_LINE_BYTES: u32 = 64;

impl Shared<'_> {
    /// Allocates the storage of a map.
    pub(super) fn place(&mut self, index: usize, prefix: &str) -> Storage {
        let map = &self.program.maps[index];
        let mut value_size_bytes = self.value_size_bytes(&map.value);
        let aggregate = matches!(map.value, MapValue::Aggregate { .. });
        let Some(key) = &map.key else {
            let copies = if aggregate { self.cpu_slots() } else { 1 };
            let stride_bytes = (8 + value_size_bytes).next_multiple_of(CACHE_LINE_BYTES);
            let offset_bytes = self.bss_aligned(stride_bytes * copies, CACHE_LINE_BYTES);
            return Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes };
        };
        if map.of_threads {
            let name = symbol_name(index, prefix, &map.name);
            let id = self.thread_map(name, value_size_bytes);
            let read_by = self.thread_reader(id, map.span);
            return Storage::Threads { id, read_by };
        }
        let max_entries = map.declared.as_ref().map_or(self.program.max_map_keys, |declared| declared.max_entries);
        let evicts = map.declared.as_ref().is_some_and(|declared| declared.kind.evicts);
        let mut key_size_bytes = layout::of(key, self.target.btf_if_needed(key)).size_bytes.max(1);
        let cpus = u64::from(self.target.possible_cpus());
        let mut max_entries = max_entries;
        if let Some(pages) = map.value.pages() {
            value_size_bytes = pages.size_bytes;
            key_size_bytes = pages::key_size_bytes(key_size_bytes);
            max_entries = pages::entries(max_entries, pages, cpus, MAX_PER_CPU_BYTES);
        }
        let entries = u64::from(max_entries);
        let fits = entries * cpus * u64::from(value_size_bytes) <= MAX_PER_CPU_BYTES;
        let per_cpu = aggregate && (fits || map.declared.is_some());
        let name = symbol_name(index, prefix, &map.name);
        let mut made = Map {
            name,
            kind: match (per_cpu, evicts) {
                (true, true) => MapKind::LruPerCpuHash,
                (true, false) => MapKind::PerCpuHash,
                (false, true) => MapKind::LruHash,
                (false, false) => MapKind::Hash,
            },
            key_size_bytes,
            value_size_bytes,
            max_entries,
            no_prealloc: false,
        };
        // A map that evicts entries is always preallocated.
        made.no_prealloc = made.memory_bytes(cpus) > MAX_PREALLOCATED_BYTES && !evicts;
        self.ir.maps.push(made);
        let id = MapId(self.ir.maps.len() as u32 - 1);
        let length_offset = self.facts.measured.contains(&index).then(|| self.bss(8));
        Storage::Map { id, per_cpu, length_offset }
    }

    /// Switches the largest maps to allocation on demand until the preallocated memory is within
    /// bounds.
    pub(super) fn limit_memory(&mut self) {
        let cpus = u64::from(self.target.possible_cpus());
        while preallocated_bytes(&self.ir.maps, cpus) > self.program.max_map_memory_bytes {
            let is_open = |map: &&mut Map| matches!(map.kind, MapKind::Hash | MapKind::PerCpuHash) && !map.no_prealloc;
            let Some(map) = self.ir.maps.iter_mut().filter(is_open).max_by_key(|map| map.memory_bytes(cpus)) else {
                return;
            };
            map.no_prealloc = true;
        }
    }

    fn value_size_bytes(&self, value: &MapValue) -> u32 {
        match value {
            MapValue::Plain(ty) => layout::of(ty, self.target.btf_if_needed(ty)).size_bytes.max(1),
            MapValue::Aggregate { word, params, .. } => self.catalogue.aggregation_of(word).size_bytes(params),
        }
    }

    /// A place as the object describes it.
    pub(super) fn storage(&self, place: &Storage) -> object::Storage {
        match place {
            Storage::Threads { read_by, .. } => object::Storage::Threads(read_by.clone()),
            Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } => object::Storage::Global {
                offset_bytes: *offset_bytes,
                stride_bytes: *stride_bytes,
                copies: *copies,
                value_size_bytes: *value_size_bytes,
            },
            Storage::Map { id, per_cpu, length_offset } => {
                let map = &self.ir.maps[id.0 as usize];
                object::Storage::Map {
                    map: map.name.clone(),
                    per_cpu: *per_cpu,
                    key_size_bytes: map.key_size_bytes,
                    value_size_bytes: map.value_size_bytes,
                    max_entries: map.max_entries,
                    on_demand: map.no_prealloc,
                    evicts: matches!(map.kind, MapKind::LruHash | MapKind::LruPerCpuHash),
                    length_offset: *length_offset,
                }
            }
        }
    }
}

/// Symbol prefix of first places.
pub(super) const FIRST: &str = "at";

/// A map's name as a symbol: `@` is `at_`, `@start` is `at_start`; of a state, `thread` is
/// `state_thread`. Names from modules contain `.` or `'`, and get the map's number.
fn symbol_name(index: usize, prefix: &str, name: &str) -> String {
    if name.contains(['.', '\'']) {
        return format!("{prefix}{index}_{}", name.trim_start_matches('@').replace(['.', '\''], "_"));
    }
    match name.strip_prefix('@') {
        Some(name) => format!("{prefix}_{name}"),
        None if prefix == FIRST => format!("state_{name}"),
        None => format!("{prefix}state_{name}"),
    }
}
