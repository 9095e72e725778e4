//! Spans: one hash map each, and a ledger that adds up.
//!
//! In: [`SpanStep`]s. Out: code, the map, counters a CPU.
//! Guarantee: whatever CPUs, interrupts and preempted programs do to one key at the same moment, each start is closed by exactly one
//! of end, replace, expire and evict, and each of these is counted once.
//!
//! A value begins with a *word*: the start's time in nanoseconds above four bits of stage. It is the lock: whoever closes a span or
//! changes its stage does so by exchanging the word that it read for another one. An element of the kernel's map that is deleted
//! may be given to another key at once, while somebody still holds its address; but its word is then another, for no two starts
//! of one element fall on the same nanosecond. So a word is read between two look-ups that find the same element, and whoever
//! then exchanges that very word holds what belongs to the key.
//!
//! | word | the element |
//! |---|---|
//! | 0 | is being closed: its owner copies what it needs, and deletes it |
//! | 1 | is left over, because the kernel would not delete it; the next start or sweep takes it |
//! | time, 15 | is being written by a mark |
//! | time, stage | is open |

mod claim;
mod close;
mod events;
mod evict;
mod mark;
mod nest;
mod open;
mod sweep;
mod threads;

use crate::ir::{Addr, BinOp, CmpOp, Likely, Map, MapId, MapKind, Operand, Section, Size, VReg, Width};
use crate::layout;
use crate::lower::{Body, Shared, Value};
use crate::object::{self, SpanCounter, WhenFull};
use crate::typed::{
    ContextKind, Probe, Restart, SpanAction, SpanIndex, SpanStep, SpanValues, Stmt, StmtKind, VarIndex,
};

/// Bits of a word below the time.
const STAGE_BITS: i64 = 4;
/// Them.
const STAGE_MASK: i64 = 15;
/// The stage of an element that a mark is writing.
const MARKING: i64 = 15;
/// The stage of a start.
const STARTED: i64 = 1;
/// Words below this one are of elements that are not open.
const FIRST_OPEN: i64 = 16;
/// An element that is left over.
const LEFT_OVER: i64 = 1;
/// Distance of two CPUs' ledgers: cache lines.
const CACHE_LINE_BYTES: u32 = 64;
/// How deep functions may nest.
const MAX_DEPTH: u32 = 32;
/// Maps above this size are filled on demand, as those of scripts.
const MAX_PREALLOCATED_BYTES: u64 = 64 << 20;

/// Where a span lives.
#[derive(Debug, Clone)]
pub(super) struct SpanPlace {
    /// The map.
    id: MapId,
    /// Whether each thread has its value in storage of its own.
    in_threads: bool,
    /// Offset of the time of the last stage.
    last: Option<i32>,
    /// Offsets of the stored fields.
    fields: Vec<i32>,
    /// Bytes of one start: a value, or a frame of a value.
    size_bytes: u32,
    /// The first CPU's counters.
    counters: u32,
    stride_bytes: u32,
}

