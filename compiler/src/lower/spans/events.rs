//! What the forms of spans have in common: what comes before a start, and what follows when a stage came about, or did not.
//!
//! In: a step, the word of what was taken hold of. Out: code.
//! Guarantee: what came about is counted before its handlers run, and counted once.

use super::STARTED;
use crate::ir::{BlockId, VReg};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::SpanStep;

impl Body<'_, '_> {
    /// Evaluates what a start keeps; the time at which it is, and its word.
    pub(super) fn begin_start(&mut self, step: &SpanStep) -> (VReg, VReg) {
        self.zero_values(&step.values);
        self.evaluate_keeps(step, false);
        self.evaluate_keeps(step, true);
        let now = self.span_now();
        (now, self.started_word(now))
    }

    /// A span was opened.
    pub(super) fn opened(&mut self, step: &SpanStep, done: BlockId) {
        let ledger = self.ledger(step.span);
        self.count_span(ledger, SpanCounter::Started);
        self.count_stage(ledger, STARTED, 1);
        self.run_handlers(&step.handlers);
        self.b.jump(done);
    }

    /// An open span, of this word, passed a mark.
    pub(super) fn passed(&mut self, step: &SpanStep, word: VReg, stage: u8, done: BlockId) {
        let ledger = self.ledger(step.span);
        self.count_out_of(ledger, word);
        self.count_stage(ledger, i64::from(stage), 1);
        self.run_handlers(&step.handlers);
        self.b.jump(done);
    }

    /// An open span, of this word, was closed by an end.
    pub(super) fn matched(&mut self, step: &SpanStep, word: VReg, done: BlockId) {
        let ledger = self.ledger(step.span);
        self.count_span(ledger, SpanCounter::Matched);
        self.count_out_of(ledger, word);
        self.evaluate_keeps(step, false);
        self.evaluate_keeps(step, true);
        self.run_handlers(&step.handlers);
        self.b.jump(done);
    }

    /// Where a stage came to nothing, that is counted; goes on at `done`.
    pub(super) fn came_to_nothing<const N: usize>(
        &mut self,
        step: &SpanStep,
        why: [(BlockId, SpanCounter); N],
        done: BlockId,
    ) {
        for (block, counter) in why {
            self.b.switch_to(block);
            let ledger = self.ledger(step.span);
            self.count_span(ledger, counter);
            self.b.jump(done);
        }
        self.b.switch_to(done);
    }
}
