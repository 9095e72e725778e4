//! Tree builder for `state` declarations.
//!
//! In: pairs of their rules. Out: their nodes.
//! Guarantee: as for the parent; only the parent and its submodules know the parser generator.

use super::super::literals::{self, Number};
use super::blocks::Items;
use super::grammar::Rule;
use crate::ast::{Expr, ExprKind, Ident, State, StatePart};
use pest::iterators::Pair;

impl Items<'_, '_> {
    pub(super) fn state(&mut self, pair: Pair<'_, Rule>) -> State {
        let span = self.code.reader.span(&pair);
        let name = Ident { text: String::new(), span };
        let mut state = State { name, key: Vec::new(), fields: Vec::new(), limit: None, span };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident => state.name = self.code.reader.ident(&pair),
                Rule::state_key => {
                    let part = self.state_part(pair);
                    state.key.push(part);
                }
                Rule::state_field => {
                    let part = self.state_part(pair);
                    state.fields.push(part);
                }
                Rule::state_limit => state.limit = self.state_limit(pair),
                _ => {}
            }
        }
        state
    }

    fn state_part(&mut self, pair: Pair<'_, Rule>) -> StatePart {
        let mut part = StatePart { name: Ident { text: String::new(), span: self.code.reader.span(&pair) }, ty: None };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident => part.name = self.code.reader.ident(&pair),
                Rule::type_name => part.ty = Some(self.code.type_name(pair)),
                _ => {}
            }
        }
        part
    }

    fn state_limit(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let number = pair.into_inner().find(|pair| pair.as_rule() == Rule::number)?;
        let span = self.code.reader.span(&number);
        match literals::number(number.as_str(), span) {
            Ok(Number::Int(value) | Number::DurationNs(value)) => Some(Expr { kind: ExprKind::Int(value), span }),
            Err(problem) => {
                self.code.reader.problems.push(problem);
                None
            }
        }
    }
}
