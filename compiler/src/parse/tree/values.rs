//! Tree builder for expressions and types.
//!
//! In: pairs of the grammar's rules for values. Out: expressions and type names; `a.b`, `@a.b` and
//! `$a.b` become one name if `a` is a module of the file.
//! Guarantee: as for the parent; only the parent and its submodules know the parser generator.

use super::super::errors;
use super::super::expressions::{self, Chain, Postfix, Prefix};
use super::super::literals::{self, Number};
use super::grammar::Rule;
use super::statements::Code;
use crate::ast::{Expr, ExprKind, Ident, STATE_MARK, Stmt, StmtKind, TypeName, TypeSuffix};
use crate::source::Span;
use pest::iterators::Pair;

impl Code<'_> {
    pub(super) fn type_name(&mut self, pair: Pair<'_, Rule>) -> TypeName {
        let mut ty = TypeName::unnamed(self.reader.span(&pair));
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
        let span = self.reader.span(&pair);
        if pair.clone().into_inner().next().is_none() {
            return TypeSuffix::Array(0);
        }
        let length =
            pair.into_inner().next().map(|number| literals::number(number.as_str(), self.reader.span(&number)));
        match length {
            Some(Ok(Number::Int(length))) if u32::try_from(length).is_ok() => {
                return TypeSuffix::Array(length as u32);
            }
            Some(Err(problem)) => self.reader.problems.push(problem),
            _ => self.reader.problems.push(errors::bad_array_length(span)),
        }
        TypeSuffix::Array(0)
    }

    fn exprs(&mut self, pair: Pair<'_, Rule>) -> Vec<Expr> {
        let pairs = pair.into_inner().filter(|pair| pair.as_rule() == Rule::expr);
        pairs.map(|pair| self.expr(pair)).collect()
    }

    pub(super) fn first_expr(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        pair.into_inner().find(|pair| pair.as_rule() == Rule::expr).map(|pair| self.expr(pair))
    }

    pub(super) fn expr(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let whole = self.reader.span(&pair);
        let mut chain = Chain::default();
        let (mut questioned, mut branches) = (false, Vec::new());
        for pair in pair.into_inner() {
            let span = self.reader.span(&pair);
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
                    chain.operator(expressions::binary_op(pair.as_str()), self.reader.problems);
                }
                Rule::divide_op | Rule::stage_divide => {
                    chain.operator(expressions::binary_op("/"), self.reader.problems);
                }
                Rule::field | Rule::index | Rule::step_op => {
                    let postfix = self.postfix(pair);
                    if !self.qualifies(&mut chain, &postfix, span) {
                        chain.postfix(postfix, span, self.reader.problems);
                    }
                }
                Rule::question => questioned = true,
                Rule::colon => {}
                Rule::expr => branches.push(self.expr(pair)),
                _ => chain.primary = Some(self.primary(pair)),
            }
        }
        let cond = match chain.finish(self.reader.problems) {
            Some(made) => made,
            None => self.reader.hole(whole),
        };
        let Some(otherwise) = branches.pop().filter(|_| questioned) else {
            return cond;
        };
        let span = cond.span.to(otherwise.span);
        let then = branches.pop().map(Box::new);
        Expr { kind: ExprKind::Ternary { cond: Box::new(cond), then, otherwise: Box::new(otherwise) }, span }
    }

    /// Merges a module prefix and a field into one qualified name; returns whether it did.
    fn qualifies(&self, chain: &mut Chain, postfix: &Postfix, span: Span) -> bool {
        let (Some(target), Postfix::Field(field)) = (&mut chain.primary, postfix) else { return false };
        let name = match &mut target.kind {
            ExprKind::Name(name) | ExprKind::Var(name) => name,
            ExprKind::Map { name, keys } if keys.is_empty() => name,
            _ => return false,
        };
        if !self.reader.known.prefixes.contains(name) {
            return false;
        }
        *name = format!("{name}.{}", field.text);
        target.span = target.span.to(span);
        true
    }

    fn postfix(&mut self, pair: Pair<'_, Rule>) -> Postfix {
        match pair.as_rule() {
            Rule::index => Postfix::Index(self.exprs(pair)),
            Rule::step_op => Postfix::Step { increment: pair.as_str() == "++" },
            _ => {
                let span = self.reader.span(&pair);
                let name = pair.into_inner().next().map(|name| self.reader.ident(&name));
                Postfix::Field(name.unwrap_or(Ident { text: String::new(), span }))
            }
        }
    }

    pub(super) fn primary(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.reader.span(&pair);
        let text = pair.as_str();
        let kind = match pair.as_rule() {
            Rule::number => match literals::number(text, span) {
                Ok(Number::Int(value)) => ExprKind::Int(value),
                Ok(Number::DurationNs(value)) => ExprKind::Duration(value),
                Err(problem) => {
                    self.reader.problems.push(problem);
                    ExprKind::Int(0)
                }
            },
            Rule::decimal => match literals::decimal(text) {
                Some((thousandths, percent)) => ExprKind::Decimal { thousandths, percent },
                None => {
                    self.reader.problems.push(errors::bad_number(span, text));
                    ExprKind::Int(0)
                }
            },
            Rule::string => ExprKind::Str(literals::string(text, span, self.reader.problems)),
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

    /// A bare name, which may be the name of a state.
    fn name(&self, name: &str) -> ExprKind {
        if self.reader.known.states.iter().any(|state| state == name) {
            return ExprKind::Map { name: format!("{STATE_MARK}{name}"), keys: Vec::new() };
        }
        ExprKind::Name(name.to_owned())
    }

    fn position(&mut self, text: &str, span: Span) -> ExprKind {
        match text[1..].parse() {
            Ok(0) => self.reader.problems.push(errors::argument_zero(span)),
            Ok(position) => return ExprKind::Positional(position),
            Err(_) => self.reader.problems.push(errors::number_too_large(span)),
        }
        ExprKind::Positional(1)
    }

    fn call(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let mut name = Ident { text: String::new(), span: self.reader.span(&pair) };
        let mut args = Vec::new();
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::ident | Rule::qualified => name = self.reader.ident(&pair),
                Rule::expr => args.push(self.expr(pair)),
                Rule::type_arg => args.push(self.type_arg(pair)),
                _ => {}
            }
        }
        ExprKind::Call { name, args }
    }

    /// A type as an argument of a macro.
    fn type_arg(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.reader.span(&pair);
        let ty = pair.into_inner().find(|pair| pair.as_rule() == Rule::type_name).map(|pair| self.type_name(pair));
        ty.map_or_else(|| self.reader.hole(span), |ty| Expr { kind: ExprKind::Type(ty), span })
    }

    /// `(e)` is `e`; with a comma, or empty, it is a tuple.
    fn paren(&mut self, pair: Pair<'_, Rule>) -> Expr {
        let span = self.reader.span(&pair);
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
            let span = self.reader.span(&part);
            let (mut name, mut value) = (Ident { text: String::new(), span }, None);
            for pair in part.into_inner() {
                match pair.as_rule() {
                    Rule::ident => name = self.reader.ident(&pair),
                    Rule::expr => value = Some(self.expr(pair)),
                    _ => {}
                }
            }
            if let Some((first, _)) = parts.iter().find(|(known, _)| known.text == name.text) {
                self.reader.problems.push(errors::part_twice(name.span, first.span, &name.text));
            }
            parts.push((name, value.unwrap_or_else(|| self.reader.hole(span))));
        }
        ExprKind::Record(parts)
    }

    fn sizeof(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let span = self.reader.span(&pair);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::type_name => return ExprKind::SizeofType(self.type_name(pair)),
                Rule::expr => return ExprKind::SizeofExpr(Box::new(self.expr(pair))),
                _ => {}
            }
        }
        self.reader.hole(span).kind
    }

    fn offsetof(&mut self, pair: Pair<'_, Rule>) -> ExprKind {
        let span = self.reader.span(&pair);
        let (mut ty, mut fields) = (None, Vec::new());
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::type_name => ty = Some(self.type_name(pair)),
                Rule::expr => {
                    let mut of = TypeName::unnamed(self.reader.span(&pair));
                    of.of = Some(Box::new(self.expr(pair)));
                    ty = Some(of);
                }
                Rule::field_name => fields.push(self.reader.ident(&pair)),
                _ => {}
            }
        }
        match ty {
            Some(ty) => ExprKind::Offsetof(ty, fields),
            None => self.reader.hole(span).kind,
        }
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
        let span = self.reader.span(&pair);
        match self.if_stmt(pair).and_then(value_of) {
            Some(value) => Expr { span, ..value },
            None => {
                self.reader.problems.push(errors::if_without_value(span));
                Expr { kind: ExprKind::Int(0), span }
            }
        }
    }

    fn no_value(&mut self, span: Span) -> ExprKind {
        self.reader.problems.push(errors::block_without_value(span));
        ExprKind::Int(0)
    }
}

/// The value of a block's last statement: an expression, or an `if` whose branches all end in one.
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
