//! Where each map of the script lives.
//!
//! In: a map's types, the facts of the first round, the number of CPUs. Out: a [`Place`] and the BPF map behind it.
//! Guarantee: an update is never lost to another CPU, to an interrupt or to preemption: a plain read-modify-write is chosen
//! only where nothing can come between.
//!
//! | map | place | cost over an empty program, as measured by hand-written programs on Linux 6.18 |
//! |---|---|---|
//! | scalar, assigned or counted up | one copy in `.bss` | 1–4 ns |
//! | scalar aggregation | a copy in `.bss` for each CPU, a cache line apart | 2 ns |
//! | keyed aggregation | per-CPU hash; a shared hash with atomics when per-CPU copies would be large | 16 ns |
//! | keyed, assigned | hash | 15–60 ns |

use crate::ir::{Map, MapId, MapKind, preallocated_bytes};
use crate::layout;
use crate::lower::Shared;
use crate::object;
use crate::typed::{ContextKind, MapValue, Probe};

/// A map's place.
#[derive(Debug, Clone)]
pub enum Place {
    /// Copies in `.bss`: a `u64` "was written", then the value.
    Global {
        /// First copy.
        offset_bytes: u32,
        /// Distance of copies.
        stride_bytes: u32,
        /// How many; more than one means one for each CPU.
        copies: u32,
        /// Size of the value.
        value_size_bytes: u32,
    },
    /// A BPF map.
    Map {
        /// Which.
        id: MapId,
        /// Whether each CPU has its own values.
        per_cpu: bool,
        /// `.bss` offset of its number of entries, when the script asks for it.
        length_offset: Option<u32>,
    },
    /// A value of each thread, in its own storage.
    Threads {
        /// Which.
        id: MapId,
        /// How the runtime reads it.
        read_by: object::ThreadMap,
    },
}

/// Which programs update a map, by how they can interrupt each other on one CPU.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Writers {
    /// Raw tracepoint programs outside of the system-call path, and fentry programs; each is guarded against itself only.
    raw: Vec<usize>,
    /// Programs of perf events, perf tracepoints and kprobes, which the kernel never nests on a CPU.
    perf: bool,
    /// Programs on system-call entry and exit, which cannot interrupt each other.
    syscall: bool,
    /// Programs that can be preempted in the middle.
    preemptible: bool,
}

impl Writers {
    /// Notes one more program.
    pub fn add(&mut self, index: usize, probe: &Probe) {
        if probe.context.preemptible {
            self.preemptible = true;
            return;
        }
        match probe.context.kind {
            ContextKind::Tracepoint | ContextKind::PerfEvent | ContextKind::Registers => self.perf = true,
            ContextKind::RawTracepoint if probe.context.syscalls.is_some() => self.syscall = true,
            ContextKind::RawTracepoint | ContextKind::Empty | ContextKind::Iterator => {
                if !self.raw.contains(&index) {
                    self.raw.push(index);
                }
            }
        }
    }

    /// Whether per-CPU values need atomic operations.
    pub fn need_atomics(&self) -> bool {
        let classes = self.raw.len() + usize::from(self.perf) + usize::from(self.syscall);
        self.preemptible || classes > 1
    }
}

/// Per-CPU values of one map above this size go to a shared hash instead.
const MAX_PER_CPU_BYTES: u64 = 64 << 20;

/// Maps above this size are filled on demand instead of beforehand. A burst of new keys can find the kernel's allocator for
/// such maps empty, and is then refused although there is room (and counted): so only where memory really matters.
const MAX_PREALLOCATED_BYTES: u64 = 64 << 20;

/// Distance of two CPUs' values: a cache line, so that they do not fight for it.
const CACHE_LINE_BYTES: u32 = 64;

impl Shared<'_> {
    /// Makes a place for a map.
    pub fn place(&mut self, index: usize, prefix: &str) -> Place {
        let map = &self.program.maps[index];
        let mut value_size_bytes = self.value_size_bytes(&map.value);
        let aggregate = matches!(map.value, MapValue::Aggregate { .. });
        let Some(key) = &map.key else {
            let copies = if aggregate { self.cpu_slots() } else { 1 };
            let stride_bytes = (8 + value_size_bytes).next_multiple_of(CACHE_LINE_BYTES);
            let offset_bytes = self.bss_aligned(stride_bytes * copies, CACHE_LINE_BYTES);
            return Place::Global { offset_bytes, stride_bytes, copies, value_size_bytes };
        };
        if map.of_threads {
            let name = symbol_name(index, prefix, &map.name);
            let id = self.thread_map(name, value_size_bytes);
            let read_by = self.thread_reader(id, map.span);
            return Place::Threads { id, read_by };
        }
        let max_entries = map.declared.as_ref().map_or(self.program.max_map_keys, |declared| declared.max_entries);
        let evicts = map.declared.as_ref().is_some_and(|declared| declared.kind.evicts);
        let mut key_size_bytes = layout::of(key, self.target.btf_if_needed(key)).size_bytes.max(1);
        let cpus = u64::from(self.target.possible_cpus());
        let mut max_entries = max_entries;
        if let Some(pages) = map.value.pages() {
            value_size_bytes = pages.size_bytes;
            key_size_bytes = super::pages::key_size_bytes(key_size_bytes);
            max_entries = super::pages::entries(max_entries, pages, cpus, MAX_PER_CPU_BYTES);
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
        // A map that drops entries has them all from the start.
        made.no_prealloc = made.memory_bytes(cpus) > MAX_PREALLOCATED_BYTES && !evicts;
        self.ir.maps.push(made);
        let id = MapId(self.ir.maps.len() as u32 - 1);
        let length_offset = self.facts.measured.contains(&index).then(|| self.bss(8));
        Place::Map { id, per_cpu, length_offset }
    }

    /// Lets the largest maps get their memory as entries come, until what all of them take beforehand is within bounds.
    pub fn limit_memory(&mut self) {
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
            MapValue::Aggregate { word, params, .. } => word.size_bytes(params),
        }
    }

    /// A place in the words of the object.
    pub fn storage(&self, place: &Place) -> object::Storage {
        match place {
            Place::Threads { read_by, .. } => object::Storage::Threads(read_by.clone()),
            Place::Global { offset_bytes, stride_bytes, copies, value_size_bytes } => object::Storage::Global {
                offset_bytes: *offset_bytes,
                stride_bytes: *stride_bytes,
                copies: *copies,
                value_size_bytes: *value_size_bytes,
            },
            Place::Map { id, per_cpu, length_offset } => {
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

/// A map's name as a symbol: `@` is `at_`, `@start` is `at_start`; of a state, `thread` is `state_thread`. Names of modules have marks in
/// them, and get their number.
fn symbol_name(index: usize, prefix: &str, name: &str) -> String {
    if name.contains(['.', '\'']) {
        return format!("{prefix}{index}_{}", name.trim_start_matches('@').replace(['.', '\''], "_"));
    }
    match name.strip_prefix('@') {
        Some(name) => format!("{prefix}_{name}"),
        None => format!("state_{name}"),
    }
}
