//! Reads the leaves of the grammar's output: spans, names, strings and attach points.
//!
//! In: pairs of the parser generator. Out: their parts of the tree.
//! Guarantee: every span ends at the end of a token.

use super::super::{errors, literals};
use super::grammar::Rule;
use crate::ast::{AttachPoint, Expr, ExprKind, Ident};
use crate::diagnostic::Diagnostic;
use crate::parse::tokens::Token;
use crate::source::Span;
use pest::iterators::Pair;

/// Names with a special meaning in the current file.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::parse) struct Known<'a> {
    /// Prefixes (before the dot) of names from modules.
    pub prefixes: &'a [String],
    /// Names that denote the records of states.
    pub states: &'a [String],
}

/// Where the pairs of an item are in the script, and what is wrong with them.
pub(super) struct Reader<'a> {
    /// Offset of the item's text.
    pub base: usize,
    pub tokens: &'a [Token],
    /// The names of the file's modules and states.
    pub known: Known<'a>,
    pub problems: &'a mut Vec<Diagnostic>,
}

impl Reader<'_> {
    /// The span of `pair` without the blanks and comments that the grammar consumed at its end.
    pub(super) fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        let raw = pair.as_span();
        let span = Span::new(self.base + raw.start(), self.base + raw.end());
        let after = self.tokens.partition_point(|token| token.span.end <= span.end);
        let end = after.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(span.end, |token| token.span.end);
        Span { start: span.start, end: if end > span.start { end } else { span.end } }
    }

    /// The span of a rule that contains no blanks.
    fn raw_span(&self, pair: &Pair<'_, Rule>) -> Span {
        Span::new(self.base + pair.as_span().start(), self.base + pair.as_span().end())
    }

    pub(super) fn ident(&self, pair: &Pair<'_, Rule>) -> Ident {
        Ident { text: pair.as_str().trim_start_matches(['$', '@']).to_owned(), span: self.span(pair) }
    }

    pub(super) fn nameless(&self, pair: &Pair<'_, Rule>) -> Ident {
        Ident { text: String::new(), span: self.span(pair) }
    }

    pub(super) fn first_ident(&self, pair: Pair<'_, Rule>) -> Option<Ident> {
        pair.into_inner().find(|pair| pair.as_rule() == Rule::ident).map(|pair| self.ident(&pair))
    }

    /// The value of a string literal.
    pub(super) fn text(&mut self, pair: &Pair<'_, Rule>) -> Ident {
        let span = self.span(pair);
        let bytes = literals::string(pair.as_str(), span, self.problems);
        Ident { text: String::from_utf8_lossy(&bytes).into_owned(), span }
    }

    /// Placeholder for a part that the grammar guarantees but that is missing; reports it.
    pub(super) fn hole(&mut self, span: Span) -> Expr {
        self.problems.push(errors::unexpected(span, "this", &[]));
        Expr { kind: ExprKind::Int(0), span }
    }

    /// A probe with the alternatives after `unless`.
    pub(super) fn attach(&mut self, pair: Pair<'_, Rule>) -> Option<AttachPoint> {
        let mut points = pair.into_inner().filter(|pair| pair.as_rule() == Rule::point);
        let mut point = self.point(points.next()?);
        point.unless = points.map(|pair| self.point(pair)).collect();
        Some(point)
    }

    fn point(&mut self, pair: Pair<'_, Rule>) -> AttachPoint {
        let span = self.raw_span(&pair);
        let kind = Ident { text: String::new(), span };
        let mut point = AttachPoint { kind, parts: Vec::new(), unless: Vec::new(), span };
        for pair in pair.into_inner() {
            let span = self.raw_span(&pair);
            match pair.as_rule() {
                Rule::kind => point.kind = Ident { text: pair.as_str().to_owned(), span },
                Rule::part => {
                    let text = self.part(pair);
                    point.parts.push(Ident { text, span });
                }
                _ => {}
            }
        }
        point
    }

    fn part(&mut self, pair: Pair<'_, Rule>) -> String {
        let mut text = String::new();
        for piece in pair.into_inner() {
            if piece.as_rule() == Rule::string {
                let bytes = literals::string(piece.as_str(), self.raw_span(&piece), self.problems);
                text.push_str(&String::from_utf8_lossy(&bytes));
            } else {
                text.push_str(piece.as_str());
            }
        }
        text
    }
}
