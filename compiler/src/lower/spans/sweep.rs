//! The sweep of a span: closes what began too long ago.
//!
//! In: a sweep's step, or whatever else says how long ago that is. Out: a walk over the map, with the handlers of the event in it.
//! Guarantee: what an end, a start or another walk closes at the same moment is left to it.

use super::claim::Claimed;
use super::{FIRST_OPEN, LEFT_OVER, MARKING, STAGE_BITS, STAGE_MASK};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Operand, Role, Size, VReg, Width};
use crate::lower::loops::Repeated;
use crate::lower::{Body, Value};
use crate::object::SpanCounter;
use crate::typed::{SpanIndex, SpanStep, SpanValues, Stmt, VarIndex};

/// What a walk does with each start that it closes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing<'a> {
    pub span: SpanIndex,
    /// The variable that has its key.
    pub key: VarIndex,
    /// What the handlers read of it.
    pub values: &'a SpanValues,
    /// They.
    pub handlers: &'a [Vec<Stmt>],
    /// Where it is counted.
    pub counter: SpanCounter,
    /// Where the walk says that it has closed one, and then is over; `None` where it closes all.
    pub one: Option<i32>,
}

/// What a walk knows, in scratch memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    /// The time at which it began.
    pub now: i32,
    /// What began later than this is left open.
    pub latest: i32,
}

impl Body<'_, '_> {
    pub(super) fn sweep_span(&mut self, step: &SpanStep) {
        let age_ns = self.age_limit(step);
        let now = self.span_now();
        let latest = self.time_since_fixed(age_ns, now);
        let moments = self.moments();
        for (offset, moment) in [(moments.now, now), (moments.latest, latest)] {
            let at = self.scratch_at(offset);
            self.b.store(at, moment, Size::B8);
        }
        let closing = Closing {
            span: step.span,
            key: step.key,
            values: &step.values,
            handlers: &step.handlers,
            counter: SpanCounter::Expired,
            one: None,
        };
        let repeated = self.closing_walk("sweep", closing, moments);
        self.walk_span(step.span, repeated);
    }

    /// How old a start may become. A parameter is read, so that another value needs no other program.
    fn age_limit(&mut self, step: &SpanStep) -> Operand {
        let span = &self.shared.program.spans[step.span.0];
        let constant = span.expire_ns.unwrap_or(u64::MAX >> 1) as i64;
        match span.expire_param.map(|index| self.param(index)) {
            Some(Value::Scalar(value)) => value,
            _ => constant.into(),
        }
    }

    /// The moment that lies so long before another one; 0 when the machine had not begun.
    fn time_since_fixed(&mut self, age_ns: Operand, now: VReg) -> VReg {
        let age = self.b.copy(age_ns);
        self.time_since(age, now)
    }

    /// Room for what a walk knows.
    pub(super) fn moments(&mut self) -> Moments {
        Moments { now: self.scratch_room(8), latest: self.scratch_room(8) }
    }

    /// What closes each start of a span that is old enough.
    pub(super) fn closing_walk(&mut self, word: &str, closing: Closing<'_>, moments: Moments) -> Repeated {
        self.subprogram(Role::Entry, word, |cx, given| {
            let next = cx.b.new_block();
            cx.close_entry(closing, moments, (given[1], given[2]), next);
            cx.b.jump(next);
            cx.b.switch_to(next);
            cx.b.ret(0);
        })
    }

    /// Does something with each entry of a span's map.
    pub(super) fn walk_span(&mut self, span: SpanIndex, repeated: Repeated) {
        let id = self.span_place(span).id;
        let walk = |cx: &mut Self| {
            let frame = cx.frame();
            let args = [Arg::Map(id), Arg::Function(repeated.function), frame, Arg::Value(0.into())];
            cx.b.call_void(Helper::ForEachMapElem, &args);
        };
        self.run(repeated, walk, true);
    }

    /// When an entry's start was, if it is open and nobody is writing to it; goes to `closed` and `next` otherwise.
    pub(super) fn began(&mut self, word: VReg, closed: BlockId, next: BlockId) -> VReg {
        let (open, idle) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, closed, Likely::Then);
        self.b.switch_to(open);
        let stage = self.b.bin(BinOp::And, Width::W64, word, STAGE_MASK);
        self.b.branch(CmpOp::Ne, Width::W64, stage, MARKING, idle, next, Likely::Then);
        self.b.switch_to(idle);
        self.b.bin(BinOp::Shr, Width::W64, word, STAGE_BITS)
    }

    /// Closes an entry that is old enough; goes to `next` when it is not.
    fn close_entry(&mut self, closing: Closing<'_>, moments: Moments, (key, element): (VReg, VReg), next: BlockId) {
        let place = self.span_place(closing.span);
        let word = self.b.load(Addr::reg(element, 0), Size::B8);
        let (closed, old) = (self.b.new_block(), self.b.new_block());
        let began = self.began(word, closed, next);
        let at = self.scratch_at(moments.latest);
        let latest = self.b.load(at, Size::B8);
        self.b.branch(CmpOp::Le, Width::W64, began, latest, old, next, Likely::Otherwise);
        self.b.switch_to(old);
        // The key is read before the word is exchanged: if that succeeds, the element was this key's all the while.
        let own = self.copied_key(closing, key);
        self.exchange_for(element, word, 0, next);
        let at = self.scratch_at(moments.now);
        let now = self.b.load(at, Size::B8);
        self.take_values(closing.span, closing.values, Addr::reg(element, 0), word, Some(now));
        self.free_element(&place, own, Claimed { element, word });
        let ledger = self.ledger(closing.span);
        self.count_span(ledger, closing.counter);
        self.count_out_of(ledger, word);
        self.run_handlers(closing.handlers);
        if let Some(offset) = closing.one {
            let at = self.scratch_at(offset);
            self.b.store(at, 1, Size::B8);
            self.b.ret(1);
        } else {
            self.b.jump(next);
        }
        // What is left over is nobody's.
        self.b.switch_to(closed);
        let left = self.b.new_block();
        self.b.branch(CmpOp::Eq, Width::W64, word, LEFT_OVER, left, next, Likely::Otherwise);
        self.b.switch_to(left);
        let own = self.copied_key(closing, key);
        self.exchange_for(element, word, 0, next);
        self.free_element(&place, own, Claimed { element, word });
    }

    fn copied_key(&mut self, closing: Closing<'_>, key: VReg) -> Addr {
        let size_bytes = self.shared.ir.maps[self.span_place(closing.span).id.0 as usize].key_size_bytes;
        let own = self.key_in(closing.key);
        self.copy(own, Addr::reg(key, 0), size_bytes);
        own
    }
}
