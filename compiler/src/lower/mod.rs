//! The lower stage: a typed program becomes IR and everything a runtime must know about it.
//!
//! In: [`typed::Program`] and the target. Out: [`Lowered`].
//! Guarantee: cannot fail; nothing here names a word of the language.
//!
//! Every program is lowered twice: the first time to learn facts that the code depends on (how much scratch memory a
//! program needs, which maps are deleted from, whether there is a data ring), the second time for good.

mod body;
mod captures;
mod conditions;
mod events;
mod expr;
mod failures;
mod find;
mod ids;
mod lookups;
mod loops;
mod maps;
mod memory;
mod pages;
mod params;
mod patterns;
mod prologue;
mod readings;
mod records;
mod search;
mod spans;
mod spell;
mod static_arguments;
mod stmt;
mod storage;
mod table;
mod threads;
mod variables;
mod windows;
mod words;

pub use body::{Body, Value};
pub use events::Channel;
pub use maps::AggregateSlot;
pub use search::{MAX_HAYSTACK_BYTES, MAX_NEEDLE_BYTES};
pub use words::space_of;

use std::collections::BTreeSet;

use crate::ir::{self, MapId};
use crate::object::{self, Counter, Event, Loss, StackTable};
use crate::target::Target;
use crate::typed;

/// The result of lowering.
#[derive(Debug)]
pub struct Lowered {
    /// Code and maps.
    pub ir: ir::Program,
    /// Everything of the object but its ELF.
    pub object: object::Object,
}

/// What the first round found out and the second one needs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Facts {
    /// Scratch bytes of each program.
    scratch_bytes: Vec<u32>,
    /// Whether anything is sent through the data ring.
    data_ring: bool,
    /// Whether anything is sent through the control ring.
    control_ring: bool,
    /// Maps that entries are deleted from.
    deleted: BTreeSet<usize>,
    /// Maps whose length is asked for.
    measured: BTreeSet<usize>,
    /// How each program that updates a map can be interrupted, by map.
    writers: Vec<storage::Writers>,
    /// Programs that touch a map with two places.
    windowed: BTreeSet<usize>,
    /// The same of each span's ledger.
    span_writers: Vec<storage::Writers>,
}

/// What all programs share while they are lowered.
#[derive(Debug)]
struct Shared<'a> {
    program: &'a typed::Program,
    target: &'a dyn Target,
    facts: Facts,
    learned: Facts,
    ir: ir::Program,
    places: Vec<storage::Place>,
    /// The second place of maps that a view takes by windows.
    alternates: Vec<Option<storage::Place>>,
    /// The `.bss` offset of the generation, when there are such maps.
    generation: Option<u32>,
    span_places: Vec<spans::SpanPlace>,
    events: Vec<Event>,
    strings: Vec<String>,
    ledger: Vec<Counter>,
    stack_tables: Vec<(StackTable, [MapId; 2])>,
    data_ring: Option<MapId>,
    control_ring: Option<MapId>,
    wake_flag: Option<u32>,
    start_time: Option<u32>,
    wall_clock: Option<u32>,
    result: Option<u32>,
    zeros: (u32, u32),
    /// Where in `.rodata` each parameter is.
    param_offsets: Vec<u32>,
    /// Their names in symbols.
    param_symbols: Vec<String>,
    /// The maps of those that are sets.
    param_maps: Vec<Option<MapId>>,
    /// Programs by which the runtime reads the values of threads; they are no probes.
    readers: Vec<ir::Function>,
}

/// Lowers a program.
pub fn lower(program: &typed::Program, target: &dyn Target) -> Lowered {
    let mut first = Shared::new(program, target, Facts::default());
    first.run();
    let learned = first.learned;
    let mut second = Shared::new(program, target, learned);
    second.run();
    second.finish()
}

