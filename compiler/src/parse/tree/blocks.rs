//! Tree builder for probe blocks and the config block.
//!
//! In: pairs of their rules. Out: their nodes.
//! Guarantee: as for the parent; only the parent and its submodules know the parser generator.

use super::grammar::Rule;
use super::statements::Code;
use crate::ast::{ConfigEntry, Ident, ProbeBlock};
use pest::iterators::Pair;

/// Builds top-level items, except those that have a builder of their own.
pub(super) struct Items<'c, 'a> {
    pub code: &'c mut Code<'a>,
}

impl Items<'_, '_> {
    pub(super) fn config(&mut self, pair: Pair<'_, Rule>) -> Vec<ConfigEntry> {
        let entries = pair.into_inner().filter(|pair| pair.as_rule() == Rule::config_entry);
        entries.map(|entry| self.config_entry(entry)).collect()
    }

    fn config_entry(&mut self, entry: Pair<'_, Rule>) -> ConfigEntry {
        let span = self.code.reader.span(&entry);
        let mut key = Ident { text: String::new(), span };
        let mut value = None;
        for pair in entry.into_inner() {
            match pair.as_rule() {
                Rule::ident => key = self.code.reader.ident(&pair),
                Rule::expr => value = Some(self.code.expr(pair)),
                _ => {}
            }
        }
        ConfigEntry { key, value: value.unwrap_or_else(|| self.code.reader.hole(span)) }
    }

    pub(super) fn probe_block(&mut self, pair: Pair<'_, Rule>) -> ProbeBlock {
        let whole = self.code.reader.span(&pair);
        let mut block = ProbeBlock { name: None, points: Vec::new(), predicate: None, body: Vec::new(), span: whole };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::block_name => block.name = Some(self.code.reader.ident(&pair)),
                Rule::attach => block.points.extend(self.code.reader.attach(pair)),
                Rule::predicate => block.predicate = self.code.first_expr(pair),
                Rule::body => block.body = self.code.body(pair),
                _ => {}
            }
        }
        if let Some(first) = block.points.first() {
            block.span.start = first.span.start;
        }
        block
    }
}
