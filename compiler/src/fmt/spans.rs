//! Formats spans.
//!
//! In: token ranges of an item. Out: one line per stage; probes that do not fit go on lines of
//! their own.
//! Guarantee: the form of a stage depends on its tokens only; a span with a comment inside a stage
//! has no parts and keeps its text.

use super::gaps::Gap;
use super::printer::Printer;
use super::stages::{Parts, Stage};
use super::tokens::Tokens;
use std::ops::Range;

impl Printer<'_, '_> {
    pub(super) fn span_item(&mut self, range: &Range<usize>, parts: &Parts) {
        self.head(range.start..parts.body);
        self.inline = true;
        let start = self.writer.checkpoint();
        let mut is_done = false;
        if self.tokens.is_on_one_line(range) {
            self.writer.token(parts.body, Gap::Space, 0);
            for stage in &parts.stages {
                self.stage_line(stage, Gap::Space, 0);
            }
            self.writer.token(parts.close, Gap::Space, 0);
            is_done = self.writer.fits(&start);
        }
        if !is_done {
            self.writer.go_back(&start);
            let widest = parts.stages.iter().map(|stage| width_of(self.tokens, stage)).max().unwrap_or(0);
            self.writer.token(parts.body, Gap::Space, 0);
            for stage in &parts.stages {
                let missing = widest - width_of(self.tokens, stage);
                self.stage_line(stage, Gap::Paragraph, missing);
            }
            self.writer.token(parts.close, Gap::Break, 0);
        }
        self.inline = false;
        self.writer.glued(parts.close + 1..range.end);
    }

    /// Writes a stage; parts that do not fit go on the next line.
    fn stage_line(&mut self, stage: &Stage, first: Gap, missing: usize) {
        for at in stage.head.clone() {
            self.writer.token(at, if at == stage.head.start { first } else { Gap::Space }, 1);
        }
        self.writer.pad(missing);
        let is_clause = !matches!(self.tokens.word(stage.head.start), "start" | "mark" | "end");
        let mut is_broken = false;
        for (number, point) in stage.points.iter().enumerate() {
            is_broken |= self.below(number > 0, is_broken, &mut |printer, gap| {
                if is_clause {
                    printer.run(point.clone(), gap, 2, false);
                    return;
                }
                for at in point.clone() {
                    let is_apart = printer.tokens.word(at) == "unless" || printer.tokens.word(at - 1) == "unless";
                    let within = if is_apart { Gap::Space } else { Gap::Glue };
                    printer.writer.token(at, if at == point.start { gap } else { within }, 2);
                }
            });
        }
        if let Some((open, close)) = stage.predicate {
            // After probes on several lines, the predicate gets its own line.
            self.below(true, is_broken, &mut |printer, gap| printer.run(open..close + 1, gap, 2, false));
        }
        if !stage.key.is_empty() {
            let (by, key) = (stage.key.start, stage.key.start + 1..stage.key.end);
            self.below(true, false, &mut |printer, gap| {
                printer.writer.token(by, gap, 2);
                printer.run(key.clone(), Gap::Space, 2, false);
            });
        }
        if !stage.keeps.is_empty() {
            self.below(true, false, &mut |printer, gap| printer.block(stage.keeps.start, gap, 2));
        }
        let last = [stage.keeps.end, stage.key.end].into_iter().max().unwrap_or(stage.end);
        self.writer.glued(last..stage.end);
    }

    /// Writes a part on the current line, or on the next if it does not fit; returns whether it
    /// started a line.
    fn below(&mut self, may_break: bool, must_break: bool, write: &mut dyn FnMut(&mut Self, Gap)) -> bool {
        let before = self.writer.checkpoint();
        if !must_break {
            write(self, Gap::Space);
            if !may_break || !self.writer.is_wide() {
                return false;
            }
            self.writer.go_back(&before);
        }
        write(self, Gap::Break);
        true
    }
}

fn width_of(tokens: Tokens<'_>, stage: &Stage) -> usize {
    stage.head.clone().map(|at| tokens.word(at).chars().count() + 1).sum()
}
