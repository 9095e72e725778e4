//! Items one after the other, and what stands in front of a probe's block.
//!
//! In: a printer. Out: the whole script.
//! Guarantee: an item of a kind that is not known here is written as it stands.

use super::declarations::Columns;
use super::printer::{Gap, Item, Printer};
use super::roles::roles;
use super::spans::Parts;
use crate::parse::pieces::Class;
use crate::source::Span;
use std::ops::Range;

/// What an item is, as far as its form goes.
pub(super) enum Form {
    /// Attach points, a predicate (its slashes), a block (its brace).
    Probe { predicate: Option<(usize, usize)>, body: usize },
    /// A macro, a map declaration, an import, the config block.
    Code,
    /// A definition in C.
    Definition,
    /// A parameter.
    Param,
    /// `use`, and the name of a public map.
    Words,
    /// A state, by its brace.
    State { body: usize },
    /// A view, by its brace.
    View { body: usize },
    /// A span.
    Span(Parts),
    /// Something else.
    Unknown,
}

impl Printer<'_> {
    /// Writes the script; without structure, items are written as they stand.
    pub(super) fn script(mut self, with_structure: bool) -> String {
        let pieces = self.pieces;
        let (mut next, mut was_long) = (0, false);
        let columns = if with_structure { self.columns() } else { Vec::new() };
        for (number, range) in pieces.items.iter().enumerate() {
            self.loose(next..range.start);
            next = range.end;
            let form = if with_structure { self.form(range) } else { Form::Unknown };
            let (before, is_first) = (self.out.len(), self.out.is_empty());
            self.item(range, &form, columns.get(number).copied().unwrap_or_default());
            // Items that shared a line are told apart by a blank one.
            let is_long = self.out[before..].trim_start_matches('\n').contains('\n');
            let shared = !is_first && !self.broken(range.start - 1, range.start);
            if shared && (is_long || was_long) {
                self.out.insert(before, '\n');
            }
            was_long = is_long;
        }
        self.loose(next..pieces.tokens.len());
        self.finish()
    }

    /// What belongs to no item, or follows its block: semicolons.
    fn loose(&mut self, range: Range<usize>) {
        for at in range {
            self.token(at, Gap::Glue, 0);
        }
    }

    fn form(&self, range: &Range<usize>) -> Form {
        let (first, second) = (self.word(range.start), self.word(range.start + 1));
        match first {
            "config" if second == "=" => Form::Code,
            "macro" if self.class(range.start + 1) == Some(Class::Word) => Form::Code,
            "import" if second.starts_with('"') => Form::Code,
            "let" if second.starts_with('@') => Form::Code,
            "struct" | "union" | "enum" | "typedef" => Form::Definition,
            _ => self.declaration(range).unwrap_or_else(|| self.probe(range)),
        }
    }

    fn probe(&self, range: &Range<usize>) -> Form {
        let begins = matches!(self.word(range.start + 1), ":" | "," | "{" | "/" | "=") || self.word(range.start) == ",";
        let mark = |at: usize| if self.class(at) == Some(Class::Mark) { self.word(at) } else { "" };
        let Some(first) = range.clone().find(|at| matches!(mark(*at), "{" | "/")) else { return Form::Unknown };
        if !begins {
            return Form::Unknown;
        }
        if mark(first) == "{" {
            return Form::Probe { predicate: None, body: first };
        }
        let body = (first + 2..range.end).find(|at| mark(*at) == "{" && mark(*at - 1) == "/");
        body.map_or(Form::Unknown, |body| Form::Probe { predicate: Some((first, body - 1)), body })
    }

    fn item(&mut self, range: &Range<usize>, form: &Form, columns: Columns) {
        let (first, last) = (self.span(range.start), self.span(range.end - 1));
        if let Form::Unknown = form {
            return self.verbatim(Span { start: first.start, end: last.end });
        }
        let tokens: Vec<_> = range.clone().map(|at| (self.pieces.tokens[at].0, self.word(at))).collect();
        let predicates: Vec<(usize, usize)> = match form {
            Form::Probe { predicate, .. } => predicate.iter().copied().collect(),
            Form::Span(parts) => parts.stages.iter().filter_map(|stage| stage.predicate).collect(),
            _ => Vec::new(),
        };
        let predicates: Vec<_> =
            predicates.iter().map(|(open, close)| (open - range.start, close - range.start)).collect();
        let is_c = matches!(form, Form::Definition);
        self.item = Item { start: range.start, roles: roles(&tokens, &predicates), is_c };
        match form {
            Form::Probe { predicate, body } => self.probe_block(range, *predicate, *body),
            Form::Param => self.param(range, columns),
            Form::Words => self.words(range),
            Form::State { body } => self.state(range, *body),
            Form::View { body } => self.view(range, *body),
            Form::Span(parts) => self.span_item(range, parts),
            _ => self.run(range.clone(), Gap::Paragraph, 0, true),
        }
    }

    fn probe_block(&mut self, range: &Range<usize>, predicate: Option<(usize, usize)>, body: usize) {
        let points = range.start..predicate.map_or(body, |(open, _)| open);
        let last = points.end.saturating_sub(1).max(points.start);
        let mut one_line = !self.broken_within(points.start, last) && !self.commented(points.start, last);
        let start = self.checkpoint();
        self.points(&points, one_line);
        if one_line && self.is_wide() && (points.clone()).any(|at| self.word(at) == ",") {
            one_line = false;
            self.go_back(&start);
            self.points(&points, false);
        }
        let headed = self.checkpoint();
        if one_line && self.is_short(body) && !self.commented(last, body) {
            self.inline = true;
            self.predicate(predicate, Gap::Space);
            self.block(body, Gap::Space, 0);
            self.inline = false;
            if self.fits(&headed) {
                return self.loose(self.partner(body) + 1..range.end);
            }
            self.go_back(&headed);
        }
        self.predicate(predicate, Gap::Break);
        self.long_block(body, Gap::Break, 0);
        self.loose(self.partner(body) + 1..range.end);
    }

    fn broken_within(&self, first: usize, last: usize) -> bool {
        last > first && self.broken(first, last)
    }

    fn points(&mut self, points: &Range<usize>, one_line: bool) {
        for at in points.clone() {
            let after_comma = at > points.start && self.word(at - 1) == "," && self.class(at - 1) == Some(Class::Mark);
            let gap = match self.word(at) {
                _ if at == points.start => Gap::Paragraph,
                "," => Gap::Glue,
                _ if after_comma && one_line => Gap::Space,
                _ if after_comma => Gap::Break,
                _ if self.adjacent(at) => Gap::Glue,
                _ => Gap::Space,
            };
            self.token(at, gap, 0);
        }
    }

    fn predicate(&mut self, predicate: Option<(usize, usize)>, gap: Gap) {
        if let Some((open, close)) = predicate {
            self.run(open..close + 1, gap, 0, false);
        }
    }
}