impl<'a> Shared<'a> {
    fn new(program: &'a typed::Program, target: &'a dyn Target, facts: Facts) -> Shared<'a> {
        let mut shared = Shared {
            program,
            target,
            facts,
            learned: Facts::default(),
            ir: ir::Program::default(),
            places: Vec::new(),
            alternates: Vec::new(),
            generation: None,
            span_places: Vec::new(),
            events: Vec::new(),
            strings: Vec::new(),
            ledger: Vec::new(),
            stack_tables: Vec::new(),
            data_ring: None,
            control_ring: None,
            wake_flag: None,
            start_time: None,
            wall_clock: None,
            result: None,
            zeros: (0, 0),
            param_offsets: Vec::new(),
            param_symbols: Vec::new(),
            param_maps: Vec::new(),
            readers: Vec::new(),
        };
        shared.learned.writers = vec![storage::Writers::default(); program.maps.len()];
        shared.learned.span_writers = vec![storage::Writers::default(); program.spans.len()];
        shared.learned.scratch_bytes = vec![0; program.probes.len()];
        shared.place_params();
        shared.make_rings();
        shared.places = (0..program.maps.len()).map(|map| shared.place(map, "at")).collect();
        let windowed = windows::windowed(program);
        let alternate = |map| windowed.contains(&map).then(|| shared.place(map, "alt"));
        shared.alternates = (0..program.maps.len()).map(alternate).collect();
        shared.generation = (!windowed.is_empty()).then(|| shared.bss(8));
        shared.span_places = (0..program.spans.len()).map(|span| shared.span_place(span)).collect();
        shared.limit_memory();
        shared
    }

    fn run(&mut self) {
        for index in 0..self.program.probes.len() {
            let function = Body::new(self, index).lower();
            self.ir.functions.push(function);
        }
        self.ir.functions.append(&mut self.readers);
        self.ir.rodata.resize(self.ir.rodata.len().next_multiple_of(8), 0);
    }

    /// CPUs rounded up to a power of two, so that a mask bounds a CPU number for the verifier.
    fn cpu_slots(&self) -> u32 {
        self.target.possible_cpus().max(1).next_power_of_two()
    }

    /// Room in `.bss`, aligned to 8 bytes.
    fn bss(&mut self, size_bytes: u32) -> u32 {
        self.bss_aligned(size_bytes, 8)
    }

    fn bss_aligned(&mut self, size_bytes: u32, align_bytes: u32) -> u32 {
        let offset = self.ir.bss_size_bytes.next_multiple_of(align_bytes);
        self.ir.bss_size_bytes = offset + size_bytes;
        offset
    }

    /// A place in `.rodata` with these bytes, aligned to 8.
    fn rodata(&mut self, bytes: &[u8]) -> u32 {
        self.ir.rodata.resize(self.ir.rodata.len().next_multiple_of(8), 0);
        let offset = self.ir.rodata.len() as u32;
        self.ir.rodata.extend_from_slice(bytes);
        offset
    }

    /// The offset in `.rodata` of at least so many zero bytes.
    fn zeros(&mut self, size_bytes: u32) -> u32 {
        if self.zeros.1 < size_bytes {
            self.zeros = (self.rodata(&vec![0; size_bytes as usize]), size_bytes);
        }
        self.zeros.0
    }

    /// The `.bss` offset of a loss counter, made on first use.
    fn counter(&mut self, loss: Loss) -> u32 {
        if let Some(known) = self.ledger.iter().find(|c| c.loss == loss) {
            return known.offset_bytes;
        }
        let offset_bytes = self.bss(8);
        self.ledger.push(Counter { offset_bytes, loss });
        offset_bytes
    }

    /// The index of a string in the object.
    fn string(&mut self, text: &str) -> u64 {
        if let Some(at) = self.strings.iter().position(|s| s == text) {
            return at as u64;
        }
        self.strings.push(text.to_string());
        self.strings.len() as u64 - 1
    }

    fn finish(mut self) -> Lowered {
        let mut speller = spell::Speller::new(self.target);
        for field in self.events.iter_mut().flat_map(|event| &mut event.fields) {
            field.ty = speller.spell(&field.ty);
        }
        let probes = &self.program.probes;
        let programs = probes.iter().zip(&self.ir.functions).map(|(probe, function)| object::Program {
            name: function.name.clone(),
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
                typed::MapValue::Aggregate { word, params, signed } => {
                    object::MapValue::Aggregate { word: *word, params: params.clone(), signed: *signed }
                }
            },
            unit: map.unit,
            storage: self.storage(&self.places[index]),
            alternate: self.alternates[index].as_ref().map(|place| self.storage(place)),
            span: map.span,
        });
        let maps: Vec<_> = maps.collect();
        let params = self.finish_params();
        let spans = (0..self.program.spans.len()).map(|span| self.span_in_object(span)).collect();
        let object = object::Object {
            elf: Vec::new(),
            programs: programs.collect(),
            maps,
            enums: speller.enums,
            events: self.events,
            probe_names: self.program.probe_names.clone(),
            strings: self.strings,
            data_ring: self.data_ring.map(|id| self.ir.maps[id.0 as usize].name.clone()),
            control_ring: self.control_ring.map(|id| self.ir.maps[id.0 as usize].name.clone()),
            wake_flag_offset: self.wake_flag,
            start_time_offset: self.start_time,
            wall_clock_offset: self.wall_clock,
            result_offset: self.result,
            stack_tables: self.stack_tables.into_iter().map(|(table, _)| table).collect(),
            ledger: self.ledger,
            config: self.program.config.clone(),
            params,
            views: self.program.views.clone(),
            generation_offset: self.generation,
            spans,
        };
        Lowered { ir: self.ir, object }
    }
}