impl Shared<'_> {
    /// Makes the place of a span.
    pub(super) fn span_place(&mut self, index: usize) -> SpanPlace {
        let span = &self.program.spans[index];
        let mut size_bytes = 8;
        let last = span.keeps_lap.then(|| {
            size_bytes += 8;
            8
        });
        let mut fields = Vec::with_capacity(span.stored.len());
        for (_, ty) in &span.stored {
            let of = layout::of(ty, self.target.btf_if_needed(ty));
            size_bytes = u32::next_multiple_of(size_bytes, of.align_bytes.max(1));
            fields.push(size_bytes as i32);
            size_bytes += of.size_bytes;
        }
        size_bytes = size_bytes.next_multiple_of(8);
        let nests = span.restart == Restart::Nest;
        let value_size_bytes = if nests { 8 + MAX_DEPTH * size_bytes } else { size_bytes };
        let key_size_bytes = layout::of(&span.key, self.target.btf_if_needed(&span.key)).size_bytes.max(1);
        let total = u64::from(span.limit) * u64::from(value_size_bytes + key_size_bytes + 48);
        let in_threads = span.is_of_thread && self.may_use_storage(index);
        self.ir.maps.push(Map {
            name: format!("span{index}_{}", span.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")),
            kind: if in_threads { MapKind::TaskStorage } else { MapKind::Hash },
            key_size_bytes: if in_threads { 4 } else { key_size_bytes },
            value_size_bytes,
            max_entries: if in_threads { 0 } else { span.limit },
            no_prealloc: in_threads || total > MAX_PREALLOCATED_BYTES,
        });
        let stages = if span.stages.len() > 1 { span.stages.len() as u32 } else { 0 };
        let stride_bytes = ((SpanCounter::COUNT + stages) * 8).next_multiple_of(CACHE_LINE_BYTES);
        let id = MapId(self.ir.maps.len() as u32 - 1);
        let counters = self.bss_aligned(stride_bytes * self.cpu_slots(), CACHE_LINE_BYTES);
        SpanPlace { id, in_threads, last, fields, size_bytes, counters, stride_bytes }
    }

    /// Whether no stage's program may interrupt the kernel where it cannot make storage: those of perf events can come at any instruction.
    fn may_use_storage(&self, index: usize) -> bool {
        let has_step =
            |probe: &&Probe| probe.body.iter().any(|stmt| steps_of(stmt).iter().any(|step| step.span.0 == index));
        let mut probes = self.program.probes.iter().filter(has_step);
        probes.all(|probe| probe.context.kind != ContextKind::PerfEvent)
    }

    /// The span in the words of the object.
    pub(super) fn span_in_object(&self, index: usize) -> object::TimeSpan {
        let (span, place) = (&self.program.spans[index], &self.span_places[index]);
        let map = &self.ir.maps[place.id.0 as usize];
        object::TimeSpan {
            name: span.name.clone(),
            map: (!place.in_threads).then(|| map.name.clone()),
            key_size_bytes: if place.in_threads { 0 } else { map.key_size_bytes },
            value_size_bytes: map.value_size_bytes,
            on_demand: map.no_prealloc,
            max_depth: (span.restart == Restart::Nest).then_some(u64::from(MAX_DEPTH)),
            limit: span.limit,
            counters_offset: place.counters,
            stride_bytes: place.stride_bytes,
            copies: self.cpu_slots(),
            when_full: if span.evicts { WhenFull::Evict } else { WhenFull::Refuse },
            keeps: span.restart == Restart::Keep,
            has_marks: span.stages.len() > 1,
        }
    }
}

/// The steps of spans in a statement of a program that is made of them, also of those that hang on events of others.
fn steps_of(stmt: &Stmt) -> Vec<&SpanStep> {
    match &stmt.kind {
        StmtKind::If(_, then, _) => then.iter().flat_map(steps_of).collect(),
        StmtKind::Span(step) => {
            let handlers = step.handlers.iter().chain(step.replaced.iter().flat_map(|(_, handlers)| handlers));
            std::iter::once(&**step).chain(handlers.flatten().flat_map(steps_of)).collect()
        }
        _ => Vec::new(),
    }
}

/// The counters of this CPU, in a program that is at work on a span.
#[derive(Debug, Clone, Copy)]
struct Ledger {
    base: VReg,
    atomic: bool,
    /// How many stages are counted on their own.
    stages: u32,
}

impl Body<'_, '_> {
    pub(super) fn span_step(&mut self, step: &SpanStep) {
        self.shared.learned.span_writers[step.span.0].add(self.index, self.probe);
        let nests = self.shared.program.spans[step.span.0].restart == Restart::Nest;
        self.conditionally(|cx| match (step.action, nests) {
            (SpanAction::Start, false) if cx.span_place(step.span).in_threads => cx.open_in_thread(step),
            (SpanAction::Start, false) => cx.open_span(step),
            (SpanAction::Start, true) => cx.push_frame(step),
            (SpanAction::Mark(stage), false) => cx.mark_span(step, stage),
            (SpanAction::Mark(stage), true) => cx.mark_frame(step, stage),
            (SpanAction::End, false) => cx.close_span(step),
            (SpanAction::End, true) => cx.pop_frame(step),
            (SpanAction::Sweep, _) => cx.sweep_span(step),
        });
    }

