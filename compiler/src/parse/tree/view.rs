//! The tree builder's part for views.
//!
//! In: pairs of their rules. Out: their nodes.
//! Guarantee: as for the parent; its files are the only ones that know the parser generator.

use super::super::{errors, literals};
use super::{Builder, Rule};
use crate::ast::{Every, Expr, ExprKind, Ident, STATE_MARK, Sort, Top, View, ViewColumn, ViewName};
use crate::source::Span;
use pest::iterators::Pair;

impl Builder<'_> {
    pub(super) fn view(&mut self, pair: Pair<'_, Rule>) -> View {
        let span = self.span(&pair);
        let title = Ident { text: String::new(), span };
        let mut view = View { title, of: Vec::new(), show: Vec::new(), sort: None, top: None, every: None, span };
        let mut seen: Vec<(Rule, Span)> = Vec::new();
        for pair in pair.into_inner() {
            let (rule, span) = (pair.as_rule(), self.span(&pair));
            if let Some(word) = clause_word(rule) {
                match seen.iter().find(|(earlier, _)| *earlier == rule) {
                    Some((_, first)) => self.problems.push(errors::clause_twice(span, word, *first)),
                    None => seen.push((rule, span)),
                }
            }
            match rule {
                Rule::string => view.title = self.quoted(&pair),
                Rule::view_of => {
                    view.of = pair.into_inner().filter_map(|pair| self.view_source(&pair)).collect();
                }
                Rule::view_show => {
                    let columns = pair.into_inner().filter(|pair| pair.as_rule() == Rule::view_column);
                    view.show = columns.filter_map(|column| self.view_column(column)).collect();
                }
                Rule::view_sort => view.sort = self.view_sort(pair),
                Rule::view_top => {
                    let rest = pair.as_str().trim_end().ends_with("rest");
                    view.top = self.number_in(pair).map(|rows| Top { rows, rest });
                }
                Rule::view_every => {
                    let clear = pair.as_str().trim_end().ends_with("clear");
                    view.every = self.number_in(pair).map(|period| Every { period, clear });
                }
                _ => {}
            }
        }
        if view.of.is_empty() {
            self.problems.push(errors::view_of_nothing(view.title.span));
        }
        view
    }

    fn quoted(&mut self, pair: &Pair<'_, Rule>) -> Ident {
        let span = self.span(pair);
        let bytes = literals::string(pair.as_str(), span, self.problems);
        Ident { text: String::from_utf8_lossy(&bytes).into_owned(), span }
    }

    /// A map, or a state.
    fn view_source(&self, pair: &Pair<'_, Rule>) -> Option<Ident> {
        let ident = self.ident(pair);
        match pair.as_rule() {
            Rule::map | Rule::module_map => Some(ident),
            Rule::state_name => Some(Ident { text: format!("{STATE_MARK}{}", ident.text), span: ident.span }),
            _ => None,
        }
    }

    fn view_column(&mut self, pair: Pair<'_, Rule>) -> Option<ViewColumn> {
        let (mut name, mut header) = (None, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::column => name = self.view_name(pair),
                Rule::string => header = Some(self.quoted(&pair)),
                _ => {}
            }
        }
        Some(ViewColumn { name: name?, header })
    }

    fn view_name(&mut self, pair: Pair<'_, Rule>) -> Option<ViewName> {
        let span = self.span(&pair);
        let (mut map, mut name) = (None, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::map | Rule::module_map | Rule::state_name => map = self.view_source(&pair),
                Rule::column_name => name = Some(self.ident(&pair)),
                _ => {}
            }
        }
        Some(ViewName { map, name: name?, span })
    }

    fn view_sort(&mut self, pair: Pair<'_, Rule>) -> Option<Sort> {
        let (mut name, mut ascending) = (None, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::column => name = self.view_name(pair),
                Rule::ascending => ascending = Some(true),
                Rule::descending => ascending = Some(false),
                _ => {}
            }
        }
        Some(Sort { name: name?, ascending })
    }

    fn number_in(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let mut amounts = pair.into_inner();
        let amount = amounts.find(|pair| matches!(pair.as_rule(), Rule::number | Rule::param_name))?;
        if amount.as_rule() == Rule::number {
            return Some(self.primary(amount));
        }
        let (span, name) = (self.span(&amount), amount.as_str()[1..].to_owned());
        Some(Expr { kind: ExprKind::Var(name), span })
    }
}

/// The word that begins a clause.
fn clause_word(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::view_of => "of",
        Rule::view_show => "show",
        Rule::view_sort => "sort",
        Rule::view_top => "top",
        Rule::view_every => "every",
        _ => return None,
    })
}
