//! The end of a span.
//!
//! In: an end's step. Out: code.
//! Guarantee: the values that handlers read are copied before the key is free for the next start.

use super::claim::{self, Claimed, Entry, Exchange, Otherwise};
use super::word::LEFT_OVER;
use super::{events, ledger, values};
use crate::ir::{Arg, CmpOp, Helper, Likely, Width};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::SpanStep;

pub(super) fn close_span(cx: &mut Body<'_, '_>, step: &SpanStep) {
    let place = values::place_of(cx, step.span);
    let key = values::key_of_step(cx, step);
    let entry = Entry { place: &place, key };
    let reads_time = values::needs_time(&step.values);
    let now = reads_time.then(|| values::now(cx));
    let done = cx.b.new_block();
    let otherwise = Otherwise { absent: cx.b.new_block(), busy: cx.b.new_block() };
    let claimed = claim::claim(cx, entry, Exchange::Close, otherwise);
    values::take_values(cx, step.span, &step.values, claimed.into(), now);
    free_element(cx, entry, claimed);
    events::count_matched(cx, step, claimed.word, done);
    cx.b.switch_to(otherwise.busy);
    let ledger = ledger::ledger_of(cx, step.span);
    ledger::count_span(cx, ledger, SpanCounter::EndsBusy);
    cx.b.jump(otherwise.absent);
    events::count_failures(cx, step, [(otherwise.absent, SpanCounter::Unmatched)], done);
}

/// Deletes the key of an element that this program has closed. The kernel may refuse this if
/// the program interrupted another one in the same part of the map. The element is then left
/// over for the next start or sweep.
pub(super) fn free_element(cx: &mut Body<'_, '_>, Entry { place, key }: Entry<'_>, claimed: Claimed) {
    // In task-local storage, a word of 0 alone makes the value free.
    if place.in_threads {
        return;
    }
    let key = cx.address_arg(key);
    let result = cx.b.call(Helper::MapDeleteElem, &[Arg::Map(place.id), key]);
    let (left, gone) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W32, result, 0, gone, left, Likely::Then);
    cx.b.switch_to(left);
    let word = cx.b.copy(LEFT_OVER);
    claim::publish(cx, claimed.element, word);
    cx.b.jump(gone);
    cx.b.switch_to(gone);
}
