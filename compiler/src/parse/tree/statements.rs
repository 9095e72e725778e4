//! Tree builder for statements.
//!
//! In: pairs of the grammar's rules for statements. Out: statements.
//! Guarantee: as for the parent; only the parent and its submodules know the parser generator.

use super::super::items::CHAIN_LIMIT;
use super::super::{errors, expressions};
use super::grammar::Rule;
use super::reader::Reader;
use crate::ast::{Expr, ExprKind, Ident, Stmt, StmtKind};
use crate::source::Span;
use pest::iterators::Pair;

/// Builds statements and expressions, which can contain each other.
pub(super) struct Code<'a> {
    pub reader: Reader<'a>,
}

impl Code<'_> {
    pub(super) fn body(&mut self, pair: Pair<'_, Rule>) -> Vec<Stmt> {
        let mut statements = Vec::new();
        for pair in pair.into_inner() {
            statements.extend(self.statement(pair));
        }
        statements
    }

    /// The statements between braces, and whether the last one ends with `;`.
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

    /// The statement of `pair`; `None` for braces and semicolons.
    fn statement(&mut self, pair: Pair<'_, Rule>) -> Option<Stmt> {
        let span = self.reader.span(&pair);
        let kind = match pair.as_rule() {
            Rule::if_stmt => return self.if_stmt(pair),
            Rule::for_stmt => self.for_stmt(pair),
            Rule::while_stmt => {
                let (cond, body) = self.head_and_body(pair);
                StmtKind::While { cond, body }
            }
            Rule::unroll_stmt => {
                let (count, body) = self.head_and_body(pair);
                StmtKind::Unroll { count, body }
            }
            Rule::block => {
                let inner = pair.into_inner().next();
                StmtKind::Block(inner.map(|body| self.body(body)).unwrap_or_default())
            }
            Rule::let_stmt => self.let_stmt(pair),
            Rule::return_stmt => StmtKind::Return(self.first_expr(pair)),
            Rule::break_stmt => StmtKind::Break,
            Rule::continue_stmt => StmtKind::Continue,
            Rule::assign_stmt => self.assign_stmt(pair),
            _ => return None,
        };
        Some(Stmt { kind, span })
    }

    fn head_and_body(&mut self, pair: Pair<'_, Rule>) -> (Expr, Vec<Stmt>) {
        let span = self.reader.span(&pair);
        let mut head = None;
        let mut body = Vec::new();
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::expr => head = Some(self.expr(pair)),
                Rule::body => body = self.body(pair),
                _ => {}
            }
        }
        (head.unwrap_or_else(|| self.reader.hole(span)), body)
    }

    pub(super) fn if_stmt(&mut self, pair: Pair<'_, Rule>) -> Option<Stmt> {
        let whole = self.reader.span(&pair);
        let mut arms: Vec<(Expr, Vec<Stmt>, Span)> = Vec::new();
        let mut otherwise = Vec::new();
        let mut cond = None;
        let mut start = whole;
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::kw_if => start = self.reader.span(&pair),
                Rule::expr => cond = Some(self.expr(pair)),
                Rule::body => {
                    let body = self.body(pair);
                    match cond.take() {
                        Some(cond) => arms.push((cond, body, start.to(Span { start: whole.end, end: whole.end }))),
                        None => otherwise = body,
                    }
                }
                _ => {}
            }
        }
        if let Some((_, _, span)) = arms.get(CHAIN_LIMIT) {
            self.reader.problems.push(errors::too_long(Span { start: span.start, end: span.start + 2 }, CHAIN_LIMIT));
            arms.truncate(CHAIN_LIMIT);
        }
        let mut made = None;
        for (cond, then, span) in arms.into_iter().rev() {
            otherwise = made.take().map_or(otherwise, |inner| vec![inner]);
            made = Some(Stmt { kind: StmtKind::If { cond, then, otherwise: std::mem::take(&mut otherwise) }, span });
        }
        made
    }

    fn for_stmt(&mut self, pair: Pair<'_, Rule>) -> StmtKind {
        let span = self.reader.span(&pair);
        let mut name = Ident { text: String::new(), span };
        let (mut exprs, mut body, mut is_range) = (Vec::new(), Vec::new(), false);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::var => name = self.reader.ident(&pair),
                Rule::expr => exprs.push(self.expr(pair)),
                Rule::range => is_range = true,
                Rule::body => body = self.body(pair),
                _ => {}
            }
        }
        let mut exprs = exprs.into_iter();
        let first = exprs.next().unwrap_or_else(|| self.reader.hole(span));
        if is_range {
            let end = exprs.next().unwrap_or_else(|| self.reader.hole(span));
            return StmtKind::ForRange { name, start: first, end, body };
        }
        if !matches!(&first.kind, ExprKind::Map { keys, .. } if keys.is_empty())
            && !matches!(first.kind, ExprKind::Name(_))
        {
            self.reader.problems.push(errors::c_for_loop(first.span));
        }
        StmtKind::ForMap { name, map: first, body }
    }

    fn let_stmt(&mut self, pair: Pair<'_, Rule>) -> StmtKind {
        let mut name = Ident { text: String::new(), span: self.reader.span(&pair) };
        let (mut ty, mut value) = (None, None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::var => name = self.reader.ident(&pair),
                Rule::type_name => ty = Some(self.type_name(pair)),
                Rule::expr => value = Some(self.expr(pair)),
                _ => {}
            }
        }
        StmtKind::Let { name, ty, value }
    }

    fn assign_stmt(&mut self, pair: Pair<'_, Rule>) -> StmtKind {
        let span = self.reader.span(&pair);
        let (mut exprs, mut op) = (Vec::new(), None);
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::expr => exprs.push(self.expr(pair)),
                Rule::assign_op => op = Some(pair.as_str()),
                _ => {}
            }
        }
        let mut exprs = exprs.into_iter();
        let target = exprs.next().unwrap_or_else(|| self.reader.hole(span));
        let (Some(op), Some(value)) = (op, exprs.next()) else {
            return StmtKind::Expr(target);
        };
        match expressions::check_target(&target, op) {
            Ok(true) => StmtKind::Expr(value),
            Ok(false) => StmtKind::Assign { target, op: expressions::binary_op(op.trim_end_matches('=')), value },
            Err(problem) => {
                self.reader.problems.push(problem);
                StmtKind::Assign { target, op: None, value }
            }
        }
    }
}
