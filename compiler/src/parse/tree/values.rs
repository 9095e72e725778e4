//! The tree builder's part for expressions and types.
//!
//! In: pairs of the grammar's rules for values. Out: expressions and type names.
//! Guarantee: as for the parent; its parts are the only files that know the parser generator.

use super::super::errors;
use super::super::expressions::{self, Chain, Postfix, Prefix};
use super::super::literals::{self, Number};
use super::{Builder, Rule};
use crate::ast::{Expr, ExprKind, Ident, STATE_MARK, Stmt, StmtKind, TypeName, TypeSuffix};
use crate::source::Span;
use pest::iterators::Pair;

impl Builder<'_> {
    pub(super) fn type_name(&mut self, pair: Pair<'_, Rule>) -> TypeName {
        let mut ty = TypeName::unnamed(self.span(&pair));
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::tag => ty.tag = super::c_definitions::tag(pair.as_str()),
                Rule::type_of => self.type_of(pair, &mut ty),
                Rule::field_name | Rule::ident => pair.as_str().clone_into(&mut ty.name),
                Rule::known_type => {
                    ty.name = pair.into_inner().map(|word| word.as_str()).collect::<Vec<_>>().join(" ");
                }
                Rule::pointer => ty.suffixes.push(TypeSuffix::Pointer),
                Rule::array => ty.suffixes.push(self.array(pair)),
                _ => {}
            }
        }
        ty
    }

    /// `typeof(e)`, `typeof(type)`.
    fn type_of(&mut self, pair: Pair<'_, Rule>, ty: &mut TypeName) {
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::type_name => ty.inner = Some(Box::new(self.type_name(pair))),
                Rule::expr => ty.of = Some(Box::new(self.expr(pair))),
                _ => {}
            }
        }
    }

    fn array(&mut self, pair: Pair<'_, Rule>) -> TypeSuffix {
        let span = self.span(&pair);
        if pair.clone().into_inner().next().is_none() {
            return TypeSuffix::Array(0);
        }
        let length = pair.into_inner().next().map(|number| literals::number(number.as_str(), self.span(&number)));
        match length {
            Some(Ok(Number::Int(length))) if u32::try_from(length).is_ok() => {
                return TypeSuffix::Array(length as u32);
            }
            Some(Err(problem)) => self.problems.push(problem),
            _ => self.problems.push(errors::bad_array_length(span)),
        }
        TypeSuffix::Array(0)
    }

    fn exprs(&mut self, pair: Pair<'_, Rule>) -> Vec<Expr> {
        let pairs = pair.into_inner().filter(|pair| pair.as_rule() == Rule::expr);
        pairs.map(|pair| self.expr(pair)).collect()
    }

    pub(super) fn expr(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let whole = self.span(&pair);
        let mut chain = Chain::default();
        let (mut questioned, mut branches) = (false, Vec::new());
        for pair in pair.into_inner() {
            let span = self.span(&pair);
            match pair.as_rule() {
                Rule::cast => {
                    let ty = pair
                        .into_inner()
                        .find(|pair| pair.as_rule() == Rule::type_name)
                        .map(|pair| self.type_name(pair));
                    chain.prefixes.extend(ty.map(|ty| (Prefix::Cast(ty), span)));
                }
                Rule::prefix_op => chain.prefixes.extend(Prefix::of(pair.as_str()).map(|prefix| (prefix, span))),
                Rule::infix_op => {
                    chain.operator(expressions::binary_op(pair.as_str()), self.problems);
                }
                Rule::divide_op | Rule::stage_divide => chain.operator(expressions::binary_op("/"), self.problems),
                Rule::field | Rule::index | Rule::step_op => {
                    let postfix = self.postfix(pair);
                    if !self.qualifies(&mut chain, &postfix, span) {
                        chain.postfix(postfix, span, self.problems);
                    }
                }
                Rule::question => questioned = true,
                Rule::colon => {}
                Rule::expr => branches.push(self.expr(pair)),
                _ => chain.primary = Some(self.primary(pair)),
            }
        }
        let cond = match chain.finish(self.problems) {
            Some(made) => made,
            None => self.hole(whole),
        };
        let Some(otherwise) = branches.pop().filter(|_| questioned) else {
            return cond;
        };
        let span = cond.span.to(otherwise.span);
        let then = branches.pop().map(Box::new);
        Expr { kind: ExprKind::Ternary { cond: Box::new(cond), then, otherwise: Box::new(otherwise) }, span }
    }

    fn postfix(&mut self, pair: Pair<'_, Rule>) -> Postfix {
        match pair.as_rule() {
            Rule::index => Postfix::Index(self.exprs(pair)),
            Rule::step_op => Postfix::Step { increment: pair.as_str() == "++" },
            _ => {
                let span = self.span(&pair);
                let name = pair.into_inner().next().map(|name| self.ident(&name));
                Postfix::Field(name.unwrap_or(Ident { text: String::new(), span }))
            }
        }
    }

    pub(super) fn primary(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let text = pair.as_str();
        let kind = match pair.as_rule() {
            Rule::number => match literals::number(text, span) {
                Ok(Number::Int(value)) => ExprKind::Int(value),
                Ok(Number::DurationNs(value)) => ExprKind::Duration(value),
                Err(problem) => {
                    self.problems.push(problem);
                    ExprKind::Int(0)
                }
            },
            Rule::decimal => match literals::decimal(text) {
                Some((thousandths, percent)) => ExprKind::Decimal { thousandths, percent },
                None => {
                    self.problems.push(errors::bad_number(span, text));
                    ExprKind::Int(0)
                }
            },
            Rule::string => ExprKind::Str(literals::string(text, span, self.problems)),
            Rule::count_param => ExprKind::PositionalCount,
            Rule::position => self.position(text, span),
            Rule::var => ExprKind::Var(text[1..].to_owned()),
            Rule::map => ExprKind::Map { name: text[1..].to_owned(), keys: Vec::new() },
            Rule::boolean => ExprKind::Bool(text == "true"),
            Rule::name => self.name(text.trim_end()),
            Rule::call => self.call(pair),
            Rule::sizeof => self.sizeof(pair),
            Rule::offsetof => self.offsetof(pair),
            Rule::block_value => self.block_value(pair, span),
            Rule::if_value => return self.if_value(pair),
            Rule::record => self.record(pair),
            _ => return self.paren(pair),
        };
        Expr { kind, span }
    }

    /// A bare name, which may be that of a state.
    fn name(&self, name: &str) -> ExprKind {
        if self.known.states.iter().any(|state| state == name) {
            return ExprKind::Map { name: format!("{STATE_MARK}{name}"), keys: Vec::new() };
        }
        ExprKind::Name(name.to_owned())
    }

    fn position(&mut self, text: &str, span: Span) -> ExprKind {
        match text[1..].parse() {
            Ok(0) => self.problems.push(errors::argument_zero(span)),
            Ok(position) => return ExprKind::Positional(position),
            Err(_) => self.problems.push(errors::number_too_large(span)),
        }
        ExprKind::Positional(1)
    }

    fn call(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let mut name = Ident { text: String::new(), span: self.span(&pair) };
        let mut args = Vec::new();
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident | Rule::qualified => name = self.ident(&pair),
                Rule::expr => args.push(self.expr(pair)),
                Rule::type_arg => args.push(self.type_arg(pair)),
                _ => {}
            }
        }
        ExprKind::Call { name, args }
    }

    /// A type where a macro takes one.
    fn type_arg(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let ty = pair.into_inner().find(|pair| pair.as_rule() == Rule::type_name).map(|pair| self.type_name(pair));
        ty.map_or_else(|| self.hole(span), |ty| Expr { kind: ExprKind::Type(ty), span })
    }

    /// `(e)` is `e`; with a comma, or empty, it is a tuple.
    fn paren(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        let is_tuple = pair.clone().into_inner().any(|pair| pair.as_rule() == Rule::comma);
        let mut parts = self.exprs(pair);
        if parts.len() == 1
            && !is_tuple
            && let Some(only) = parts.pop()
        {
            return Expr { span, ..only };
        }
        Expr { kind: ExprKind::Tuple(parts), span }
    }

    fn record(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let mut parts: Vec<(Ident, Expr)> = Vec::new();
        for part in pair.into_inner().filter(|pair| pair.as_rule() == Rule::record_part) {
            let span = self.span(&part);
            let (mut name, mut value) = (Ident { text: String::new(), span }, None);
            for pair in part.into_inner() {
                match pair.as_rule() {
                    Rule::ident => name = self.ident(&pair),
                    Rule::expr => value = Some(self.expr(pair)),
                    _ => {}
                }
            }
            if let Some((first, _)) = parts.iter().find(|(known, _)| known.text == name.text) {
                self.problems.push(errors::part_twice(name.span, first.span, &name.text));
            }
            parts.push((name, value.unwrap_or_else(|| self.hole(span))));
        }
        ExprKind::Record(parts)
    }

    fn sizeof(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let span = self.span(&pair);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::type_name => return ExprKind::SizeofType(self.type_name(pair)),
                Rule::expr => return ExprKind::SizeofExpr(Box::new(self.expr(pair))),
                _ => {}
            }
        }
        self.hole(span).kind
    }

    fn offsetof(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let span = self.span(&pair);
        let (mut ty, mut fields) = (None, Vec::new());
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::type_name => ty = Some(self.type_name(pair)),
                Rule::expr => {
                    let mut of = TypeName::unnamed(self.span(&pair));
                    of.of = Some(Box::new(self.expr(pair)));
                    ty = Some(of);
                }
                Rule::field_name => fields.push(self.ident(&pair)),
                _ => {}
            }
        }
        match ty {
            Some(ty) => ExprKind::Offsetof(ty, fields),
            None => self.hole(span).kind,
        }
    }

    /// The statements between braces, and whether a `;` follows the last.
    #[expect(clippy::inline_always, reason = "one frame less a level where blocks are values in blocks")]
    #[inline(always)]
    pub(super) fn statements(&mut self, pair: Pair<'_, Rule>) -> (Vec<Stmt>, bool) {
        let (mut statements, mut ended) = (Vec::new(), false);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::semi => ended = true,
                Rule::lbrace | Rule::rbrace => {}
                _ => {
                    ended = false;
                    statements.extend(self.statement(pair));
                }
            }
        }
        (statements, ended)
    }

    fn block_value(&mut self, pair: Pair<'_, Rule>, span: Span) -> ExprKind {
        let (mut statements, ended) = self.statements(pair);
        match statements.pop().filter(|_| !ended).and_then(value_of) {
            Some(value) => ExprKind::Block(statements, Box::new(value)),
            None => self.no_value(span),
        }
    }

    /// `if (c) { a } else { b }` is `c ? a : b`.
    fn if_value(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.span(&pair);
        match self.if_stmt(pair).and_then(value_of) {
            Some(value) => Expr { span, ..value },
            None => {
                self.problems.push(errors::if_without_value(span));
                Expr { kind: ExprKind::Int(0), span }
            }
        }
    }

    fn no_value(&mut self, span: Span) -> ExprKind {
        self.problems.push(errors::block_without_value(span));
        ExprKind::Int(0)
    }
}

/// What the last statement of a block yields: an expression, or an `if` whose branches all end in one.
fn value_of(stmt: Stmt) -> Option<Expr> {
    let StmtKind::If { cond, then, otherwise } = stmt.kind else {
        return match stmt.kind {
            StmtKind::Expr(value) => Some(value),
            _ => None,
        };
    };
    let branch = |mut body: Vec<Stmt>| {
        let value = body.pop().and_then(value_of)?;
        let span = body.first().map_or(value.span, |first| first.span.to(value.span));
        let kind = if body.is_empty() { value.kind } else { ExprKind::Block(body, Box::new(value)) };
        Some(Box::new(Expr { kind, span }))
    };
    let (then, otherwise) = (branch(then)?, branch(otherwise)?);
    let kind = ExprKind::Ternary { cond: Box::new(cond), then: Some(then), otherwise };
    Some(Expr { kind, span: stmt.span })
}
