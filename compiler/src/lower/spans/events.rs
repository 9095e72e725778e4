//! Code shared by all forms of spans: before a start, and after each outcome of a stage.
//!
//! In: a step, the word of the claimed element. Out: code.
//! Guarantee: an outcome is counted once, and before its handlers run.

use super::ledger;
use super::values::{self, NewStart};
use super::word::STARTED;
use crate::ir::{BlockId, VReg};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::SpanStep;

/// Evaluates what a start keeps; yields its time and its word.
pub(super) fn begin_start(cx: &mut Body<'_, '_>, step: &SpanStep) -> NewStart {
    values::zero_values(cx, &step.values);
    values::evaluate_keeps(cx, step, false);
    values::evaluate_keeps(cx, step, true);
    let now = values::now(cx);
    NewStart { now, word: values::started_word(cx, now) }
}

/// Counts an opened span and runs its handlers.
pub(super) fn count_opened(cx: &mut Body<'_, '_>, step: &SpanStep, done: BlockId) {
    let ledger = ledger::ledger_of(cx, step.span);
    ledger::count_span(cx, ledger, SpanCounter::Started);
    ledger::count_stage(cx, ledger, STARTED, 1);
    values::run_handlers(cx, &step.handlers);
    cx.b.jump(done);
}

/// Counts an open span that passed a mark, given its word, and runs its handlers.
pub(super) fn count_passed(cx: &mut Body<'_, '_>, step: &SpanStep, word: VReg, stage: u8, done: BlockId) {
    let ledger = ledger::ledger_of(cx, step.span);
    ledger::count_out_of(cx, ledger, word);
    ledger::count_stage(cx, ledger, i64::from(stage), 1);
    values::run_handlers(cx, &step.handlers);
    cx.b.jump(done);
}

/// Counts an open span that was closed by an end, given its word, and runs its handlers.
pub(super) fn count_matched(cx: &mut Body<'_, '_>, step: &SpanStep, word: VReg, done: BlockId) {
    let ledger = ledger::ledger_of(cx, step.span);
    ledger::count_span(cx, ledger, SpanCounter::Matched);
    ledger::count_out_of(cx, ledger, word);
    values::evaluate_keeps(cx, step, false);
    values::evaluate_keeps(cx, step, true);
    values::run_handlers(cx, &step.handlers);
    cx.b.jump(done);
}

/// Counts each failed outcome of a stage; continues at `done`.
pub(super) fn count_failures<const N: usize>(
    cx: &mut Body<'_, '_>,
    step: &SpanStep,
    why: [(BlockId, SpanCounter); N],
    done: BlockId,
) {
    for (block, counter) in why {
        cx.b.switch_to(block);
        let ledger = ledger::ledger_of(cx, step.span);
        ledger::count_span(cx, ledger, counter);
        cx.b.jump(done);
    }
    cx.b.switch_to(done);
}
