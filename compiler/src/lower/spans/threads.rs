//! Spans whose key is the current thread: task-local storage.
//!
//! In: a span's place. Out: the address of the current thread's value, and the start of a span
//! there.
//! Guarantee: no key is looked up, inserted or deleted. The value exists as long as its thread, and
//! its word says whether it is open.
//! Only programs that interrupt the thread can interfere, so one attempt is enough. If the script
//! has no such programs, plain loads and stores suffice.

use super::claim::{self, CREATE, Claimed, Entry, Exchange, in_storage};
use super::word::FIRST_OPEN;
use super::{events, open, values};
use crate::ir::{Addr, CmpOp, Likely, Size, Width};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::{Restart, SpanStep};

pub(super) fn open_in_thread(cx: &mut Body<'_, '_>, step: &SpanStep) {
    let place = values::place_of(cx, step.span);
    let key = values::key_of_step(cx, step);
    let new = events::begin_start(cx, step);
    let [there, live, fresh, opened, kept, busy, done] = std::array::from_fn(|_| cx.b.new_block());
    let element = in_storage(cx, &place, CREATE);
    // If it is 0, the kernel has no memory for it now, or is operating on this storage on this
    // CPU.
    cx.b.branch(CmpOp::Ne, Width::W64, element, 0, there, busy, Likely::Then);
    cx.b.switch_to(there);
    let before = cx.b.load(Addr::reg(element, 0), Size::B8);
    cx.b.branch(CmpOp::Ge, Width::W64, before, FIRST_OPEN, live, fresh, Likely::Otherwise);
    cx.b.switch_to(live);
    if place.restart == Restart::Keep {
        cx.b.jump(kept);
    } else {
        let old = Claimed { element, word: before };
        claim::exchange_word(cx, Entry { place: &place, key }, old, Exchange::Close, busy);
        open::replace_start(cx, step, &place, old, new);
        cx.b.jump(opened);
    }
    cx.b.switch_to(fresh);
    open::rewrite(cx, step, &place, element, new);
    cx.b.jump(opened);
    cx.b.switch_to(opened);
    events::count_opened(cx, step, done);
    events::count_failures(cx, step, [(kept, SpanCounter::Kept), (busy, SpanCounter::DroppedBusy)], done);
}
