//! The start of a span.
//!
//! In: a start's step. Out: code.
//! Guarantee: a start that finds a live key replaces it or leaves it as the span says; one that finds no room, or a key that is being
//! closed all the while, is counted as dropped.

use super::claim::{Claimed, Exchange, TRIES};
use super::evict::ROUNDS;
use super::{FIRST_OPEN, LEFT_OVER, STAGE_BITS, STARTED, SpanPlace};
use crate::ir::{Addr, BinOp, BlockId, CmpOp, Likely, Size, VReg, Width};
use crate::lower::Body;
use crate::lower::maps::NOEXIST;
use crate::object::SpanCounter;
use crate::typed::{Restart, SpanStep};

/// `-EEXIST` and `-E2BIG` in 32 bits.
const EEXIST: i64 = -17;
const E2BIG: i64 = -7;

/// Where a start goes on.
#[derive(Debug, Clone, Copy)]
struct Ways {
    /// A new element was made.
    opened: BlockId,
    /// An element that was left over was taken.
    taken: BlockId,
    /// A live one was closed.
    replaced: BlockId,
    /// A live one stays.
    kept: BlockId,
    /// There is no room.
    full: BlockId,
    /// It cannot be done now.
    busy: BlockId,
}

impl Body<'_, '_> {
    pub(super) fn open_span(&mut self, step: &SpanStep) {
        let place = self.span_place(step.span);
        let key = self.span_key(step);
        let (now, word) = self.begin_start(step);
        let value = self.memory(place.size_bytes, "span");
        self.write_start(step, &place, value, now);
        self.b.store(value, word, Size::B8);
        let [opened, taken, replaced, kept, full, busy] = std::array::from_fn(|_| self.b.new_block());
        let ways = Ways { opened, taken, replaced, kept, full, busy };
        let old = Claimed { element: self.b.new_vreg(), word: self.b.new_vreg() };
        if let Some(eviction) = &step.evicted {
            let walks = self.walks(step, eviction);
            for _ in 0..ROUNDS {
                let makes_room = self.b.new_block();
                self.try_to_open(step, &place, (key, value), Ways { full: makes_room, ..ways }, old);
                self.b.switch_to(makes_room);
                self.evict_oldest(step, walks);
            }
        }
        self.try_to_open(step, &place, (key, value), ways, old);
        self.b.switch_to(replaced);
        self.replace_start(step, &place, old, (now, word));
        self.b.jump(opened);
        self.b.switch_to(taken);
        self.rewrite(step, &place, old.element, now, word);
        self.b.jump(opened);
        self.b.switch_to(opened);
        let done = self.b.new_block();
        self.opened(step, done);
        let refused = [(kept, SpanCounter::Kept), (full, SpanCounter::DroppedFull), (busy, SpanCounter::DroppedBusy)];
        self.came_to_nothing(step, refused, done);
    }

    /// Puts a start in the place of one that this program has closed.
    pub(super) fn replace_start(
        &mut self,
        step: &SpanStep,
        place: &SpanPlace,
        old: Claimed,
        (now, word): (VReg, VReg),
    ) {
        if let Some((values, _)) = &step.replaced {
            self.take_values(step.span, values, Addr::reg(old.element, 0), old.word, Some(now));
        }
        self.rewrite(step, place, old.element, now, word);
        let ledger = self.ledger(step.span);
        self.count_span(ledger, SpanCounter::Replaced);
        self.count_out_of(ledger, old.word);
        if let Some((_, handlers)) = &step.replaced {
            self.run_handlers(handlers);
        }
    }

    /// The word of a start at this time.
    pub(super) fn started_word(&mut self, now: VReg) -> VReg {
        let time = self.b.bin(BinOp::Shl, Width::W64, now, STAGE_BITS);
        self.b.bin(BinOp::Or, Width::W64, time, STARTED)
    }

    /// Writes all of a start but its word.
    pub(super) fn write_start(&mut self, step: &SpanStep, place: &SpanPlace, start: Addr, now: VReg) {
        let is_written = place.last.map_or(0, |_| 8);
        if place.size_bytes > 8 + is_written {
            self.zero(start.plus(8), place.size_bytes - 8);
        }
        if let Some(offset) = place.last {
            self.b.store(start.plus(offset), now, Size::B8);
        }
        self.store_keeps(step, start);
    }

    /// Makes an element that this program holds a new start.
    pub(super) fn rewrite(&mut self, step: &SpanStep, place: &SpanPlace, element: VReg, now: VReg, word: VReg) {
        self.write_start(step, place, Addr::reg(element, 0), now);
        self.publish(element, word);
    }

    /// Goes one of the ways; `old` becomes the element that was taken or replaced, with its word.
    fn try_to_open(
        &mut self,
        step: &SpanStep,
        place: &SpanPlace,
        (key, value): (Addr, Addr),
        ways: Ways,
        old: Claimed,
    ) {
        let restart = self.shared.program.spans[step.span.0].restart;
        for _ in 0..TRIES {
            let (next, there, refused) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
            let result = self.update(place.id, key, value, NOEXIST);
            self.b.branch(CmpOp::Eq, Width::W32, result, 0, ways.opened, refused, Likely::Then);
            self.b.switch_to(refused);
            let other = self.b.new_block();
            self.b.branch(CmpOp::Eq, Width::W32, result, EEXIST, there, other, Likely::Then);
            self.b.switch_to(other);
            self.b.branch(CmpOp::Eq, Width::W32, result, E2BIG, ways.full, ways.busy, Likely::Then);
            self.b.switch_to(there);
            let element = self.look_up(place.id, key);
            let found = self.b.new_block();
            self.b.branch(CmpOp::Ne, Width::W64, element, 0, found, next, Likely::Then);
            self.b.switch_to(found);
            let word = self.b.load(Addr::reg(element, 0), Size::B8);
            let (open, closed) = (self.b.new_block(), self.b.new_block());
            self.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, closed, Likely::Then);
            self.b.switch_to(closed);
            self.take_left_over(element, word, ways.taken, next, old);
            self.b.switch_to(open);
            if restart == Restart::Keep {
                self.b.jump(ways.kept);
            } else {
                self.exchange_word(place, key, Claimed { element, word }, Exchange::Close, next);
                self.b.assign(old.element, element);
                self.b.assign(old.word, word);
                self.b.jump(ways.replaced);
            }
            self.b.switch_to(next);
        }
        self.b.jump(ways.busy);
    }

    /// Takes an element that is left over; what is being closed is not.
    fn take_left_over(&mut self, element: VReg, word: VReg, taken: BlockId, next: BlockId, old: Claimed) {
        let left = self.b.new_block();
        self.b.branch(CmpOp::Eq, Width::W64, word, LEFT_OVER, left, next, Likely::Otherwise);
        self.b.switch_to(left);
        self.exchange_for(element, word, 0, next);
        self.b.assign(old.element, element);
        self.b.assign(old.word, word);
        self.b.jump(taken);
    }
}
