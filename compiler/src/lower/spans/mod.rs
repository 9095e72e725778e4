//! Spans: a hash map per span, and a ledger that balances.
//!
//! In: [`SpanStep`]s. Out: code, the map, per-CPU counters.
//! Guarantee: whatever CPUs, interrupts and preempted programs do to one key concurrently, each
//! start is closed by exactly one of end, replace, expire, evict and the end of its thread, and
//! each of these is counted once.
//!
//! A value begins with a *word*: the start's time in nanoseconds above four bits of stage. The word
//! is the lock: a program closes a span or changes its stage by exchanging the word that it read
//! for another one. The kernel may give a deleted map element to another key at once, while a
//! program still holds its address. But then its word differs, because no two starts of one element
//! have the same nanosecond. So a word is read between two look-ups that find the same element, and
//! a program that then exchanges exactly that word owns what belongs to the key.
//!
//! | word | the element |
//! |---|---|
//! | 0 | is being closed: its owner copies what it needs, and deletes it |
//! | 1 | is left over, because the kernel would not delete it; the next start or sweep takes it |
//! | time, 15 | is being written by a mark |
//! | time, stage | is open |

mod claim;
mod close;
mod ended;
mod events;
mod evict;
mod jumps;
mod ledger;
mod mark;
mod nest;
mod oldest;
mod open;
mod place;
mod sweep;
mod threads;
mod values;
pub(super) mod walk;
mod word;

use place::MAX_DEPTH;
use std::collections::BTreeSet;

pub(super) use place::SpanPlace;

use crate::ir::{BinOp, Map, MapId, MapKind, Operand, Width};
use crate::layout;
use crate::lower::shared::Shared;
use crate::lower::{Body, Value, readings};
use crate::object::{self, Attach, SpanCounter, WhenFull};
use crate::typed::{Restart, SpanAction, SpanStep, Stmt};

/// Alignment of each CPU's ledger: a cache line.
const CACHE_LINE_BYTES: u32 = 64;

/// Maximum size of a value in task-local storage; the kernel's limit is a little below 64 KiB.
const MAX_STORED_BYTES: u32 = 32 << 10;
/// Larger maps are allocated on demand, as those of scripts are.
const MAX_PREALLOCATED_BYTES: u64 = 64 << 20;

impl Shared<'_> {
    /// Allocates the storage of a span.
    pub(super) fn span_place(&mut self, index: usize) -> SpanPlace {
        let span = &self.program.spans[index];
        let mut size_bytes = 8;
        let mut word = || {
            size_bytes += 8;
            size_bytes as i32 - 8
        };
        let last = span.keeps_lap.then(&mut word);
        let stack_pointer = self.is_of_calls(index).then(&mut word);
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
        let in_threads =
            span.is_of_thread && value_size_bytes <= MAX_STORED_BYTES && self.program.may_use_storage(index);
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
        let oldest = self.oldest_table(index, key_size_bytes);
        let writers = self.facts.span_writers.get(index);
        let in_turns = in_threads && writers.is_some_and(super::storage::Writers::take_turns_in_a_thread);
        let has_marks = span.stages.len() > 1;
        let ended_key =
            (span.identity.is_some() && !in_threads && span.expire_ns.is_none()).then(|| self.bss(key_size_bytes));
        SpanPlace {
            id,
            in_threads,
            in_turns,
            has_marks,
            restart: span.restart,
            stack_pointer,
            last,
            fields,
            oldest,
            ended_key,
            size_bytes,
            counters,
            stride_bytes,
        }
    }

    /// Whether the span nests, and its starts and ends are the entries and returns of the same user
    /// functions. Then a start is a call, and its stack pointer tells whether the call is still
    /// active.
    fn is_of_calls(&self, index: usize) -> bool {
        if self.program.spans[index].restart != Restart::Nest {
            return false;
        }
        let (mut entries, mut returns) = (BTreeSet::new(), BTreeSet::new());
        for probe in &self.program.probes {
            for step in probe.body.iter().flat_map(Stmt::span_steps).filter(|step| step.span.0 == index) {
                let places = match (step.action, &probe.attach) {
                    (SpanAction::Start, Attach::Uprobe { at_return: false, path, sites, .. }) => {
                        sites.iter().map(|site| (path, site.file_offset)).for_each(|place| _ = entries.insert(place));
                        continue;
                    }
                    (SpanAction::End, Attach::Uprobe { at_return: true, path, sites, .. }) => (path, sites),
                    (SpanAction::Start | SpanAction::End, _) => return false,
                    _ => continue,
                };
                returns.extend(places.1.iter().map(|site| (places.0, site.file_offset)));
            }
        }
        entries == returns
    }

    /// The span as the object describes it.
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
            ended: self.ended_keys(index),
        }
    }
}

pub(super) fn lower_step(cx: &mut Body<'_, '_>, step: &SpanStep) {
    cx.shared.learned.span_writers[step.span.0].add(cx.shared.merged.program_of(cx.index), cx.probe);
    let nests = cx.shared.program.spans[step.span.0].restart == Restart::Nest;
    cx.conditionally(|cx| match (step.action, nests) {
        (SpanAction::Start, false) if values::place_of(cx, step.span).in_threads => threads::open_in_thread(cx, step),
        (SpanAction::Start, false) => open::open_span(cx, step),
        (SpanAction::Start, true) => nest::push_frame(cx, step),
        (SpanAction::Mark(stage), false) => mark::mark_span(cx, step, stage),
        (SpanAction::Mark(stage), true) => nest::mark_frame(cx, step, stage),
        (SpanAction::End, false) => close::close_span(cx, step),
        (SpanAction::End, true) => nest::pop_frame(cx, step),
        (SpanAction::Sweep, _) => sweep::sweep_span(cx, step),
        (SpanAction::Ended, false) => ended::close_ended(cx, step),
        (SpanAction::Ended, true) => ended::drop_frames(cx, step),
    });
}

/// The number of spans that are open, or in a stage.
pub fn inflight(cx: &mut Body<'_, '_>, span: usize, stage: Option<usize>) -> Value {
    let place = cx.shared.span_places[span].clone();
    let has_stages = cx.shared.program.spans[span].stages.len() > 1;
    let cpus = cx.shared.target.possible_cpus();
    let sum = |cx: &mut Body<'_, '_>, counter: u32| {
        let sum = readings::sum_of_copies(cx, place.counters + counter * 8, place.stride_bytes, cpus);
        Operand::from(sum)
    };
    if let (Some(stage), true) = (stage, has_stages) {
        return Value::Scalar(sum(cx, SpanCounter::COUNT + stage as u32));
    }
    let evicted = cx.shared.program.spans[span].evicts.then_some(SpanCounter::Evicted);
    let nests = cx.shared.program.spans[span].restart == Restart::Nest;
    let abandoned = nests.then_some(SpanCounter::Abandoned);
    let ended = place.ended_key.map(|_| SpanCounter::Ended);
    let closed = [SpanCounter::Matched, SpanCounter::Replaced, SpanCounter::Expired];
    let closed = closed.into_iter().chain(evicted).chain(abandoned).chain(ended);
    let closed: Vec<Operand> = closed.map(|counter| sum(cx, counter as u32)).collect();
    // Read last: a span that opens and closes meanwhile makes the number too large, but never
    // negative.
    let mut open = sum(cx, SpanCounter::Started as u32);
    for closed in closed {
        open = cx.b.bin(BinOp::Sub, Width::W64, open, closed).into();
    }
    Value::Scalar(open)
}
