//! Where the values of maps and the frames of stacks are stored.
//!
//! In: chosen by `placement`, `windows` and `stacks`. Out: read by the code that accesses them.
//! Guarantee: plain data; `placement` says what is chosen when.

use crate::ir::{FunctionId, MapId};
use crate::object::{self, Attach};
use crate::typed::{ContextKind, Probe};

/// A map's storage.
#[derive(Debug, Clone)]
pub(super) enum Storage {
    /// Copies in `.bss`: a `u64` "was written", then the value.
    Global {
        /// `.bss` offset of the first copy.
        offset_bytes: u32,
        /// Distance between copies.
        stride_bytes: u32,
        /// Number of copies; more than one means one per CPU.
        copies: u32,
        /// Size of the value.
        value_size_bytes: u32,
    },
    /// A BPF map.
    Map {
        id: MapId,
        /// Whether each CPU has its own values.
        per_cpu: bool,
        /// `.bss` offset of the number of entries, if the script reads it.
        length_offset: Option<u32>,
    },
    /// A value per thread, in task-local storage.
    Threads {
        id: MapId,
        /// How the runtime reads it.
        read_by: object::ThreadMap,
    },
}

/// Which programs update a map, by how they can interrupt each other on one CPU.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Writers {
    /// Raw tracepoint programs outside of the system-call path, and fentry programs. The kernel
    /// only prevents each from interrupting itself.
    raw: Vec<usize>,
    /// Programs of perf events, perf tracepoints and kprobes, which the kernel never nests on a
    /// CPU.
    perf: bool,
    /// Programs on system-call entry and exit, which cannot interrupt each other.
    syscall: bool,
    /// Programs that can be preempted.
    preemptible: bool,
}

impl Writers {
    /// Adds a program.
    pub(super) fn add(&mut self, index: usize, probe: &Probe) {
        if probe.context.preemptible {
            self.preemptible = true;
            return;
        }
        match probe.context.kind {
            ContextKind::Tracepoint | ContextKind::PerfEvent | ContextKind::Registers => self.perf = true,
            ContextKind::RawTracepoint if is_at_system_calls(probe) => self.syscall = true,
            ContextKind::RawTracepoint | ContextKind::Empty | ContextKind::Iterator => {
                if !self.raw.contains(&index) {
                    self.raw.push(index);
                }
            }
        }
    }

    /// Whether per-CPU values need atomic operations.
    pub(super) fn need_atomics(&self) -> bool {
        self.preemptible || self.classes() > 1
    }

    /// Whether no two of them can run for the same thread at the same time: a preempted program
    /// stays with its thread.
    pub(super) fn take_turns_in_a_thread(&self) -> bool {
        self.classes() + usize::from(self.preemptible) <= 1
    }

    fn classes(&self) -> usize {
        self.raw.len() + usize::from(self.perf) + usize::from(self.syscall)
    }
}

/// Whether a raw tracepoint program runs on system-call entry and exit only.
fn is_at_system_calls(probe: &Probe) -> bool {
    let is_side = |name: &String| matches!(name.as_str(), "sys_enter" | "sys_exit");
    let by_name = || matches!(&probe.attach, Attach::RawTracepoint { names } if names.iter().all(is_side));
    probe.context.syscalls.is_some() || by_name()
}

/// The second buffer of a map.
#[derive(Debug, Clone)]
pub(super) struct Alternate {
    /// The bit of the generation word that selects the active buffer.
    pub bit: u32,
    pub place: Storage,
    /// Whether a buffer keeps its contents when programs switch to the other.
    pub keeps: bool,
}

/// The maps for stacks of up to `limit` frames.
#[derive(Debug, Clone)]
pub(super) struct StackMaps {
    pub limit: u8,
    pub table: Option<MapId>,
    pub overflow: MapId,
    /// The `.bss` offset of the buffers.
    pub buffers: u32,
    pub functions: Option<StackFunctions>,
    /// The function that walks user stacks by unwind tables.
    pub walk: Option<FunctionId>,
    /// A step of a walk for visited threads.
    pub visit: Option<FunctionId>,
}

/// The maps for walking user stacks by unwind tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnwindMaps {
    pub processes: MapId,
    pub files: MapId,
    pub rows: MapId,
    pub requests: MapId,
    pub pauses: MapId,
    /// The `.bss` offset of the rules that each CPU remembers.
    pub cache: u32,
}

/// The functions that store a stack in the overflow map.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackFunctions {
    /// Acquires a buffer of this CPU: returns its index, or the number of buffers if none is free.
    pub claim: FunctionId,
    /// Takes the index of a buffer and the size in bytes of the frames in it, or an error. Writes
    /// the stack's number, or an error, to the buffer.
    pub keep: FunctionId,
}
