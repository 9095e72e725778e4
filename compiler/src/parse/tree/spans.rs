//! Tree builder for spans.
//!
//! In: pairs of the grammar's rules for spans. Out: a [`SpanDefinition`].
//! Guarantee: as for the parent.

use super::grammar::Rule;
use super::statements::Code;
use crate::ast::{Expr, ExprKind, Ident, Keep, KeyPart, SpanDefinition, Stage, StageKind};
use crate::source::Span;
use pest::iterators::Pair;

/// Builds spans.
pub(super) struct Spans<'c, 'a> {
    pub code: &'c mut Code<'a>,
}

impl Spans<'_, '_> {
    pub(super) fn span_definition(&mut self, pair: Pair<'_, Rule>) -> SpanDefinition {
        let span = self.code.reader.span(&pair);
        let mut made = SpanDefinition {
            name: Ident { text: String::new(), span },
            key: Vec::new(),
            stages: Vec::new(),
            restart: Vec::new(),
            expire: Vec::new(),
            limit: Vec::new(),
            evict: None,
            span,
        };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident => made.name = self.code.reader.ident(&pair),
                Rule::span_key => made.key = self.span_key(pair),
                Rule::stage => {
                    let stage = self.stage(pair);
                    made.stages.push(stage);
                }
                Rule::restart => made.restart.extend(self.code.reader.first_ident(pair)),
                Rule::expire => made.expire.extend(self.code.first_expr(pair)),
                Rule::limit => {
                    let word = pair.clone().into_inner().find(|pair| pair.as_rule() == Rule::kw_evict);
                    made.evict = made.evict.or(word.map(|word| self.code.reader.span(&word)));
                    made.limit.extend(self.code.first_expr(pair));
                }
                _ => {}
            }
        }
        made
    }

    fn span_key(&mut self, pair: Pair<'_, Rule>) -> Vec<KeyPart> {
        let parts = pair.into_inner().filter(|pair| pair.as_rule() == Rule::key_part);
        parts.map(|part| self.key_part(part)).collect()
    }

    fn key_part(&mut self, pair: Pair<'_, Rule>) -> KeyPart {
        let span = self.code.reader.span(&pair);
        let name = self.code.reader.first_ident(pair.clone());
        let value = self.code.first_expr(pair).unwrap_or_else(|| self.code.reader.hole(span));
        KeyPart { name: name.or_else(|| own_name(&value)), value }
    }

    fn stage(&mut self, pair: Pair<'_, Rule>) -> Stage {
        let span = self.code.reader.span(&pair);
        let mut stage = Stage {
            kind: StageKind::Start,
            points: Vec::new(),
            predicate: None,
            key: Vec::new(),
            keeps: Vec::new(),
            span,
        };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::stage_word => stage.kind = self.stage_kind(pair),
                Rule::attach => stage.points.extend(self.code.reader.attach(pair)),
                Rule::stage_filter => {
                    let filter = pair.into_inner().find(|pair| pair.as_rule() == Rule::stage_expr);
                    stage.predicate = filter.map(|filter| self.code.expr(filter));
                }
                Rule::span_key => stage.key = self.span_key(pair),
                Rule::keeps => {
                    let keeps = pair.into_inner().filter(|pair| pair.as_rule() == Rule::keep);
                    stage.keeps = keeps.map(|keep| self.keep(keep)).collect();
                }
                _ => {}
            }
        }
        stage
    }

    fn stage_kind(&self, pair: Pair<'_, Rule>) -> StageKind {
        let is_end = pair.clone().into_inner().any(|pair| pair.as_rule() == Rule::kw_end);
        match self.code.reader.first_ident(pair) {
            Some(name) => StageKind::Mark(name),
            None if is_end => StageKind::End,
            None => StageKind::Start,
        }
    }

    fn keep(&mut self, pair: Pair<'_, Rule>) -> Keep {
        let span = self.code.reader.span(&pair);
        let mut name = Ident { text: String::new(), span };
        let mut value = None;
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::field_name => name = self.code.reader.ident(&pair),
                Rule::expr => value = Some(self.code.expr(pair)),
                _ => {}
            }
        }
        Keep { name, value: value.unwrap_or_else(|| self.code.reader.hole(span)) }
    }
}

/// Default name of an unnamed part of a key: `pid`, and `fd` for `args.fd`.
fn own_name(value: &Expr) -> Option<Ident> {
    let named = |text: &str, span: Span| Some(Ident { text: text.to_owned(), span });
    match &value.kind {
        ExprKind::Name(name) => named(name, value.span),
        ExprKind::Call { name, .. } => named(&name.text, name.span),
        ExprKind::Field(_, field) => named(&field.text, field.span),
        _ => None,
    }
}
