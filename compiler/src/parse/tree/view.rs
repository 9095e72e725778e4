//! Tree builder for views.
//!
//! In: pairs of their rules. Out: their nodes.
//! Guarantee: as for the parent; only the parent and its submodules know the parser generator.

use super::super::expressions::{self, Chain, Prefix};
use super::super::{errors, literals};
use super::grammar::Rule;
use super::statements::Code;
use crate::ast::{Every, Expr, ExprKind, Ident, STATE_MARK, Sort, Top, View, ViewColumn};
use crate::source::Span;
use pest::iterators::Pair;

/// Builds views.
pub(super) struct Views<'c, 'a> {
    pub code: &'c mut Code<'a>,
}

impl Views<'_, '_> {
    pub(super) fn view(&mut self, pair: Pair<'_, Rule>) -> View {
        let span = self.code.reader.span(&pair);
        let title = Ident { text: String::new(), span };
        let mut view = View {
            title,
            of: Vec::new(),
            by: None,
            show: Vec::new(),
            filter: None,
            sort: None,
            top: None,
            every: None,
            flame: None,
            empty: None,
            span,
        };
        let mut seen: Vec<(Rule, Span)> = Vec::new();
        for pair in pair.into_inner() {
            let (rule, span) = (pair.as_rule(), self.code.reader.span(&pair));
            if let Some(word) = clause_word(rule) {
                match seen.iter().find(|(earlier, _)| *earlier == rule) {
                    Some((_, first)) => self.code.reader.problems.push(errors::clause_twice(span, word, *first)),
                    None => seen.push((rule, span)),
                }
            }
            match rule {
                Rule::string => view.title = self.code.reader.text(&pair),
                Rule::view_of => {
                    view.of = pair.into_inner().filter_map(|pair| self.view_source(&pair)).collect();
                }
                Rule::view_by => {
                    let word = pair.into_inner().find(|pair| pair.as_rule() == Rule::ident);
                    view.by = word.map(|word| self.code.reader.ident(&word));
                }
                Rule::view_show => {
                    let columns = pair.into_inner().filter(|pair| pair.as_rule() == Rule::view_column);
                    view.show = columns.filter_map(|column| self.view_column(column)).collect();
                }
                Rule::view_where => view.filter = self.view_expr_in(pair),
                Rule::view_sort => view.sort = self.view_sort(pair),
                Rule::view_top => {
                    let rest = pair.as_str().trim_end().ends_with("rest");
                    view.top = self.number_in(pair).map(|rows| Top { rows, rest });
                }
                Rule::view_every => {
                    let clear = pair.as_str().trim_end().ends_with("clear");
                    view.every = self.number_in(pair).map(|period| Every { period, clear });
                }
                Rule::view_flame => view.flame = Some(span),
                Rule::view_empty => {
                    let text = pair.into_inner().find(|pair| pair.as_rule() == Rule::string);
                    view.empty = text.map(|text| self.code.reader.text(&text));
                }
                _ => {}
            }
        }
        if view.of.is_empty() {
            self.code.reader.problems.push(errors::view_of_nothing(view.title.span));
        }
        view
    }

    /// The name of a map or a state.
    fn view_source(&self, pair: &Pair<'_, Rule>) -> Option<Ident> {
        let ident = self.code.reader.ident(pair);
        match pair.as_rule() {
            Rule::map | Rule::module_map => Some(ident),
            Rule::state_name => Some(Ident { text: format!("{STATE_MARK}{}", ident.text), span: ident.span }),
            _ => None,
        }
    }

    fn view_column(&mut self, pair: Pair<'_, Rule>) -> Option<ViewColumn> {
        let (mut value, mut header) = (None, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::view_expr => value = Some(self.view_expr(pair)),
                Rule::string => header = Some(self.code.reader.text(&pair)),
                _ => {}
            }
        }
        Some(ViewColumn { value: value?, header })
    }

    fn view_expr_in(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let expr = pair.into_inner().find(|pair| pair.as_rule() == Rule::view_expr)?;
        Some(self.view_expr(expr))
    }

    fn view_expr(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let whole = self.code.reader.span(&pair);
        let mut chain = Chain::default();
        for pair in pair.into_inner() {
            let span = self.code.reader.span(&pair);
            match pair.as_rule() {
                Rule::view_prefix => chain.prefixes.extend(Prefix::of(pair.as_str()).map(|prefix| (prefix, span))),
                Rule::view_op => chain.operator(expressions::binary_op(pair.as_str()), self.code.reader.problems),
                _ => chain.primary = Some(self.view_primary(pair)),
            }
        }
        match chain.finish(self.code.reader.problems) {
            Some(expr) => expr,
            None => self.code.reader.hole(whole),
        }
    }

    fn view_primary(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.code.reader.span(&pair);
        let kind = match pair.as_rule() {
            Rule::column => self.view_name(pair),
            Rule::param_name => ExprKind::Var(pair.as_str()[1..].to_owned()),
            Rule::view_paren => return self.view_expr_in(pair).unwrap_or_else(|| self.code.reader.hole(span)),
            Rule::view_decimal => match literals::decimal(pair.as_str()) {
                Some((thousandths, percent)) => ExprKind::Decimal { thousandths, percent },
                None => {
                    self.code.reader.problems.push(errors::bad_number(span, pair.as_str()));
                    ExprKind::Int(0)
                }
            },
            Rule::view_call => {
                let mut name = Ident { text: String::new(), span };
                let mut args = Vec::new();
                for pair in pair.into_inner() {
                    match pair.as_rule() {
                        Rule::ident => name = self.code.reader.ident(&pair),
                        Rule::view_expr => args.push(self.view_expr(pair)),
                        _ => {}
                    }
                }
                ExprKind::Call { name, args }
            }
            _ => return self.code.primary(pair),
        };
        Expr { kind, span }
    }

    /// A column: a name, or a field of a map or state.
    fn view_name(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let (mut map, mut name) = (None, Ident { text: String::new(), span: self.code.reader.span(&pair) });
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::map | Rule::module_map | Rule::state_name => map = self.view_source(&pair),
                Rule::column_name => name = self.code.reader.ident(&pair),
                _ => {}
            }
        }
        match map {
            None => ExprKind::Name(name.text),
            Some(map) => {
                let kind = ExprKind::Map { name: map.text, keys: Vec::new() };
                ExprKind::Field(Box::new(Expr { kind, span: map.span }), name)
            }
        }
    }

    fn view_sort(&mut self, pair: Pair<'_, Rule>) -> Option<Sort> {
        let (mut by, mut ascending) = (None, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::view_expr => by = Some(self.view_expr(pair)),
                Rule::ascending => ascending = Some(true),
                Rule::descending => ascending = Some(false),
                _ => {}
            }
        }
        Some(Sort { by: by?, ascending })
    }

    fn number_in(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let mut amounts = pair.into_inner();
        let amount = amounts.find(|pair| matches!(pair.as_rule(), Rule::number | Rule::param_name))?;
        if amount.as_rule() == Rule::number {
            return Some(self.code.primary(amount));
        }
        let (span, name) = (self.code.reader.span(&amount), amount.as_str()[1..].to_owned());
        Some(Expr { kind: ExprKind::Var(name), span })
    }
}

/// The keyword that begins a clause.
fn clause_word(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::view_of => "of",
        Rule::view_by => "by",
        Rule::view_show => "show",
        Rule::view_where => "where",
        Rule::view_sort => "sort",
        Rule::view_top => "top",
        Rule::view_every => "every",
        Rule::view_flame => "flame",
        Rule::view_empty => "empty",
        _ => return None,
    })
}
