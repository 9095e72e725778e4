//! The start of a span.
//!
//! In: a start's step. Out: code.
//! Guarantee: a start whose key is open replaces that span or leaves it, as the span declares. A
//! start is counted as dropped if the map is full, or if its key is being closed during every
//! attempt.

use super::claim::{self, Claimed, Entry, Exchange, TRIES};
use super::evict::{self, ROUNDS};
use super::place::SpanPlace;
use super::values::{self, NewStart};
use super::word::{FIRST_OPEN, LEFT_OVER};
use super::{events, ledger};
use crate::ir::{Addr, BlockId, CmpOp, Likely, Size, VReg, Width};
use crate::lower::Body;
use crate::lower::maps::{self, NOEXIST};
use crate::object::SpanCounter;
use crate::typed::{Restart, SpanStep};

/// `-EEXIST` and `-E2BIG` in 32 bits.
const EEXIST: i64 = -17;
const E2BIG: i64 = -7;

/// Blocks for the outcomes of a start.
#[derive(Debug, Clone, Copy)]
struct Ways {
    /// A new element was inserted.
    opened: BlockId,
    /// A left-over element was claimed.
    taken: BlockId,
    /// An open span was closed.
    replaced: BlockId,
    /// The open span stays.
    kept: BlockId,
    /// The map is full.
    full: BlockId,
    /// Contended, or the kernel refused for now.
    busy: BlockId,
}

pub(super) fn open_span(cx: &mut Body<'_, '_>, step: &SpanStep) {
    let place = values::place_of(cx, step.span);
    let key = values::key_of_step(cx, step);
    let new = events::begin_start(cx, step);
    let value = cx.memory(place.size_bytes, "span");
    write_start(cx, step, &place, value, new.now);
    cx.b.store(value, new.word, Size::B8);
    let [opened, taken, replaced, kept, full, busy] = std::array::from_fn(|_| cx.b.new_block());
    let ways = Ways { opened, taken, replaced, kept, full, busy };
    let entry = Entry { place: &place, key };
    let old = Claimed { element: cx.b.new_vreg(), word: cx.b.new_vreg() };
    if let Some(eviction) = &step.evicted {
        let walks = evict::walks(cx, step, eviction);
        for _ in 0..ROUNDS {
            let makes_room = cx.b.new_block();
            try_to_open(cx, entry, value, Ways { full: makes_room, ..ways }, old);
            cx.b.switch_to(makes_room);
            evict::evict_oldest(cx, step, walks);
        }
    }
    try_to_open(cx, entry, value, ways, old);
    cx.b.switch_to(replaced);
    replace_start(cx, step, &place, old, new);
    cx.b.jump(opened);
    cx.b.switch_to(taken);
    rewrite(cx, step, &place, old.element, new);
    cx.b.jump(opened);
    cx.b.switch_to(opened);
    let done = cx.b.new_block();
    events::count_opened(cx, step, done);
    let refused = [(kept, SpanCounter::Kept), (full, SpanCounter::DroppedFull), (busy, SpanCounter::DroppedBusy)];
    events::count_failures(cx, step, refused, done);
}

/// Replaces a start that this program has closed with a new one.
pub(super) fn replace_start(cx: &mut Body<'_, '_>, step: &SpanStep, place: &SpanPlace, old: Claimed, new: NewStart) {
    if let Some((values, _)) = &step.replaced {
        values::take_values(cx, step.span, values, old.into(), Some(new.now));
    }
    rewrite(cx, step, place, old.element, new);
    let ledger = ledger::ledger_of(cx, step.span);
    ledger::count_span(cx, ledger, SpanCounter::Replaced);
    ledger::count_out_of(cx, ledger, old.word);
    if let Some((_, handlers)) = &step.replaced {
        values::run_handlers(cx, handlers);
    }
}

/// Writes all fields of a start except its word.
pub(super) fn write_start(cx: &mut Body<'_, '_>, step: &SpanStep, place: &SpanPlace, start: Addr, now: VReg) {
    let is_written = place.last.map_or(0, |_| 8);
    if place.size_bytes > 8 + is_written {
        cx.zero(start.plus(8), place.size_bytes - 8);
    }
    if let Some(offset) = place.last {
        cx.b.store(start.plus(offset), now, Size::B8);
    }
    values::store_keeps(cx, step, start);
}

/// Writes a new start to an element that this program owns.
pub(super) fn rewrite(cx: &mut Body<'_, '_>, step: &SpanStep, place: &SpanPlace, element: VReg, new: NewStart) {
    write_start(cx, step, place, Addr::reg(element, 0), new.now);
    claim::publish_in(cx, place, element, new.word);
}

/// Jumps to one of the outcomes; `old` becomes the element that was claimed or replaced, with
/// its word.
fn try_to_open(cx: &mut Body<'_, '_>, entry: Entry<'_>, value: Addr, ways: Ways, old: Claimed) {
    let Entry { place, key } = entry;
    for _ in 0..TRIES {
        let (next, there, refused) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        let result = maps::update(cx, place.id, key, value, NOEXIST);
        cx.b.branch(CmpOp::Eq, Width::W32, result, 0, ways.opened, refused, Likely::Then);
        cx.b.switch_to(refused);
        let other = cx.b.new_block();
        cx.b.branch(CmpOp::Eq, Width::W32, result, EEXIST, there, other, Likely::Then);
        cx.b.switch_to(other);
        cx.b.branch(CmpOp::Eq, Width::W32, result, E2BIG, ways.full, ways.busy, Likely::Then);
        cx.b.switch_to(there);
        let element = maps::look_up(cx, place.id, key);
        let found = cx.b.new_block();
        cx.b.branch(CmpOp::Ne, Width::W64, element, 0, found, next, Likely::Then);
        cx.b.switch_to(found);
        let word = cx.b.load(Addr::reg(element, 0), Size::B8);
        let (open, closed) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, closed, Likely::Then);
        cx.b.switch_to(closed);
        take_left_over(cx, Claimed { element, word }, ways.taken, next, old);
        cx.b.switch_to(open);
        if place.restart == Restart::Keep {
            cx.b.jump(ways.kept);
        } else {
            claim::exchange_word(cx, entry, Claimed { element, word }, Exchange::Close, next);
            cx.b.assign(old.element, element);
            cx.b.assign(old.word, word);
            cx.b.jump(ways.replaced);
        }
        cx.b.switch_to(next);
    }
    cx.b.jump(ways.busy);
}

/// Claims an element if it is left over; goes to `next` if it is being closed.
fn take_left_over(cx: &mut Body<'_, '_>, at: Claimed, taken: BlockId, next: BlockId, old: Claimed) {
    let Claimed { element, word } = at;
    let left = cx.b.new_block();
    cx.b.branch(CmpOp::Eq, Width::W64, word, LEFT_OVER, left, next, Likely::Otherwise);
    cx.b.switch_to(left);
    claim::exchange_for(cx, element, word, 0, next);
    cx.b.assign(old.element, element);
    cx.b.assign(old.word, word);
    cx.b.jump(taken);
}
