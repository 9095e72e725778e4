//! Marks: intermediate stages of a span.
//!
//! In: a mark's step. Out: code.
//! Guarantee: no other program reads or closes a span while a mark writes to it.

use super::claim::{self, Entry, Exchange, Otherwise};
use super::word::MARKING;
use super::{events, values};
use crate::ir::{Addr, Size};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::SpanStep;

pub(super) fn mark_span(cx: &mut Body<'_, '_>, step: &SpanStep, stage: u8) {
    let place = values::place_of(cx, step.span);
    let key = values::key_of_step(cx, step);
    let stores = place.last.is_some() || step.keeps.iter().any(|keep| keep.stored.is_some() || keep.reads_span);
    let reads = step.values.lap.is_some() || !step.values.kept.is_empty();
    let reads_time = values::needs_time(&step.values);
    let now = (reads_time || place.last.is_some()).then(|| values::now(cx));
    let done = cx.b.new_block();
    let absent = cx.b.new_block();
    let otherwise = Otherwise { absent, busy: absent };
    // Evaluate slow expressions before other programs have to wait.
    values::evaluate_keeps(cx, step, false);
    let holds = stores || reads;
    let exchange = Exchange::Stage(if holds { MARKING } else { i64::from(stage) });
    let claimed = claim::claim(cx, Entry { place: &place, key }, exchange, otherwise);
    let start = Addr::reg(claimed.element, 0);
    values::take_values(cx, step.span, &step.values, claimed.into(), now);
    if holds {
        values::evaluate_keeps(cx, step, true);
        if let (Some(offset), Some(now)) = (place.last, now) {
            cx.b.store(start.plus(offset), now, Size::B8);
        }
        values::store_keeps(cx, step, start);
        let word = claim::word_in_stage(cx, claimed.word, i64::from(stage));
        claim::publish_in(cx, &place, claimed.element, word);
    }
    events::count_passed(cx, step, claimed.word, stage, done);
    events::count_failures(cx, step, [(absent, SpanCounter::UnmatchedMarks)], done);
}
