//! Constructors for syntax trees without source text.
//!
//! In: parts. Out: nodes of [`ast`](profiler_compiler::ast) with empty spans. Guarantee:
//! [`print`](crate::print) turns them into text.

use std::cell::RefCell;
use std::collections::HashMap;

use profiler_compiler::ast::{
    AttachPoint, BinaryOp, Expr, ExprKind, Ident, ProbeBlock, Script, Stmt, StmtKind, TypeName, UnaryOp,
};
use profiler_compiler::parse;
use profiler_compiler::source::{Source, Span};

pub fn ident(text: &str) -> Ident {
    Ident { text: text.to_string(), span: Span::default() }
}

pub fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

pub fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, span: Span::default() }
}

pub fn int(value: u64) -> Expr {
    expr(ExprKind::Int(value))
}

pub fn text(bytes: &[u8]) -> Expr {
    expr(ExprKind::Str(bytes.to_vec()))
}

pub fn name(word: &str) -> Expr {
    expr(ExprKind::Name(word.to_string()))
}

pub fn var(name: &str) -> Expr {
    expr(ExprKind::Var(name.to_string()))
}

pub fn map(name: &str, keys: Vec<Expr>) -> Expr {
    expr(ExprKind::Map { name: name.to_string(), keys })
}

pub fn unary(op: UnaryOp, value: Expr) -> Expr {
    expr(ExprKind::Unary(op, Box::new(value)))
}

pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

pub fn choice(cond: Expr, then: Expr, otherwise: Expr) -> Expr {
    expr(ExprKind::Ternary { cond: Box::new(cond), then: Some(Box::new(then)), otherwise: Box::new(otherwise) })
}

pub fn call(function: &str, args: Vec<Expr>) -> Expr {
    expr(ExprKind::Call { name: ident(function), args })
}

pub fn tuple(parts: Vec<Expr>) -> Expr {
    expr(ExprKind::Tuple(parts))
}

pub fn cast(ty: &str, value: Expr) -> Expr {
    let ty = TypeName { name: ty.to_string(), ..TypeName::unnamed(Span::default()) };
    expr(ExprKind::Cast(ty, Box::new(value)))
}

pub fn step(target: Expr, increment: bool, prefix: bool) -> Expr {
    expr(ExprKind::Step { target: Box::new(target), increment, prefix })
}

/// `target = value`, or with an operator `target op= value`.
pub fn assign(target: Expr, op: Option<BinaryOp>, value: Expr) -> Stmt {
    stmt(StmtKind::Assign { target, op, value })
}

/// A call as a statement.
pub fn act(function: &str, args: Vec<Expr>) -> Stmt {
    stmt(StmtKind::Expr(call(function, args)))
}

pub fn block(point: &str, predicate: Option<Expr>, body: Vec<Stmt>) -> ProbeBlock {
    let mut parts = point.split(':').map(ident);
    let kind = parts.next().unwrap_or_else(|| ident(""));
    let point = AttachPoint { kind, parts: parts.collect(), unless: Vec::new(), span: Span::default() };
    ProbeBlock { name: None, points: vec![point], predicate, body, span: Span::default() }
}

/// The tree of a script.
pub fn script(text: &str) -> Script {
    parse::parse(&Source::new("snippet", text)).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

/// The tree of an expression from the tables of this test.
pub fn parsed(text: &'static str) -> Expr {
    thread_local!(static KNOWN: RefCell<HashMap<&'static str, Expr>> = RefCell::default());
    KNOWN.with_borrow_mut(|known| known.entry(text).or_insert_with(|| parse_expr(text)).clone())
}

fn parse_expr(text: &str) -> Expr {
    let script = script(&format!("BEGIN {{ print({text}); }}"));
    match script.blocks.into_iter().next().and_then(|block| block.body.into_iter().next()).map(|stmt| stmt.kind) {
        Some(StmtKind::Expr(Expr { kind: ExprKind::Call { mut args, .. }, .. })) if args.len() == 1 => args.remove(0),
        other => panic!("{text} is {other:?}"),
    }
}
