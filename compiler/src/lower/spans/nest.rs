//! Spans of functions that call themselves: a stack of frames under a key.
//!
//! In: steps of a span with `restart nest`. Out: code.
//! Guarantee: the key has the current thread in it, so that one program at a time is at a stack. Starts beyond the deepest frame are
//! dropped, and so are their ends, so that those of the frames below still meet their own starts.

use super::{MAX_DEPTH, SpanPlace};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Size, VReg, Width};
use crate::lower::Body;
use crate::lower::maps::NOEXIST;
use crate::object::SpanCounter;
use crate::typed::SpanStep;

/// The frames begin behind the depth.
const FRAMES: i32 = 8;

impl Body<'_, '_> {
    pub(super) fn push_frame(&mut self, step: &SpanStep) {
        let place = self.span_place(step.span);
        let key = self.span_key(step);
        let (now, word) = self.begin_start(step);
        let (full, deep, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let element = self.frames_of(&place, key, full);
        let depth = self.b.load(Addr::reg(element, 0), Size::B8);
        let deeper = self.b.bin(BinOp::Add, Width::W64, depth, 1);
        self.b.store(Addr::reg(element, 0), deeper, Size::B8);
        let fits = self.b.new_block();
        self.b.branch(CmpOp::Lt, Width::W64, depth, i64::from(MAX_DEPTH), fits, deep, Likely::Then);
        self.b.switch_to(fits);
        let frame = self.frame_at(&place, element, depth);
        self.write_start(step, &place, frame, now);
        self.b.store(frame, word, Size::B8);
        self.opened(step, done);
        self.came_to_nothing(step, [(full, SpanCounter::DroppedFull), (deep, SpanCounter::DroppedDeep)], done);
    }

    /// The stack of a key, made when there is none; goes to `full` when there is no room.
    fn frames_of(&mut self, place: &SpanPlace, key: Addr, full: BlockId) -> VReg {
        let element = self.b.new_vreg();
        let (found, miss, got) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let first = self.look_up(place.id, key);
        self.b.branch(CmpOp::Ne, Width::W64, first, 0, found, miss, Likely::Unknown);
        self.b.switch_to(found);
        self.b.assign(element, first);
        self.b.jump(got);
        self.b.switch_to(miss);
        let size_bytes = self.shared.ir.maps[place.id.0 as usize].value_size_bytes;
        let zeros = self.zero_bytes(size_bytes);
        self.update(place.id, key, zeros, NOEXIST);
        let made = self.look_up(place.id, key);
        let there = self.b.new_block();
        self.b.branch(CmpOp::Ne, Width::W64, made, 0, there, full, Likely::Then);
        self.b.switch_to(there);
        self.b.assign(element, made);
        self.b.jump(got);
        self.b.switch_to(got);
        element
    }

    fn frame_at(&mut self, place: &SpanPlace, element: VReg, index: VReg) -> Addr {
        // Verifier: the depth has a bound by construction that it cannot see.
        let index = self.b.clamp(index, MAX_DEPTH - 1);
        let distance = self.b.bin(BinOp::Mul, Width::W64, index, i64::from(place.size_bytes));
        let at = self.b.bin(BinOp::Add, Width::W64, element, distance);
        Addr::reg(at, FRAMES)
    }

    /// The stack of a key, its depth and its topmost frame; goes to `absent` when there is none, and when what is on top was dropped.
    fn top_frame(&mut self, place: &SpanPlace, key: Addr, pops: bool, absent: BlockId) -> (VReg, Addr) {
        let element = self.look_up(place.id, key);
        let found = self.b.new_block();
        self.b.branch(CmpOp::Ne, Width::W64, element, 0, found, absent, Likely::Then);
        self.b.switch_to(found);
        let depth = self.b.load(Addr::reg(element, 0), Size::B8);
        let some = self.b.new_block();
        self.b.branch(CmpOp::Ne, Width::W64, depth, 0, some, absent, Likely::Then);
        self.b.switch_to(some);
        let index = self.b.bin(BinOp::Sub, Width::W64, depth, 1);
        if pops {
            self.b.store(Addr::reg(element, 0), index, Size::B8);
        }
        let held = self.b.new_block();
        self.b.branch(CmpOp::Le, Width::W64, depth, i64::from(MAX_DEPTH), held, absent, Likely::Then);
        self.b.switch_to(held);
        let frame = self.frame_at(place, element, index);
        (index, frame)
    }

    pub(super) fn pop_frame(&mut self, step: &SpanStep) {
        let place = self.span_place(step.span);
        let key = self.span_key(step);
        let now = Self::needs_time(&step.values).then(|| self.span_now());
        let (absent, done) = (self.b.new_block(), self.b.new_block());
        let (left, frame) = self.top_frame(&place, key, true, absent);
        let word = self.b.load(frame, Size::B8);
        self.take_values(step.span, &step.values, frame, word, now);
        let (last, go_on) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W64, left, 0, last, go_on, Likely::Unknown);
        self.b.switch_to(last);
        // An empty stack that the kernel would not delete is as good as none.
        let arg = self.address_arg(key);
        self.b.call_void(Helper::MapDeleteElem, &[Arg::Map(place.id), arg]);
        self.b.jump(go_on);
        self.b.switch_to(go_on);
        self.matched(step, word, done);
        self.came_to_nothing(step, [(absent, SpanCounter::Unmatched)], done);
    }

    pub(super) fn mark_frame(&mut self, step: &SpanStep, stage: u8) {
        let place = self.span_place(step.span);
        let key = self.span_key(step);
        let now = (Self::needs_time(&step.values) || place.last.is_some()).then(|| self.span_now());
        let (absent, done) = (self.b.new_block(), self.b.new_block());
        self.evaluate_keeps(step, false);
        let (_, frame) = self.top_frame(&place, key, false, absent);
        let word = self.b.load(frame, Size::B8);
        self.take_values(step.span, &step.values, frame, word, now);
        self.evaluate_keeps(step, true);
        if let (Some(offset), Some(now)) = (place.last, now) {
            self.b.store(frame.plus(offset), now, Size::B8);
        }
        self.store_keeps(step, frame);
        let new = self.word_in_stage(word, i64::from(stage));
        self.b.store(frame, new, Size::B8);
        self.passed(step, word, stage, done);
        self.came_to_nothing(step, [(absent, SpanCounter::UnmatchedMarks)], done);
    }
}
