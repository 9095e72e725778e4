//! The parts of a span.
//!
//! In: the tokens of a span. Out: its stages and clauses as token ranges.
//! Guarantee: together the ranges are all tokens between the braces; a span with a comment inside a
//! stage has no parts.

use super::tokens::{Class, Tokens};
use std::ops::Range;

/// Words that begin a stage or a clause of a span.
const STAGES: [&str; 6] = ["start", "mark", "end", "restart", "expire", "limit"];

/// The parts of a span.
pub(super) struct Parts {
    /// The opening brace.
    pub body: usize,
    /// The closing brace.
    pub close: usize,
    /// The stages and clauses between them.
    pub stages: Vec<Stage>,
}

/// A stage or a clause.
pub(super) struct Stage {
    /// Its keyword, and the name of a mark.
    pub head: Range<usize>,
    /// Its probes, each with the comma after it; for a clause, its value.
    pub points: Vec<Range<usize>>,
    /// The slashes around its predicate.
    pub predicate: Option<(usize, usize)>,
    /// Its key, with `by`.
    pub key: Range<usize>,
    /// The braces with the fields it keeps.
    pub keeps: Range<usize>,
    /// One past its last token, trailing semicolons included.
    pub end: usize,
}

impl Parts {
    /// The parts of a span; `None` if its form is unknown.
    pub(super) fn of(tokens: Tokens<'_>, range: &Range<usize>, body: usize) -> Option<Parts> {
        let close = (body..range.end).rev().find(|at| tokens.is_mark(*at, "}"))?;
        let reader = Reader { tokens, close };
        let (mut stages, mut at) = (Vec::new(), body + 1);
        while at < close {
            let stage = reader.stage(at)?;
            if stage.end <= at || (at + 1..stage.end).any(|at| tokens.commented(at - 1, at)) {
                return None;
            }
            at = stage.end;
            stages.push(stage);
        }
        Some(Parts { body, close, stages })
    }
}

/// Reads the stages before the closing brace.
struct Reader<'a> {
    tokens: Tokens<'a>,
    close: usize,
}

impl Reader<'_> {
    fn stage(&self, start: usize) -> Option<Stage> {
        let word = self.tokens.word(start);
        if !STAGES.contains(&word) || self.tokens.class(start) != Some(Class::Word) {
            return None;
        }
        let mut at = start + 1 + usize::from(word == "mark");
        let head = start..at;
        let mut points = Vec::new();
        let mut predicate = None;
        if matches!(word, "start" | "mark" | "end") {
            while points.is_empty() || self.tokens.is_mark(at - 1, ",") && self.begins_point(at) {
                let mut end = self.point_end(at);
                while end > at && self.tokens.word(end) == "unless" && end + 1 < self.close {
                    end = self.point_end(end + 1);
                }
                while self.tokens.is_mark(end, ",") {
                    end += 1;
                }
                points.push(at..end);
                if end <= at {
                    return None;
                }
                at = end;
            }
            if self.tokens.is_mark(at, "/") {
                let end =
                    (at + 1..self.close).find(|end| self.tokens.is_mark(*end, "/") && self.ends_condition(end + 1))?;
                predicate = Some((at, end));
                at = end + 1;
            }
        } else {
            let end = self.value_end(at);
            points.push(at..end);
            at = end;
        }
        let key = at..if self.tokens.word(at) == "by" { self.value_end(at + 1) } else { at };
        at = key.end;
        let keeps = at..if self.tokens.is_mark(at, "{") { self.tokens.closing(at, self.close)? + 1 } else { at };
        at = keeps.end;
        while at < self.close && self.tokens.is_mark(at, ";") {
            at += 1;
        }
        (head.end < self.close && !points.is_empty()).then_some(Stage { head, points, predicate, key, keeps, end: at })
    }

    /// One past the last token of an attach point: a sequence of adjacent names and parts.
    fn point_end(&self, start: usize) -> usize {
        let ends = |at: usize| [",", "/", "{", ";"].iter().any(|mark| self.tokens.is_mark(at, mark));
        (start + 1..self.close).find(|at| !self.tokens.adjacent(*at) || ends(*at)).unwrap_or(self.close)
    }

    /// Whether another attach point begins here, after a comma.
    fn begins_point(&self, at: usize) -> bool {
        let is_word = self.tokens.class(at) == Some(Class::Word) && self.tokens.word(at) != "by";
        is_word && (!STAGES.contains(&self.tokens.word(at)) || self.tokens.is_mark(at + 1, ":"))
    }

    /// Whether this token can follow a predicate.
    fn ends_condition(&self, at: usize) -> bool {
        matches!(self.tokens.word(at), "{" | "}" | ";" | "by") || STAGES.contains(&self.tokens.word(at))
    }

    /// One past the last token of a key or of a clause's value.
    fn value_end(&self, start: usize) -> usize {
        let mut at = start;
        while at < self.close {
            match self.tokens.word(at) {
                "(" | "[" if self.tokens.class(at) == Some(Class::Mark) => match self.tokens.closing(at, self.close) {
                    Some(end) => at = end,
                    None => return self.close,
                },
                ";" | "{" => return at,
                word if at > start && STAGES.contains(&word) && !self.tokens.is_mark(at - 1, ".") => return at,
                _ => {}
            }
            at += 1;
        }
        self.close
    }
}
