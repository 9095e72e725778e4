//! The tree builder's part for parameters, modules and their public names.
//!
//! In: pairs of their rules. Out: their nodes; `a.b`, `@a.b` and `$a.b` as one name where `a` is a module of the file.
//! Guarantee: as for the parent; its files are the only ones that know the parser generator.

use super::super::expressions::{Chain, Postfix};
use super::super::literals;
use super::{Builder, Parsed, Rule};
use crate::ast::{ExprKind, Ident, Param, ParamValue, Public, PublicKind, Use};
use crate::source::Span;
use pest::iterators::Pair;

impl Builder<'_> {
    pub(super) fn param(&mut self, pair: Pair<'_, Rule>) -> Param {
        let span = self.span(&pair);
        let nameless = || Ident { text: String::new(), span };
        let (mut idents, mut help, mut values) = (Vec::new(), nameless(), Vec::new());
        let (mut default, mut has_range) = (Vec::new(), false);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident => idents.push(self.ident(&pair)),
                Rule::param_value => values.push(self.param_value(pair)),
                Rule::string => help = self.text(&pair),
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
        let span = self.span(&pair);
        match pair.into_inner().next() {
            Some(inner) if inner.as_rule() == Rule::string => {
                let Ident { text, span } = self.text(&inner);
                ParamValue { text, quoted: true, span }
            }
            inner => {
                let text = inner.map_or_else(String::new, |inner| inner.as_str().to_owned());
                ParamValue { text, quoted: false, span }
            }
        }
    }

    /// What a string says.
    fn text(&mut self, pair: &Pair<'_, Rule>) -> Ident {
        let span = self.span(pair);
        let bytes = literals::string(pair.as_str(), span, self.problems);
        Ident { text: String::from_utf8_lossy(&bytes).into_owned(), span }
    }

    pub(super) fn use_of(&mut self, pair: Pair<'_, Rule>) -> Use {
        let span = self.span(&pair);
        let (mut module, mut alias) = (Ident { text: String::new(), span }, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::module_path => module = self.ident(&pair),
                Rule::ident => alias = Some(self.ident(&pair)),
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
                let made = self.span_definition(inner);
                Parsed::Public(public(PublicKind::Span, &made.name), Some(Box::new(Parsed::Span(made))))
            }
            Rule::view_def => {
                let made = self.view(inner);
                Parsed::Public(public(PublicKind::View, &made.title), Some(Box::new(Parsed::View(Box::new(made)))))
            }
            _ => {
                let map = inner.into_inner().next()?;
                Parsed::Public(public(PublicKind::Map, &self.ident(&map)), None)
            }
        })
    }

    /// Whether a field is the name of a module's thing; then the operand becomes that name.
    pub(super) fn qualifies(&self, chain: &mut Chain, postfix: &Postfix, span: Span) -> bool {
        let (Some(target), Postfix::Field(field)) = (&mut chain.primary, postfix) else { return false };
        let name = match &mut target.kind {
            ExprKind::Name(name) | ExprKind::Var(name) => name,
            ExprKind::Map { name, keys } if keys.is_empty() => name,
            _ => return false,
        };
        if !self.known.prefixes.contains(name) {
            return false;
        }
        *name = format!("{name}.{}", field.text);
        target.span = target.span.to(span);
        true
    }
}