    fn span_place(&self, span: SpanIndex) -> SpanPlace {
        self.shared.span_places[span.0].clone()
    }

    /// The address of the key, which a variable has.
    fn span_key(&mut self, step: &SpanStep) -> Addr {
        self.key_in(step.key)
    }

    fn key_in(&mut self, var: VarIndex) -> Addr {
        match self.var_address(var) {
            Some(addr) => addr,
            None => self.memory(8, "key"),
        }
    }

    fn span_now(&mut self) -> VReg {
        self.b.call(crate::ir::Helper::KtimeGetBootNs, &[])
    }

    fn ledger(&mut self, span: SpanIndex) -> Ledger {
        let place = self.span_place(span);
        let base = self.cpu_copy(place.counters, place.stride_bytes);
        let atomic = self.shared.facts.span_writers.get(span.0).is_none_or(super::storage::Writers::need_atomics);
        let stages = self.shared.program.spans[span.0].stages.len() as u32;
        Ledger { base, atomic, stages: if stages > 1 { stages } else { 0 } }
    }

    fn count_span(&mut self, ledger: Ledger, counter: SpanCounter) {
        self.add_to_ledger(ledger.atomic, Addr::reg(ledger.base, counter as i32 * 8), 1);
    }

    /// Counts a span into a stage whose number is known, or out of it.
    fn count_stage(&mut self, ledger: Ledger, stage: i64, by: i64) {
        if ledger.stages > 0 {
            let at = (SpanCounter::COUNT as i64 + stage - 1) * 8;
            self.add_to_ledger(ledger.atomic, Addr::reg(ledger.base, at as i32), by);
        }
    }

    /// Counts a span out of the stage that its word says.
    fn count_out_of(&mut self, ledger: Ledger, word: VReg) {
        if ledger.stages == 0 {
            return;
        }
        let stage = self.b.bin(BinOp::And, Width::W64, word, STAGE_MASK);
        let index = self.b.bin(BinOp::Sub, Width::W64, stage, 1);
        // Verifier: the stage has a bound by construction that it cannot see.
        let index = self.b.clamp(index, ledger.stages - 1);
        let distance = self.b.bin(BinOp::Mul, Width::W64, index, 8);
        let at = self.b.bin(BinOp::Add, Width::W64, ledger.base, distance);
        self.add_to_ledger(ledger.atomic, Addr::reg(at, SpanCounter::COUNT as i32 * 8), -1);
    }

    fn add_to_ledger(&mut self, atomic: bool, addr: Addr, by: i64) {
        if atomic {
            let by = self.b.copy(by);
            self.b.atomic_add(addr, by, Size::B8);
        } else {
            let old = self.b.load(addr, Size::B8);
            let new = self.b.bin(BinOp::Add, Width::W64, old, by);
            self.b.store(addr, new, Size::B8);
        }
    }

    /// Runs the handlers of an event, one after another; `return` leaves one of them.
    fn run_handlers(&mut self, handlers: &[Vec<Stmt>]) {
        for handler in handlers {
            let done = self.b.new_block();
            let exit = std::mem::replace(&mut self.exit, done);
            let in_handler = std::mem::replace(&mut self.in_handler, true);
            self.conditionally(|cx| cx.stmts(handler));
            self.exit = exit;
            self.in_handler = in_handler;
            self.b.jump(done);
            self.b.switch_to(done);
        }
    }

    /// Gives the variables that handlers read what a start holds, which nobody else may write now.
    fn take_values(&mut self, span: SpanIndex, values: &SpanValues, start: Addr, word: VReg, now: Option<VReg>) {
        let place = self.span_place(span);
        if let (Some(var), Some(now)) = (values.elapsed, now) {
            let began = self.b.bin(BinOp::Shr, Width::W64, word, STAGE_BITS);
            let elapsed = self.time_since(began, now);
            self.write_var(var, elapsed.into());
        }
        if let (Some(var), Some(now)) = (values.lap, now) {
            let last = match place.last {
                Some(offset) => self.b.load(start.plus(offset), Size::B8),
                None => self.b.bin(BinOp::Shr, Width::W64, word, STAGE_BITS),
            };
            let lap = self.time_since(last, now);
            self.write_var(var, lap.into());
        }
        for (stored, var) in &values.kept {
            match stored {
                None => self.clear_var(*var),
                Some(field) => self.var_from(*var, start.plus(place.fields[*field])),
            }
        }
    }

