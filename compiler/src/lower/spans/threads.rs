//! Spans whose key is the current thread: storage of the thread's own.
//!
//! In: a span's place. Out: the address of the current thread's value, and the start of a span there.
//! Guarantee: no key is looked up, made or deleted: the value is there as long as its thread is, and its word says whether it is open.
//! Only programs that interrupt the thread can come between, so one try is enough.

use super::claim::{Claimed, Exchange};
use super::{FIRST_OPEN, SpanPlace};
use crate::ir::{Addr, Arg, CmpOp, Helper, Likely, Size, VReg, Width};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::{Restart, SpanStep};

/// `BPF_LOCAL_STORAGE_GET_F_CREATE`: the value is zeros at first.
const CREATE: i64 = 1;

impl Body<'_, '_> {
    /// The address of the current thread's value, or 0.
    pub(super) fn in_storage(&mut self, place: &SpanPlace, flags: i64) -> VReg {
        // Since 5.11: a task pointer with its type.
        let task = self.b.call(Helper::GetCurrentTaskBtf, &[]);
        let args = [Arg::Map(place.id), task.into(), Arg::Value(0.into()), Arg::Value(flags.into())];
        self.b.call(Helper::TaskStorageGet, &args)
    }

    pub(super) fn open_in_thread(&mut self, step: &SpanStep) {
        let place = self.span_place(step.span);
        let key = self.span_key(step);
        let (now, word) = self.begin_start(step);
        let [there, live, fresh, opened, kept, busy, done] = std::array::from_fn(|_| self.b.new_block());
        let element = self.in_storage(&place, CREATE);
        // The kernel has no memory for it now, or is at work on this storage on this CPU.
        self.b.branch(CmpOp::Ne, Width::W64, element, 0, there, busy, Likely::Then);
        self.b.switch_to(there);
        let before = self.b.load(Addr::reg(element, 0), Size::B8);
        self.b.branch(CmpOp::Ge, Width::W64, before, FIRST_OPEN, live, fresh, Likely::Otherwise);
        self.b.switch_to(live);
        if self.shared.program.spans[step.span.0].restart == Restart::Keep {
            self.b.jump(kept);
        } else {
            let old = Claimed { element, word: before };
            self.exchange_word(&place, key, old, Exchange::Close, busy);
            self.replace_start(step, &place, old, (now, word));
            self.b.jump(opened);
        }
        self.b.switch_to(fresh);
        self.rewrite(step, &place, element, now, word);
        self.b.jump(opened);
        self.b.switch_to(opened);
        self.opened(step, done);
        self.came_to_nothing(step, [(kept, SpanCounter::Kept), (busy, SpanCounter::DroppedBusy)], done);
    }
}
