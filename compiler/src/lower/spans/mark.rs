//! A mark on a span's way.
//!
//! In: a mark's step. Out: code.
//! Guarantee: nobody reads or closes a span while a mark writes to it.

use super::MARKING;
use super::claim::{Exchange, Otherwise};
use crate::ir::{Addr, Size};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::SpanStep;

impl Body<'_, '_> {
    pub(super) fn mark_span(&mut self, step: &SpanStep, stage: u8) {
        let place = self.span_place(step.span);
        let key = self.span_key(step);
        let stores = place.last.is_some() || step.keeps.iter().any(|keep| keep.stored.is_some() || keep.reads_span);
        let reads = step.values.lap.is_some() || !step.values.kept.is_empty();
        let reads_time = Self::needs_time(&step.values);
        let now = (reads_time || place.last.is_some()).then(|| self.span_now());
        let done = self.b.new_block();
        let absent = self.b.new_block();
        let otherwise = Otherwise { absent, busy: absent };
        // What takes long is evaluated before others have to wait.
        self.evaluate_keeps(step, false);
        let holds = stores || reads;
        let exchange = Exchange::Stage(if holds { MARKING } else { i64::from(stage) });
        let claimed = self.claim(&place, key, exchange, otherwise);
        let start = Addr::reg(claimed.element, 0);
        self.take_values(step.span, &step.values, start, claimed.word, now);
        if holds {
            self.evaluate_keeps(step, true);
            if let (Some(offset), Some(now)) = (place.last, now) {
                self.b.store(start.plus(offset), now, Size::B8);
            }
            self.store_keeps(step, start);
            let word = self.word_in_stage(claimed.word, i64::from(stage));
            self.publish(claimed.element, word);
        }
        self.passed(step, claimed.word, stage, done);
        self.came_to_nothing(step, [(absent, SpanCounter::UnmatchedMarks)], done);
    }
}
