//! The sweep of a span: closes what is too old.
//!
//! In: a sweep's step. Out: a walk over the map, with the handlers of `expire` in it.
//! Guarantee: what an end, a start or another walk closes at the same moment is left to it.

use super::claim::Claimed;
use super::{FIRST_OPEN, LEFT_OVER, MARKING, STAGE_BITS, STAGE_MASK};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Inst, Likely, Role, Size, VReg, Width};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::SpanStep;

impl Body<'_, '_> {
    pub(super) fn sweep_span(&mut self, step: &SpanStep) {
        let place = self.span_place(step.span);
        let age_ns = self.shared.program.spans[step.span.0].expire_ns.unwrap_or(u64::MAX >> 1);
        let now = self.span_now();
        let room = self.scratch_room(8);
        let at = self.scratch_at(room);
        self.b.store(at, now, Size::B8);
        let repeated = self.subprogram(Role::Entry, "sweep", |cx, given| {
            let at = cx.scratch_at(room);
            let now = cx.b.load(at, Size::B8);
            let next = cx.b.new_block();
            cx.expire_entry(step, now, age_ns, (given[1], given[2]), next);
            cx.b.jump(next);
            cx.b.switch_to(next);
            cx.b.ret(0);
        });
        self.run(
            repeated,
            |cx| {
                let frame = cx.frame();
                let args = [Arg::Map(place.id), Arg::Function(repeated.function), frame, Arg::Value(0.into())];
                cx.b.call_void(Helper::ForEachMapElem, &args);
            },
            true,
        );
    }

    /// Closes an entry that is old enough; goes to `next` when it is not.
    fn expire_entry(&mut self, step: &SpanStep, now: VReg, age_ns: u64, (key, element): (VReg, VReg), next: BlockId) {
        let place = self.span_place(step.span);
        let word = self.b.load(Addr::reg(element, 0), Size::B8);
        let (open, closed, idle, past, old) =
            (self.b.new_block(), self.b.new_block(), self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, closed, Likely::Then);
        self.b.switch_to(open);
        let stage = self.b.bin(BinOp::And, Width::W64, word, STAGE_MASK);
        self.b.branch(CmpOp::Ne, Width::W64, stage, MARKING, idle, next, Likely::Then);
        self.b.switch_to(idle);
        let began = self.b.bin(BinOp::Shr, Width::W64, word, STAGE_BITS);
        // What began since the walk began is not old.
        self.b.branch(CmpOp::Lt, Width::W64, began, now, past, next, Likely::Then);
        self.b.switch_to(past);
        let age = self.b.bin(BinOp::Sub, Width::W64, now, began);
        self.b.branch(CmpOp::Ge, Width::W64, age, age_ns as i64, old, next, Likely::Otherwise);
        self.b.switch_to(old);
        // The key is read before the word is exchanged: if that succeeds, the element was this key's all the while.
        let own = self.copied_key(step, key);
        self.take_word(element, word, next);
        self.take_values(step.span, &step.values, Addr::reg(element, 0), word, Some(now));
        self.free_element(&place, own, Claimed { element, word });
        let ledger = self.ledger(step.span);
        self.count_span(ledger, SpanCounter::Expired);
        self.count_out_of(ledger, word);
        self.run_handlers(&step.handlers);
        self.b.jump(next);
        // What is left over is nobody's.
        self.b.switch_to(closed);
        let left = self.b.new_block();
        self.b.branch(CmpOp::Eq, Width::W64, word, LEFT_OVER, left, next, Likely::Otherwise);
        self.b.switch_to(left);
        let own = self.copied_key(step, key);
        self.take_word(element, word, next);
        self.free_element(&place, own, Claimed { element, word });
    }

    fn copied_key(&mut self, step: &SpanStep, key: VReg) -> Addr {
        let size_bytes = self.shared.ir.maps[self.span_place(step.span).id.0 as usize].key_size_bytes;
        let own = self.span_key(step);
        self.copy(own, Addr::reg(key, 0), size_bytes);
        own
    }

    fn take_word(&mut self, element: VReg, word: VReg, next: BlockId) {
        let (seen, zero) = (self.b.new_vreg(), self.b.copy(0));
        self.b.inst(Inst::CompareExchange { dst: seen, addr: Addr::reg(element, 0), expected: word, new: zero });
        let got = self.b.new_block();
        self.b.branch(CmpOp::Eq, Width::W64, seen, word, got, next, Likely::Then);
        self.b.switch_to(got);
    }
}
