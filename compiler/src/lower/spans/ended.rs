//! Keys of threads and processes that have ended.
//!
//! In: a key that the runtime has put into `.bss`, because its thread or process is gone. Out: code
//! that closes the span that is open under it.
//! Guarantee: the key contains the start time of its thread or process, so no later one with the
//! same id loses a start. An entry that an eviction or a sweep closes at the same time is left to
//! it.

use super::claim::{self, Claimed, Entry, Exchange};
use super::place::MAX_DEPTH;
use super::word::FIRST_OPEN;
use super::{close, jumps, ledger, values};
use crate::ir::{Addr, Arg, BlockId, CmpOp, Helper, Likely, Section, Size, VReg, Width};
use crate::layout;
use crate::lower::shared::Shared;
use crate::lower::{Body, maps};
use crate::object::{EndedKeys, SpanCounter};
use crate::typed::SpanStep;
use crate::types::Type;

impl Shared<'_> {
    /// How the runtime determines which keys to close.
    pub(super) fn ended_keys(&self, index: usize) -> Option<EndedKeys> {
        let span = &self.program.spans[index];
        let (identity, key_offset) = (span.identity?, self.span_places[index].ended_key?);
        let Type::Tuple(parts) = &span.key else { return None };
        let (_, offsets) = layout::tuple(parts, self.target.btf_if_needed(&span.key));
        let (number_offset, start_offset) = (*offsets.get(identity.part)?, *offsets.last()?);
        Some(EndedKeys { number_offset, start_offset, key_offset, of_threads: identity.of_thread })
    }
}

/// Closes the span that is open under a key, or removes a left-over element.
pub(super) fn close_ended(cx: &mut Body<'_, '_>, step: &SpanStep) {
    let place = values::place_of(cx, step.span);
    let done = cx.b.new_block();
    let Some((key, element)) = ended_element(cx, step, done) else { return switch_over(cx, done) };
    let word = cx.b.load(Addr::reg(element, 0), Size::B8);
    let (some, open) = (cx.b.new_block(), cx.b.new_block());
    // 0: another program is closing it.
    cx.b.branch(CmpOp::Ne, Width::W64, word, 0, some, done, Likely::Then);
    cx.b.switch_to(some);
    let claimed = Claimed { element, word };
    let entry = Entry { place: &place, key };
    claim::exchange_word(cx, entry, claimed, Exchange::Close, done);
    close::free_element(cx, entry, claimed);
    cx.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, done, Likely::Then);
    cx.b.switch_to(open);
    let ledger = ledger::ledger_of(cx, step.span);
    ledger::count_span(cx, ledger, SpanCounter::Ended);
    ledger::count_out_of(cx, ledger, word);
    switch_over(cx, done);
}

/// Removes the stack of a thread, which no other program uses.
pub(super) fn drop_frames(cx: &mut Body<'_, '_>, step: &SpanStep) {
    let place = values::place_of(cx, step.span);
    let done = cx.b.new_block();
    let Some((key, element)) = ended_element(cx, step, done) else { return switch_over(cx, done) };
    let depth = cx.b.load(Addr::reg(element, 0), Size::B8);
    // Deeper calls were dropped, and never counted as started.
    let depth = cx.b.clamp(depth, MAX_DEPTH);
    let none = cx.b.copy(0);
    cx.b.store(Addr::reg(element, 0), none, Size::B8);
    jumps::count_frames(cx, step.span, element, (none, depth), SpanCounter::Ended);
    let arg = cx.address_arg(key);
    cx.b.call_void(Helper::MapDeleteElem, &[Arg::Map(place.id), arg]);
    switch_over(cx, done);
}

fn switch_over(cx: &mut Body<'_, '_>, done: BlockId) {
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// The key to close and its element; jumps to `done` if there is none.
fn ended_element(cx: &mut Body<'_, '_>, step: &SpanStep, done: BlockId) -> Option<(Addr, VReg)> {
    let place = values::place_of(cx, step.span);
    let from = cx.b.data_addr(Section::Bss, place.ended_key?);
    let key = values::key_in(cx, step.key);
    let size_bytes = cx.shared.ir.maps[place.id.0 as usize].key_size_bytes;
    cx.copy(key, Addr::reg(from, 0), size_bytes);
    let element = maps::look_up(cx, place.id, key);
    let found = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, element, 0, found, done, Likely::Then);
    cx.b.switch_to(found);
    Some((key, element))
}
