//! The end of a span.
//!
//! In: an end's step. Out: code.
//! Guarantee: what the handlers read is copied before the key is free for the next start.

use super::claim::{Claimed, Exchange, Otherwise};
use super::{LEFT_OVER, SpanPlace};
use crate::ir::{Addr, Arg, CmpOp, Helper, Likely, Width};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::SpanStep;

impl Body<'_, '_> {
    pub(super) fn close_span(&mut self, step: &SpanStep) {
        let place = self.span_place(step.span);
        let key = self.span_key(step);
        let reads_time = Self::needs_time(&step.values);
        let now = reads_time.then(|| self.span_now());
        let done = self.b.new_block();
        let otherwise = Otherwise { absent: self.b.new_block(), busy: self.b.new_block() };
        let claimed = self.claim(&place, key, Exchange::Close, otherwise);
        self.take_values(step.span, &step.values, Addr::reg(claimed.element, 0), claimed.word, now);
        self.free_element(&place, key, claimed);
        self.matched(step, claimed.word, done);
        self.b.switch_to(otherwise.busy);
        let ledger = self.ledger(step.span);
        self.count_span(ledger, SpanCounter::EndsBusy);
        self.b.jump(otherwise.absent);
        self.came_to_nothing(step, [(otherwise.absent, SpanCounter::Unmatched)], done);
    }

    /// Deletes the key of an element that this program has closed. The kernel may refuse that to a program which interrupted another
    /// one that is at the same part of the map; the element is then left for the next start or sweep.
    pub(super) fn free_element(&mut self, place: &SpanPlace, key: Addr, claimed: Claimed) {
        // A word of 0 is all that an empty place in a thread's storage is.
        if place.in_threads {
            return;
        }
        let key = self.address_arg(key);
        let result = self.b.call(Helper::MapDeleteElem, &[Arg::Map(place.id), key]);
        let (left, gone) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W32, result, 0, gone, left, Likely::Then);
        self.b.switch_to(left);
        let word = self.b.copy(LEFT_OVER);
        self.publish(claimed.element, word);
        self.b.jump(gone);
        self.b.switch_to(gone);
    }
}
