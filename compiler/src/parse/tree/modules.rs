//! Tree builder for parameters, modules and their public names.
//!
//! In: pairs of their rules. Out: their nodes.
//! Guarantee: as for the parent; only the parent and its submodules know the parser generator.

use super::blocks::Items;
use super::grammar::Rule;
use super::parsed::Parsed;
use super::spans::Spans;
use super::view::Views;
use crate::ast::{Ident, Param, ParamValue, Public, PublicKind, Use};
use pest::iterators::Pair;

impl Items<'_, '_> {
    pub(super) fn param(&mut self, pair: Pair<'_, Rule>) -> Param {
        let span = self.code.reader.span(&pair);
        let nameless = || Ident { text: String::new(), span };
        let (mut idents, mut help, mut values) = (Vec::new(), nameless(), Vec::new());
        let (mut default, mut has_range) = (Vec::new(), false);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident => idents.push(self.code.reader.ident(&pair)),
                Rule::param_value => values.push(self.param_value(pair)),
                Rule::string => help = self.code.reader.text(&pair),
                Rule::kw_in => (default, has_range) = (std::mem::take(&mut values), true),
                _ => {}
            }
        }
        let mut idents = idents.into_iter();
        let (name, ty) = (idents.next().unwrap_or_else(nameless), idents.next().unwrap_or_else(nameless));
        let mut values = values.into_iter();
        let range = if has_range {
            values.next().zip(values.next())
        } else {
            default = values.collect();
            None
        };
        Param { name, ty, default, help, range, span }
    }

    fn param_value(&mut self, pair: Pair<'_, Rule>) -> ParamValue {
        let span = self.code.reader.span(&pair);
        match pair.into_inner().next() {
            Some(inner) if inner.as_rule() == Rule::string => {
                let Ident { text, span } = self.code.reader.text(&inner);
                ParamValue { text, quoted: true, span }
            }
            inner => {
                let text = inner.map_or_else(String::new, |inner| inner.as_str().to_owned());
                ParamValue { text, quoted: false, span }
            }
        }
    }

    pub(super) fn use_of(&mut self, pair: Pair<'_, Rule>) -> Use {
        let span = self.code.reader.span(&pair);
        let (mut module, mut alias) = (Ident { text: String::new(), span }, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::module_path => module = self.code.reader.ident(&pair),
                Rule::ident => alias = Some(self.code.reader.ident(&pair)),
                _ => {}
            }
        }
        Use { module, alias, span }
    }

    pub(super) fn public(&mut self, pair: Pair<'_, Rule>) -> Option<Parsed> {
        let inner = pair.into_inner().find(|pair| pair.as_rule() != Rule::kw_pub)?;
        let public = |kind, name: &Ident| Public { kind, name: name.clone() };
        Some(match inner.as_rule() {
            Rule::param_decl => {
                let made = self.param(inner);
                Parsed::Public(public(PublicKind::Param, &made.name), Some(Box::new(Parsed::Param(made))))
            }
            Rule::macro_def => {
                let made = self.macro_def(inner);
                Parsed::Public(public(PublicKind::Macro, &made.name), Some(Box::new(Parsed::Macro(made))))
            }
            Rule::map_decl => {
                let made = self.map_declaration(inner);
                Parsed::Public(public(PublicKind::Map, &made.name), Some(Box::new(Parsed::Map(made))))
            }
            Rule::span => {
                let made = Spans { code: self.code }.span_definition(inner);
                Parsed::Public(public(PublicKind::Span, &made.name), Some(Box::new(Parsed::Span(made))))
            }
            Rule::view_def => {
                let made = Views { code: self.code }.view(inner);
                Parsed::Public(public(PublicKind::View, &made.title), Some(Box::new(Parsed::View(Box::new(made)))))
            }
            _ => {
                let map = inner.into_inner().next()?;
                Parsed::Public(public(PublicKind::Map, &self.code.reader.ident(&map)), None)
            }
        })
    }
}
