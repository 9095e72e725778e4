//! Formats probe blocks: attach points, predicate and body.
//!
//! In: token ranges of an item. Out: lines.
//! Guarantee: attach points are all on one line or each on its own.

use super::gaps::Gap;
use super::printer::Printer;
use super::tokens::Class;
use std::ops::Range;

impl Printer<'_, '_> {
    pub(super) fn probe_block(&mut self, range: &Range<usize>, predicate: Option<(usize, usize)>, body: usize) {
        let points = range.start..predicate.map_or(body, |(open, _)| open);
        let last = points.end.saturating_sub(1).max(points.start);
        let mut one_line = !self.tokens.broken_within(points.start, last) && !self.tokens.commented(points.start, last);
        let start = self.writer.checkpoint();
        self.points(&points, one_line);
        if one_line && self.writer.is_wide() && (points.clone()).any(|at| self.tokens.word(at) == ",") {
            one_line = false;
            self.writer.go_back(&start);
            self.points(&points, false);
        }
        let headed = self.writer.checkpoint();
        if one_line && self.item.is_short(body) && !self.tokens.commented(last, body) {
            self.inline = true;
            self.predicate(predicate, Gap::Space);
            self.block(body, Gap::Space, 0);
            self.inline = false;
            if self.writer.fits(&headed) {
                return self.writer.glued(self.item.partner(body) + 1..range.end);
            }
            self.writer.go_back(&headed);
        }
        self.predicate(predicate, Gap::Break);
        self.long_block(body, Gap::Break, 0);
        self.writer.glued(self.item.partner(body) + 1..range.end);
    }

    fn points(&mut self, points: &Range<usize>, one_line: bool) {
        for at in points.clone() {
            let after_comma =
                at > points.start && self.tokens.word(at - 1) == "," && self.tokens.class(at - 1) == Some(Class::Mark);
            let gap = match self.tokens.word(at) {
                _ if at == points.start => Gap::Paragraph,
                "," => Gap::Glue,
                _ if after_comma && one_line => Gap::Space,
                _ if after_comma => Gap::Break,
                _ if self.tokens.adjacent(at) => Gap::Glue,
                _ => Gap::Space,
            };
            self.writer.token(at, gap, 0);
        }
    }

    fn predicate(&mut self, predicate: Option<(usize, usize)>, gap: Gap) {
        if let Some((open, close)) = predicate {
            self.run(open..close + 1, gap, 0, false);
        }
    }
}