    /// The time between two moments. Where CPUs race for a key, a program may meet a start that is younger than its own look at the
    /// clock: then no time has passed.
    fn time_since(&mut self, began: VReg, now: VReg) -> VReg {
        let passed = self.b.copy(0);
        let (some, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Gt, Width::W64, now, began, some, done, Likely::Then);
        self.b.switch_to(some);
        let difference = self.b.bin(BinOp::Sub, Width::W64, now, began);
        self.b.assign(passed, difference);
        self.b.jump(done);
        self.b.switch_to(done);
        passed
    }

    /// The same for a start that has just begun.
    fn zero_values(&mut self, values: &SpanValues) {
        let kept = values.kept.iter().map(|(_, var)| *var);
        for var in values.elapsed.into_iter().chain(values.lap).chain(kept).collect::<Vec<_>>() {
            self.clear_var(var);
        }
    }

    /// Whether handlers need to know what time it is.
    fn needs_time(values: &SpanValues) -> bool {
        values.elapsed.is_some() || values.lap.is_some()
    }

    /// Evaluates what a stage keeps: what is made from the span's own values, or the rest.
    fn evaluate_keeps(&mut self, step: &SpanStep, reads_span: bool) {
        for keep in step.keeps.iter().filter(|keep| keep.reads_span == reads_span) {
            self.assign_var(keep.var, &keep.value);
        }
    }

    /// Puts what a stage keeps where later stages find it.
    fn store_keeps(&mut self, step: &SpanStep, start: Addr) {
        let place = self.span_place(step.span);
        for keep in &step.keeps {
            if let Some(field) = keep.stored {
                self.var_to(keep.var, start.plus(place.fields[field]));
            }
        }
    }

    fn var_to(&mut self, var: VarIndex, to: Addr) {
        let ty = self.probe.vars[var.0].ty.clone();
        let value = self.read_var(var);
        self.store(value, &ty, to);
    }

    fn var_from(&mut self, var: VarIndex, from: Addr) {
        let ty = self.probe.vars[var.0].ty.clone();
        match self.var_address(var) {
            Some(to) => {
                let size_bytes = self.layout(&ty).size_bytes;
                self.copy(to, from, size_bytes);
            }
            None => {
                if let Value::Scalar(value) = self.load_as(from, &ty) {
                    self.write_var(var, value);
                }
            }
        }
    }

    /// The number of spans that are open, or in a stage.
    pub fn inflight(&mut self, span: usize, stage: Option<usize>) -> Value {
        let place = self.shared.span_places[span].clone();
        let has_stages = self.shared.program.spans[span].stages.len() > 1;
        let cpus = self.shared.target.possible_cpus();
        let sum = |cx: &mut Self, counter: u32| {
            let sum = cx.sum_of_copies(place.counters + counter * 8, place.stride_bytes, cpus);
            Operand::from(sum)
        };
        if let (Some(stage), true) = (stage, has_stages) {
            return Value::Scalar(sum(self, SpanCounter::COUNT + stage as u32));
        }
        let evicted = self.shared.program.spans[span].evicts.then_some(SpanCounter::Evicted);
        let closed = [SpanCounter::Matched, SpanCounter::Replaced, SpanCounter::Expired];
        let closed: Vec<Operand> = closed.into_iter().chain(evicted).map(|counter| sum(self, counter as u32)).collect();
        // Read last, so that a span that is opened and closed meanwhile makes the number too large and never negative.
        let mut open = sum(self, SpanCounter::Started as u32);
        for closed in closed {
            open = self.b.bin(BinOp::Sub, Width::W64, open, closed).into();
        }
        Value::Scalar(open)
    }

    /// Zero bytes in read-only data.
    fn zero_bytes(&mut self, size_bytes: u32) -> Addr {
        let offset = self.shared.zeros(size_bytes);
        Addr::reg(self.b.data_addr(Section::Rodata, offset), 0)
    }
}
