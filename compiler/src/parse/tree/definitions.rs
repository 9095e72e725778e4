//! The tree builder's part for what stands beside probes: imports, macros, map declarations.
//!
//! In: pairs of their rules. Out: their nodes.
//! Guarantee: as for the parent; its files are the only ones that know the parser generator.

use super::super::literals;
use super::{Builder, Rule};
use crate::ast::{Ident, Import, Macro, MacroParam, MacroParamKind, MapDeclaration, Stmt, StmtKind};
use pest::iterators::Pair;

impl Builder<'_> {
    pub(super) fn import(&mut self, pair: Pair<'_, Rule>) -> Import {
        let mut path = self.nameless(&pair);
        for pair in pair.into_inner().filter(|pair| pair.as_rule() == Rule::string) {
            path.span = self.span(&pair);
            let bytes = literals::string(pair.as_str(), path.span, self.problems);
            path.text = String::from_utf8_lossy(&bytes).into_owned();
        }
        Import { path }
    }

    pub(super) fn map_declaration(&mut self, pair: Pair<'_, Rule>) -> MapDeclaration {
        let (mut name, mut kind) = (self.nameless(&pair), self.nameless(&pair));
        let mut entries = None;
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::map => name = self.ident(&pair),
                Rule::ident => kind = self.ident(&pair),
                Rule::expr => entries = Some(self.expr(pair)),
                _ => {}
            }
        }
        let entries = entries.unwrap_or_else(|| self.hole(kind.span));
        MapDeclaration { name, kind, entries }
    }

    pub(super) fn macro_def(&mut self, pair: Pair<'_, Rule>) -> Macro {
        let span = self.span(&pair);
        let mut made = Macro { name: self.nameless(&pair), params: Vec::new(), body: Vec::new(), value: None, span };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident => made.name = self.ident(&pair),
                Rule::macro_param => made.params.extend(self.macro_param(pair)),
                Rule::macro_body => {
                    let (mut body, ended) = self.statements(pair);
                    if !ended && matches!(body.last(), Some(Stmt { kind: StmtKind::Expr(_), .. })) {
                        made.value = body.pop().and_then(|stmt| match stmt.kind {
                            StmtKind::Expr(value) => Some(value),
                            _ => None,
                        });
                    }
                    made.body = body;
                }
                _ => {}
            }
        }
        made
    }

    fn macro_param(&mut self, pair: Pair<'_, Rule>) -> Option<MacroParam> {
        let inner = pair.into_inner().next()?;
        let kind = match inner.as_rule() {
            Rule::var => MacroParamKind::Var,
            Rule::map => MacroParamKind::Map,
            _ => MacroParamKind::Expr,
        };
        Some(MacroParam { kind, name: self.ident(&inner) })
    }

    fn nameless(&self, pair: &Pair<'_, Rule>) -> Ident {
        Ident { text: String::new(), span: self.span(pair) }
    }
}
