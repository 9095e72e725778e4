//! What all programs of a script share while they are lowered: the object as built so far.
//!
//! In: a typed program, the facts of the first pass. Out: maps, data, events, counters.
//! Guarantee: a word, string or counter that was allocated is found again, not allocated twice.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::btf::BtfId;
use crate::catalogue::Catalogue;
use crate::ir::{self, MapId};
use crate::lower::merge::Merged;
use crate::lower::spans::SpanPlace;
use crate::lower::storage::{Alternate, StackMaps, Storage, UnwindMaps, Writers};
use crate::object::{Counter, Event, Loss, RunCounter};
use crate::target::Target;
use crate::typed;

/// Facts that the first pass collects for the second.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct FirstPass {
    /// Scratch memory of each program, in bytes.
    pub scratch_bytes: Vec<u32>,
    /// Whether any program sends records through the data ring.
    pub data_ring: bool,
    /// Whether any program sends records through the control ring.
    pub control_ring: bool,
    /// Whether any program sends packets.
    pub packets: bool,
    /// Maps with deletions.
    pub deleted: BTreeSet<usize>,
    /// Maps whose number of entries is read.
    pub measured: BTreeSet<usize>,
    /// By map: the programs that update it, by how they can interrupt each other.
    pub writers: Vec<Writers>,
    /// Programs that may call `exit`.
    pub exits: BTreeSet<usize>,
    /// By program: the window bits of the maps that it accesses.
    pub windowed: Vec<u64>,
    /// By span: the programs that update its ledger, as `writers`.
    pub span_writers: Vec<Writers>,
}

/// State shared by all programs during lowering.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub program: &'a typed::Program,
    pub catalogue: &'a Catalogue,
    pub target: &'a dyn Target,
    pub facts: FirstPass,
    pub learned: FirstPass,
    /// Which blocks share a kernel program.
    pub merged: Merged,
    pub ir: ir::Program,
    pub places: Vec<Storage>,
    /// By map: the second buffer, if windows double-buffer it.
    pub alternates: Vec<Option<Alternate>>,
    /// The `.bss` offset of the gate.
    pub gate: u32,
    /// The `.bss` offset of the generation word, if any map is double-buffered.
    pub generation: Option<u32>,
    pub span_places: Vec<SpanPlace>,
    pub events: Vec<Event>,
    pub strings: Vec<String>,
    pub ledger: Vec<Counter>,
    pub run_counters: Vec<RunCounter>,
    pub stack_maps: Vec<StackMaps>,
    /// The function that counts the frames of the kernel's tracing in a stack.
    pub tracing_frames: Option<ir::FunctionId>,
    pub unwind_maps: Option<UnwindMaps>,
    pub data_ring: Option<MapId>,
    pub control_ring: Option<MapId>,
    pub packets: Option<MapId>,
    pub packet_files: BTreeSet<String>,
    pub wake_flag: Option<u32>,
    pub start_time: Option<u32>,
    pub wall_clock: Option<u32>,
    pub expiry: Option<u32>,
    pub result: Option<u32>,
    pub zeros: (u32, u32),
    /// The `.rodata` offset of the names of probes, if a program copies them.
    pub name_table: Option<u32>,
    /// `.rodata` offsets of the parameters.
    pub param_offsets: Vec<u32>,
    /// Symbol names of the parameters.
    pub param_symbols: Vec<String>,
    /// The maps of the parameters that are sets.
    pub param_maps: Vec<Option<MapId>>,
    /// Programs with which the runtime reads per-thread values. They are not probes.
    pub readers: Vec<ir::Function>,
    /// Programs at the entries of functions whose returns are probed, and their names by program.
    /// They are not probes either.
    pub entry_counters: Vec<ir::Function>,
    pub entry_counter_names: Vec<Option<String>>,
    /// The kernel's `struct list_head`, once it has been looked for.
    pub list_head: OnceCell<Option<BtfId>>,
}

impl Shared<'_> {
    /// CPUs rounded up to a power of two, so that a mask bounds a CPU number for the verifier.
    pub(super) fn cpu_slots(&self) -> u32 {
        self.target.possible_cpus().max(1).next_power_of_two()
    }

    /// Reserves `.bss` space, aligned to 8 bytes.
    pub(super) fn bss(&mut self, size_bytes: u32) -> u32 {
        self.bss_aligned(size_bytes, 8)
    }

    /// The `.bss` offset of a word that is allocated on first use.
    pub(super) fn word(&mut self, offset: impl Fn(&mut Self) -> &mut Option<u32>) -> u32 {
        if let Some(made) = *offset(self) {
            return made;
        }
        let made = self.bss(8);
        *offset(self) = Some(made);
        made
    }

    /// Reserves bytes of `.bss` at a multiple of `align_bytes` and returns their offset. More than
    /// 4 GiB, which long strings can take on a machine with many CPUs, saturate: the kernel refuses
    /// the map.
    pub(super) fn bss_aligned(&mut self, size_bytes: u32, align_bytes: u32) -> u32 {
        let offset = self.ir.bss_size_bytes.checked_next_multiple_of(align_bytes).unwrap_or(u32::MAX);
        self.ir.bss_size_bytes = offset.saturating_add(size_bytes);
        offset
    }

    /// Appends bytes to `.rodata`, aligned to 8; returns their offset.
    pub(super) fn rodata(&mut self, bytes: &[u8]) -> u32 {
        self.ir.rodata.resize(self.ir.rodata.len().next_multiple_of(8), 0);
        let offset = self.ir.rodata.len() as u32;
        self.ir.rodata.extend_from_slice(bytes);
        offset
    }

    /// The `.rodata` offset of at least `size_bytes` zero bytes.
    pub(super) fn zeros(&mut self, size_bytes: u32) -> u32 {
        if self.zeros.1 < size_bytes {
            self.zeros = (self.rodata(&vec![0; size_bytes as usize]), size_bytes);
        }
        self.zeros.0
    }

    /// The `.bss` offset of a loss counter, allocated on first use.
    pub(super) fn counter(&mut self, loss: Loss) -> u32 {
        if let Some(known) = self.ledger.iter().find(|c| c.loss == loss) {
            return known.offset_bytes;
        }
        let offset_bytes = self.bss(8);
        self.ledger.push(Counter { offset_bytes, loss });
        offset_bytes
    }

    /// The index of a string in the object's string table.
    pub(super) fn string(&mut self, text: &str) -> u64 {
        if let Some(at) = self.strings.iter().position(|s| s == text) {
            return at as u64;
        }
        self.strings.push(text.to_string());
        self.strings.len() as u64 - 1
    }
}
