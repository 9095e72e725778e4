//! Spans.
//!
//! In: ranges of an item's tokens. Out: a line a stage, the stages' probes below each other.
//! Guarantee: the form of a stage depends on its tokens only; a span with a comment inside of a stage is left as it stands.

use super::printer::{Gap, Printer};
use crate::parse::pieces::Class;
use std::ops::Range;

/// Words that begin a part of a span.
const STAGES: [&str; 6] = ["start", "mark", "end", "restart", "expire", "limit"];

/// A span's braces.
pub(super) struct Parts {
    /// The opening brace.
    pub body: usize,
    /// The closing one.
    pub close: usize,
    /// What stands in them.
    pub stages: Vec<Stage>,
}

/// A stage or a clause.
pub(super) struct Stage {
    /// Its word, and the name of a mark.
    head: Range<usize>,
    /// Its probes, each with the comma behind it; what a clause says.
    points: Vec<Range<usize>>,
    /// The slashes around its condition.
    pub predicate: Option<(usize, usize)>,
    /// Its key, with `by`.
    key: Range<usize>,
    /// What it keeps, with the braces.
    keeps: Range<usize>,
    /// Semicolons behind it.
    end: usize,
}

impl Printer<'_> {
    /// The parts of a span; nothing when it is of a form that is not known here.
    pub(super) fn stages(&self, range: &Range<usize>, body: usize) -> Option<Parts> {
        let close = (body..range.end).rev().find(|at| self.is_mark(*at, "}"))?;
        let (mut stages, mut at) = (Vec::new(), body + 1);
        while at < close {
            let stage = self.stage(at, close)?;
            if stage.end <= at || (at + 1..stage.end).any(|at| self.commented(at - 1, at)) {
                return None;
            }
            at = stage.end;
            stages.push(stage);
        }
        Some(Parts { body, close, stages })
    }

    fn stage(&self, start: usize, close: usize) -> Option<Stage> {
        let word = self.word(start);
        if !STAGES.contains(&word) || self.class(start) != Some(Class::Word) {
            return None;
        }
        let mut at = start + 1 + usize::from(word == "mark");
        let head = start..at;
        let mut points = Vec::new();
        let mut predicate = None;
        if matches!(word, "start" | "mark" | "end") {
            while points.is_empty() || self.is_mark(at - 1, ",") && self.begins_point(at) {
                let mut end = self.point_end(at, close);
                while self.is_mark(end, ",") {
                    end += 1;
                }
                points.push(at..end);
                if end <= at {
                    return None;
                }
                at = end;
            }
            if self.is_mark(at, "/") {
                let end = (at + 1..close).find(|end| self.is_mark(*end, "/") && self.ends_condition(end + 1))?;
                predicate = Some((at, end));
                at = end + 1;
            }
        } else {
            let end = self.value_end(at, close);
            points.push(at..end);
            at = end;
        }
        let key = at..if self.word(at) == "by" { self.value_end(at + 1, close) } else { at };
        at = key.end;
        let keeps = at..if self.is_mark(at, "{") { self.closing(at, close)? + 1 } else { at };
        at = keeps.end;
        while at < close && self.is_mark(at, ";") {
            at += 1;
        }
        (head.end < close && !points.is_empty()).then_some(Stage { head, points, predicate, key, keeps, end: at })
    }

    /// One past the last token of an attach point: names and parts that touch.
    fn point_end(&self, start: usize, close: usize) -> usize {
        let ends = |at: usize| [",", "/", "{", ";"].iter().any(|mark| self.is_mark(at, mark));
        (start + 1..close).find(|at| !self.adjacent(*at) || ends(*at)).unwrap_or(close)
    }

    /// Whether a further attach point begins here, behind a comma.
    fn begins_point(&self, at: usize) -> bool {
        let is_word = self.class(at) == Some(Class::Word) && self.word(at) != "by";
        is_word && (!STAGES.contains(&self.word(at)) || self.is_mark(at + 1, ":"))
    }

    /// Whether what stands here may follow a condition.
    fn ends_condition(&self, at: usize) -> bool {
        matches!(self.word(at), "{" | "}" | ";" | "by") || STAGES.contains(&self.word(at))
    }

    /// One past the last token of a key or of what a clause says.
    fn value_end(&self, start: usize, close: usize) -> usize {
        let mut at = start;
        while at < close {
            match self.word(at) {
                "(" | "[" if self.class(at) == Some(Class::Mark) => match self.closing(at, close) {
                    Some(end) => at = end,
                    None => return close,
                },
                ";" | "{" => return at,
                word if at > start && STAGES.contains(&word) && !self.is_mark(at - 1, ".") => return at,
                _ => {}
            }
            at += 1;
        }
        close
    }

    /// The bracket that closes this one.
    fn closing(&self, open: usize, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (open..close).find(|at| {
            if self.class(*at) == Some(Class::Mark) {
                match self.word(*at) {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth -= 1,
                    _ => {}
                }
            }
            depth == 0
        })
    }

    pub(super) fn span_item(&mut self, range: &Range<usize>, parts: &Parts) {
        self.head(range.start..parts.body);
        self.inline = true;
        let start = self.checkpoint();
        let mut is_done = false;
        if self.is_on_one_line(range) {
            self.token(parts.body, Gap::Space, 0);
            for stage in &parts.stages {
                self.stage_line(stage, Gap::Space, 0);
            }
            self.token(parts.close, Gap::Space, 0);
            is_done = self.fits(&start);
        }
        if !is_done {
            self.go_back(&start);
            let widest = parts.stages.iter().map(|stage| width_of(self, stage)).max().unwrap_or(0);
            self.token(parts.body, Gap::Space, 0);
            for stage in &parts.stages {
                let missing = widest - width_of(self, stage);
                self.stage_line(stage, Gap::Paragraph, missing);
            }
            self.token(parts.close, Gap::Break, 0);
        }
        self.inline = false;
        self.words_behind(parts.close + 1..range.end);
    }

    /// A stage; what does not fit goes on below.
    fn stage_line(&mut self, stage: &Stage, first: Gap, missing: usize) {
        for at in stage.head.clone() {
            self.token(at, if at == stage.head.start { first } else { Gap::Space }, 1);
        }
        self.out.extend(std::iter::repeat_n(' ', missing));
        let is_clause = !matches!(self.word(stage.head.start), "start" | "mark" | "end");
        let mut is_broken = false;
        for (number, point) in stage.points.iter().enumerate() {
            is_broken |= self.below(number > 0, is_broken, &mut |printer, gap| {
                if is_clause {
                    printer.run(point.clone(), gap, 2, false);
                    return;
                }
                for at in point.clone() {
                    printer.token(at, if at == point.start { gap } else { Gap::Glue }, 2);
                }
            });
        }
        if let Some((open, close)) = stage.predicate {
            // Behind probes on several lines a condition stands on its own.
            self.below(true, is_broken, &mut |printer, gap| printer.run(open..close + 1, gap, 2, false));
        }
        if !stage.key.is_empty() {
            let (by, key) = (stage.key.start, stage.key.start + 1..stage.key.end);
            self.below(true, false, &mut |printer, gap| {
                printer.token(by, gap, 2);
                printer.run(key.clone(), Gap::Space, 2, false);
            });
        }
        if !stage.keeps.is_empty() {
            self.below(true, false, &mut |printer, gap| printer.block(stage.keeps.start, gap, 2));
        }
        let last = [stage.keeps.end, stage.key.end].into_iter().max().unwrap_or(stage.end);
        self.words_behind(last..stage.end);
    }

    /// Writes a part on the present line, or on one below where it does not fit; says whether it did that.
    fn below(&mut self, may_break: bool, must_break: bool, write: &mut dyn FnMut(&mut Self, Gap)) -> bool {
        let before = self.checkpoint();
        if !must_break {
            write(self, Gap::Space);
            if !may_break || !self.is_wide() {
                return false;
            }
            self.go_back(&before);
        }
        write(self, Gap::Break);
        true
    }
}

fn width_of(printer: &Printer<'_>, stage: &Stage) -> usize {
    stage.head.clone().map(|at| printer.word(at).chars().count() + 1).sum()
}
