//! The lower stage: compiles a typed program to IR and to the metadata that the runtime needs.
//!
//! In: [`typed::Program`] and the target. Out: [`Lowered`].
//! Guarantee: cannot fail; no builtin, function or aggregation is named in this module.
//!
//! Every program is lowered twice. The first pass collects facts that the code depends on: each
//! program's scratch size, the maps with deletions, whether there is a data ring. The second pass
//! generates the final code.

mod aggregates;
mod allocation;
mod body;
pub mod builtins;
mod captures;
mod conditions;
mod dispatch;
pub mod events;
mod expr;
pub mod failures;
mod function;
pub mod ids;
pub(crate) mod kernel_functions;
mod lookups;
mod loops;
pub mod maps;
pub mod memory;
mod merge;
pub(crate) mod packets;
mod pages;
mod params;
mod patterns;
mod placement;
pub mod prologue;
pub mod readings;
mod records;
mod returns;
mod runs;
pub mod sequence;
mod shared;
mod slot;
pub mod spans;
mod spell;
pub mod stacks;
pub mod static_arguments;
mod stmt;
mod storage;
pub mod table;
pub mod text;
pub mod threads;
pub(crate) mod typed_pointers;
mod unwind;
mod variables;
pub mod visited;
mod windows;

pub use body::{Body, Value};

pub use builtins::space_of;
pub use events::Channel;
pub use slot::AggregateSlot;
pub use text::{MAX_HAYSTACK_BYTES, MAX_NEEDLE_BYTES};

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::catalogue::Catalogue;
use crate::ir::{self, FunctionId};
use crate::object;
use crate::target::Target;
use crate::typed;

use merge::Merged;
use shared::{FirstPass, Shared};

/// The result of lowering.
#[derive(Debug)]
pub struct Lowered {
    /// Code and maps.
    pub ir: ir::Program,
    /// The object description without its ELF.
    pub object: object::Object,
}

/// Lowers a program. Blocks on the same event share a kernel program, except the blocks in `apart`.
/// Of the groups of maps that handlers print together or empty, the first `groups` are
/// double-buffered.
pub fn lower(
    program: &typed::Program,
    (catalogue, target): (&Catalogue, &dyn Target),
    apart: &BTreeSet<usize>,
    groups: usize,
) -> Lowered {
    let mut first = Shared::new(program, (catalogue, target), FirstPass::default(), Merged::of(program, apart), groups);
    first.run();
    let learned = first.learned;
    let mut second = Shared::new(program, (catalogue, target), learned, first.merged, groups);
    second.run();
    second.finish()
}

/// The blocks that share a kernel program with others.
pub fn merged(program: &typed::Program, apart: &BTreeSet<usize>) -> Vec<usize> {
    Merged::of(program, apart).programs.into_iter().flatten().collect()
}

/// Lowers a program with one kernel program for each block.
pub fn lower_separately(program: &typed::Program, language: (&Catalogue, &dyn Target)) -> Lowered {
    lower(program, language, &(0..program.probes.len()).collect(), program.windows.len())
}

