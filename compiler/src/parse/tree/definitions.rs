//! Tree builder for imports, macros and map declarations.
//!
//! In: pairs of their rules. Out: their nodes.
//! Guarantee: as for the parent; only the parent and its submodules know the parser generator.

use super::super::literals;
use super::blocks::Items;
use super::grammar::Rule;
use crate::ast::{Import, Macro, MacroParam, MacroParamKind, MapDeclaration, Stmt, StmtKind};
use pest::iterators::Pair;

impl Items<'_, '_> {
    pub(super) fn import(&mut self, pair: Pair<'_, Rule>) -> Import {
        let mut path = self.code.reader.nameless(&pair);
        for pair in pair.into_inner().filter(|pair| pair.as_rule() == Rule::string) {
            path.span = self.code.reader.span(&pair);
            let bytes = literals::string(pair.as_str(), path.span, self.code.reader.problems);
            path.text = String::from_utf8_lossy(&bytes).into_owned();
        }
        Import { path }
    }

    pub(super) fn map_declaration(&mut self, pair: Pair<'_, Rule>) -> MapDeclaration {
        let (mut name, mut kind) = (self.code.reader.nameless(&pair), self.code.reader.nameless(&pair));
        let mut entries = None;
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::map => name = self.code.reader.ident(&pair),
                Rule::ident => kind = self.code.reader.ident(&pair),
                Rule::expr => entries = Some(self.code.expr(pair)),
                _ => {}
            }
        }
        let entries = entries.unwrap_or_else(|| self.code.reader.hole(kind.span));
        MapDeclaration { name, kind, entries }
    }

    pub(super) fn macro_def(&mut self, pair: Pair<'_, Rule>) -> Macro {
        let span = self.code.reader.span(&pair);
        let mut made =
            Macro { name: self.code.reader.nameless(&pair), params: Vec::new(), body: Vec::new(), value: None, span };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident => made.name = self.code.reader.ident(&pair),
                Rule::macro_param => made.params.extend(self.macro_param(pair)),
                Rule::macro_body => {
                    let (mut body, ended) = self.code.statements(pair);
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
        Some(MacroParam { kind, name: self.code.reader.ident(&inner) })
    }
}
