//! Memory use of maps.
//!
//! In: maps, the number of CPUs. Out: bytes, and a diagnostic if they exceed the limit.
//! Guarantee: sizes of hash maps are right within a few percent; the kernel rounds entries and
//! buckets up.

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{ENTRY_OVERHEAD_BYTES, Map, MapKind, preallocated_bytes};
use crate::object::{StackTable, Storage, TimeSpan, UserMap, WhenFull};
use crate::statistics::Number;
use crate::typed::Program;
use crate::units::Unit;
use crate::unwind::{MAX_PROCESSES, MAX_SEGMENTS, PROCESS_BYTES, SEGMENT_WORDS};

/// Approximate overhead of the kernel per value in task storage.
const THREAD_OVERHEAD_BYTES: u64 = 80;

/// The memory use of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Its kind, as text.
    pub kind: &'static str,
    /// Maximum number of keys, or of pages of keys; `None` for a map without keys.
    pub keys: Option<u32>,
    /// Bytes of one key with its value, summed over all CPUs.
    pub bytes_per_key: u64,
    /// Bytes when the map is full, including both buffers of a double-buffered map.
    pub total_bytes: u64,
    /// Whether the memory is allocated as keys are added.
    pub on_demand: bool,
}

/// The memory use of a script's map on a machine with `cpus` CPUs.
pub fn of(map: &UserMap, cpus: u64) -> Memory {
    let places = 1 + u64::from(map.alternate.is_some());
    match &map.storage {
        Storage::Global { stride_bytes, copies, .. } => {
            let bytes = u64::from(*stride_bytes) * u64::from(*copies);
            let kind = if *copies > 1 { "a value a CPU" } else { "one value" };
            Memory { kind, keys: None, bytes_per_key: bytes, total_bytes: bytes * places, on_demand: false }
        }
        Storage::Threads(_) => {
            Memory { kind: "a value a thread", keys: None, bytes_per_key: 0, total_bytes: 0, on_demand: true }
        }
        Storage::Map { per_cpu, key_size_bytes, value_size_bytes, max_entries, on_demand, evicts, .. } => {
            let kind = match (*per_cpu, *evicts) {
                _ if map.value.pages().is_some() => "pages of keys",
                (false, false) => "hash",
                (true, false) => "percpuhash",
                (false, true) => "lruhash",
                (true, true) => "percpulruhash",
            };
            let copies = if *per_cpu { cpus } else { 1 };
            let value = u64::from(*value_size_bytes).next_multiple_of(8) * copies;
            let bytes_per_key = ENTRY_OVERHEAD_BYTES + u64::from(*key_size_bytes) + value;
            let total_bytes = u64::from(*max_entries) * bytes_per_key * places;
            Memory { kind, keys: Some(*max_entries), bytes_per_key, total_bytes, on_demand: *on_demand }
        }
    }
}

/// The memory use of a span's open starts, and of its counters.
pub fn of_span(span: &TimeSpan) -> [Memory; 2] {
    let value = u64::from(span.value_size_bytes).next_multiple_of(8);
    let counted = u64::from(span.stride_bytes) * u64::from(span.copies);
    let ledger =
        Memory { kind: "counters a CPU", keys: None, bytes_per_key: 0, total_bytes: counted, on_demand: false };
    if span.map.is_none() {
        let bytes_per_key = THREAD_OVERHEAD_BYTES + value;
        let threads = Memory { kind: "one a thread", keys: None, bytes_per_key, total_bytes: 0, on_demand: true };
        return [threads, ledger];
    }
    let kind = match (span.max_depth, span.when_full) {
        (Some(_), _) => "hash of stacks",
        (None, WhenFull::Evict) => "hash that evicts",
        (None, WhenFull::Refuse) => "hash",
    };
    let bytes_per_key = ENTRY_OVERHEAD_BYTES + u64::from(span.key_size_bytes).next_multiple_of(8) + value;
    let total_bytes = u64::from(span.limit) * bytes_per_key;
    [Memory { kind, keys: Some(span.limit), bytes_per_key, total_bytes, on_demand: span.on_demand }, ledger]
}

/// The most slots of the kernel's table of stacks. It is preallocated: 17 MiB at 127 frames.
const MAX_TABLE_SLOTS: u32 = 16 << 10;
/// The kernel's size of a slot besides its frames: a pointer, and a header for the stack.
const SLOT_OVERHEAD_BYTES: u64 = 32;

/// Slots of the kernel's table for this many stacks: a power of two.
pub(crate) fn table_slots(stacks: u32) -> u32 {
    stacks.next_power_of_two().min(MAX_TABLE_SLOTS)
}

/// The memory use of a table of stacks: of the kernel's table if the script uses it, and of the map
/// for all others.
pub fn of_stacks(table: &StackTable) -> Vec<Memory> {
    let frames = u64::from(table.limit) * 8;
    let memory = |kind, keys: u32, bytes_per_key, on_demand| {
        let total_bytes = u64::from(keys) * bytes_per_key;
        Memory { kind, keys: Some(keys), bytes_per_key, total_bytes, on_demand }
    };
    let slots = table_slots(table.capacity);
    let first = table.map.as_ref().map(|_| memory("kernel's table", slots, SLOT_OVERHEAD_BYTES + frames, false));
    let bytes_per_key = ENTRY_OVERHEAD_BYTES + 8 + frames.next_multiple_of(64);
    first.into_iter().chain([memory("hash", table.capacity, bytes_per_key, true)]).collect()
}

/// The memory use of unwind tables: the rows of files, and the mappings of processes.
pub fn of_unwinding() -> [Memory; 2] {
    let memory = |kind, keys: u32, size_bytes: usize| {
        let bytes_per_key = ENTRY_OVERHEAD_BYTES + 4 + size_bytes as u64;
        Memory { kind, keys: Some(keys), bytes_per_key, total_bytes: u64::from(keys) * bytes_per_key, on_demand: true }
    };
    [memory("rows of files", MAX_SEGMENTS, SEGMENT_WORDS * 8), memory("mappings", MAX_PROCESSES, PROCESS_BYTES)]
}

fn text(bytes: u64) -> String {
    Unit::Bytes.text(Number::Integer(i128::from(bytes)).as_f64())
}

/// Reports an error if preallocated maps exceed the script's memory limit. It is reported for the
/// largest evicting map, since evicting maps cannot be allocated on demand.
pub fn check(program: &Program, maps: &[Map], cpus: u64) -> Result<(), Vec<Diagnostic>> {
    let (taken, most) = (preallocated_bytes(maps, cpus), program.max_map_memory_bytes);
    if taken <= most {
        return Ok(());
    }
    let evicting = maps.iter().filter(|map| matches!(map.kind, MapKind::LruHash | MapKind::LruPerCpuHash));
    let Some(largest) = evicting.max_by_key(|map| map.memory_bytes(cpus)) else { return Ok(()) };
    let name = largest.name.split_once('_').map_or("", |(_, name)| name);
    let Some(map) = program.maps.iter().find(|map| map.name[1..] == *name) else { return Ok(()) };
    let message = format!("the maps of this script take {} at the start, the limit is {}", text(taken), text(most));
    let label = format!("`{}` takes {} of it", map.name, text(largest.memory_bytes(cpus)));
    let wanted = (taken >> 20) + 1;
    let span = map.declared.as_ref().map_or(map.span, |declared| declared.span);
    let help = format!("give it fewer entries, or raise the limit: `config = {{ max_map_memory_mb = {wanted} }}`");
    Err(vec![Diagnostic::error(Code(521), span, message).label(label).help(help)])
}