impl<'a> Shared<'a> {
    fn new(
        program: &'a typed::Program,
        (catalogue, target): (&'a Catalogue, &'a dyn Target),
        facts: FirstPass,
        merged: Merged,
        groups: usize,
    ) -> Shared<'a> {
        let mut shared = Shared {
            program,
            catalogue,
            target,
            facts,
            learned: FirstPass::default(),
            merged,
            ir: ir::Program::default(),
            places: Vec::new(),
            alternates: Vec::new(),
            gate: 0,
            generation: None,
            span_places: Vec::new(),
            events: Vec::new(),
            strings: Vec::new(),
            ledger: Vec::new(),
            run_counters: Vec::new(),
            stack_maps: Vec::new(),
            tracing_frames: None,
            unwind_maps: None,
            data_ring: None,
            control_ring: None,
            packets: None,
            packet_files: BTreeSet::new(),
            wake_flag: None,
            start_time: None,
            wall_clock: None,
            expiry: None,
            result: None,
            zeros: (0, 0),
            name_table: None,
            param_offsets: Vec::new(),
            param_symbols: Vec::new(),
            param_maps: Vec::new(),
            readers: Vec::new(),
            entry_counters: Vec::new(),
            entry_counter_names: Vec::new(),
            list_head: OnceCell::new(),
        };
        shared.learned.writers = vec![storage::Writers::default(); program.maps.len()];
        shared.learned.span_writers = vec![storage::Writers::default(); program.spans.len()];
        shared.learned.scratch_bytes = vec![0; program.probes.len()];
        shared.learned.windowed = vec![0; program.probes.len()];
        // The gate and the generation word have a cache line that is only read while events occur.
        shared.gate = shared.bss_aligned(64, 64);
        shared.place_params();
        shared.make_rings();
        packets::make_buffers(&mut shared);
        shared.places = (0..program.maps.len()).map(|map| shared.place(map, placement::FIRST)).collect();
        shared.place_alternates(groups);
        shared.span_places = (0..program.spans.len()).map(|span| shared.span_place(span)).collect();
        shared.limit_memory();
        shared
    }

    fn run(&mut self) {
        let mut shared = vec![None; self.program.probes.len()];
        for (index, place) in shared.iter_mut().enumerate() {
            let function = lower_block(Body::new(self, index));
            if self.merged.has(index) {
                *place = Some(FunctionId(self.ir.subprograms.len() as u32));
                self.ir.subprograms.push(function);
            } else {
                self.ir.functions.push(function);
            }
        }
        self.dispatchers(&shared);
        self.ir.functions.append(&mut self.readers);
        self.entry_counter_names = (0..self.program.probes.len()).map(|index| self.returns_counter(index)).collect();
        self.ir.functions.append(&mut self.entry_counters);
        self.ir.rodata.resize(self.ir.rodata.len().next_multiple_of(8), 0);
    }

    fn finish(mut self) -> Lowered {
        let mut speller = spell::Speller::new(self.target);
        for field in self.events.iter_mut().flat_map(|event| &mut event.fields) {
            field.ty = speller.spell(&field.ty);
        }
        let probes = &self.program.probes;
        let mut counters = std::mem::take(&mut self.entry_counter_names);
        counters.resize(probes.len(), None);
        let programs = probes.iter().zip(counters).enumerate().map(|(index, (probe, entry_counter))| object::Program {
            name: merge::block_name(index),
            runs_in: self.merged.program_name(index),
            entry_counter,
            probes: probe.names.clone(),
            points: probe.points,
            attach: probe.attach.clone(),
            span: probe.span,
        });
        let maps = self.program.maps.iter().enumerate().map(|(index, map)| object::UserMap {
            name: map.name.clone(),
            key: map.key.as_ref().map(|key| speller.spell(key)),
            value: match &map.value {
                typed::MapValue::Plain(ty) => object::MapValue::Plain(speller.spell(ty)),
                typed::MapValue::Aggregate { word, params, signed, pages } => object::MapValue::Aggregate {
                    word: word.clone(),
                    params: params.clone(),
                    signed: *signed,
                    pages: *pages,
                },
            },
            unit: map.unit,
            storage: self.storage(&self.places[index]),
            alternate: self.alternates[index].as_ref().map(|alternate| object::Alternate {
                storage: self.storage(&alternate.place),
                bit: alternate.bit,
                keeps: alternate.keeps,
            }),
            thread: map.thread,
            span: map.span,
        });
        let maps: Vec<_> = maps.collect();
        let params = self.finish_params();
        let spans = (0..self.program.spans.len()).map(|span| self.span_in_object(span)).collect();
        let stack_tables = self.stack_tables();
        let unwinding = unwind::names(&self);
        let loaded_for = kernel_functions::of_programs(&self);
        let object = object::Object {
            elf: Vec::new(),
            loaded_for,
            programs: programs.collect(),
            maps,
            enums: speller.enums,
            events: self.events,
            probe_names: self.program.probe_names.clone(),
            strings: self.strings,
            data_ring: self.data_ring.map(|id| self.ir.maps[id.0 as usize].name.clone()),
            control_ring: self.control_ring.map(|id| self.ir.maps[id.0 as usize].name.clone()),
            packets: self.packets.map(|id| object::PacketBuffers {
                map: self.ir.maps[id.0 as usize].name.clone(),
                size_bytes: self.program.ring_size_bytes,
                files: self.packet_files,
            }),
            wake_flag_offset: self.wake_flag,
            start_time_offset: self.start_time,
            wall_clock_offset: self.wall_clock,
            expiry_offset: self.expiry,
            gate_offset: self.gate,
            result_offset: self.result,
            stack_tables,
            unwinding,
            ledger: self.ledger,
            run_counters: self.run_counters,
            config: self.program.config.clone(),
            params,
            views: self.program.views.clone(),
            generation_offset: self.generation,
            spans,
        };
        Lowered { ir: self.ir, object }
    }
}

/// Lowers a whole block.
fn lower_block(mut body: Body<'_, '_>) -> ir::Function {
    prologue::prologue(&mut body);
    windows::in_each(&mut body);
    body.b.switch_to(body.function.exit);
    prologue::epilogue(&mut body);
    body.shared.learned.scratch_bytes[body.index] = body.scratch.used_bytes;
    body.finish()
}
