//! Groups a flat sequence of operands and operators by precedence.
//!
//! In: prefixes, operands, postfixes and infix operators in source order. Out: one expression.
//! Guarantee: precedence is bpftrace's (see the grammar); all infix operators are left-associative;
//! no recursion.

use super::{errors, literals};
use crate::ast::{BinaryOp, Expr, ExprKind, Ident, TypeName, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// A prefix of an operand.
pub(super) enum Prefix {
    /// `-`, `!` and the other unary operators.
    Unary(UnaryOp),
    /// `++` or `--`.
    Step { increment: bool },
    /// `(type)`.
    Cast(TypeName),
}

/// A postfix of an operand.
pub(super) enum Postfix {
    /// `.name`, `->name`, `.0`.
    Field(Ident),
    /// `[…]`.
    Index(Vec<Expr>),
    /// `++` or `--`.
    Step { increment: bool },
}

/// A sequence of operands and operators, read from left to right.
#[derive(Default)]
pub(super) struct Chain {
    /// Prefixes of the current operand.
    pub prefixes: Vec<(Prefix, Span)>,
    /// The current operand.
    pub primary: Option<Expr>,
    operands: Vec<Expr>,
    operators: Vec<BinaryOp>,
}

impl Prefix {
    /// The prefix written `mark`.
    pub(super) fn of(mark: &str) -> Option<Prefix> {
        let unary = match mark {
            "++" => return Some(Prefix::Step { increment: true }),
            "--" => return Some(Prefix::Step { increment: false }),
            "-" => UnaryOp::Neg,
            "!" => UnaryOp::Not,
            "~" => UnaryOp::BitNot,
            "*" => UnaryOp::Deref,
            "&" => UnaryOp::AddressOf,
            _ => return None,
        };
        Some(Prefix::Unary(unary))
    }
}

/// The infix operator written `mark`.
pub(super) fn binary_op(mark: &str) -> Option<BinaryOp> {
    use BinaryOp as B;
    const ALL: [BinaryOp; 18] = [
        B::LogicalOr,
        B::LogicalAnd,
        B::BitOr,
        B::BitXor,
        B::BitAnd,
        B::Equal,
        B::NotEqual,
        B::Less,
        B::Greater,
        B::LessEqual,
        B::GreaterEqual,
        B::ShiftLeft,
        B::ShiftRight,
        B::Add,
        B::Sub,
        B::Mul,
        B::Div,
        B::Mod,
    ];
    ALL.into_iter().find(|op| op.symbol() == mark)
}

/// Binding power of an operator; a higher one binds tighter.
fn binding(op: BinaryOp) -> u8 {
    use BinaryOp as B;
    match op {
        B::LogicalOr => 1,
        B::LogicalAnd => 2,
        B::BitOr => 3,
        B::BitXor => 4,
        B::BitAnd => 5,
        B::Equal | B::NotEqual => 6,
        B::Less | B::Greater | B::LessEqual | B::GreaterEqual => 7,
        B::ShiftLeft | B::ShiftRight => 8,
        B::Add | B::Sub => 9,
        B::Mul | B::Div | B::Mod => 10,
    }
}

/// Whether an assignment only discards its value (`_ = e`); fails if `target` is not assignable.
pub(super) fn check_target(target: &Expr, op: &str) -> Result<bool, Diagnostic> {
    match &target.kind {
        _ if is_place(target) => Ok(false),
        ExprKind::Name(name) if name == "_" && op == "=" => Ok(true),
        ExprKind::Field(base, name) => match &base.kind {
            ExprKind::Name(of) if of == "self" || of == "this" => {
                Err(errors::variable_of_dtrace(target.span, of == "self", &name.text))
            }
            _ => Err(errors::not_assignable(target.span)),
        },
        ExprKind::Name(name) => Err(errors::assigned_name(target.span, name)),
        // `char *p = …` parses as a product.
        ExprKind::Binary(BinaryOp::Mul, left, right) => match (&left.kind, &right.kind) {
            (ExprKind::Name(ty), ExprKind::Name(name)) if is_c_type(ty) => {
                Err(errors::c_declaration(target.span, Some(name)))
            }
            _ => Err(errors::not_assignable(target.span)),
        },
        _ => Err(errors::not_assignable(target.span)),
    }
}

/// Whether a C declaration can begin with this word.
pub(super) fn is_c_type(word: &str) -> bool {
    const WORDS: [&str; 22] = [
        "int", "char", "short", "long", "unsigned", "signed", "void", "bool", "float", "double", "auto", "var",
        "const", "string", "size_t", "u8", "u16", "u32", "u64", "struct", "union", "enum",
    ];
    let sized =
        word.strip_prefix('u').unwrap_or(word).strip_prefix("int").map(|rest| rest.strip_suffix("_t").unwrap_or(rest));
    WORDS.contains(&word) || matches!(sized, Some("8" | "16" | "32" | "64"))
}

/// Whether the expression is a variable, a map, or a field of a record that a map holds.
fn is_place(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Var(_) | ExprKind::Map { .. } => true,
        ExprKind::Field(record, _) => !matches!(record.kind, ExprKind::Var(_)) && is_place(record),
        _ => false,
    }
}

fn step(target: Expr, increment: bool, prefix: bool, span: Span, problems: &mut Vec<Diagnostic>) -> Expr {
    if !is_place(&target) {
        problems.push(errors::not_steppable(target.span, if increment { "++" } else { "--" }));
    }
    Expr { kind: ExprKind::Step { target: Box::new(target), increment, prefix }, span }
}

impl Chain {
    /// Applies a postfix to the current operand.
    pub(super) fn postfix(&mut self, postfix: Postfix, span: Span, problems: &mut Vec<Diagnostic>) {
        let Some(target) = self.primary.take() else {
            return;
        };
        let whole = target.span.to(span);
        self.primary = Some(match postfix {
            Postfix::Step { increment } => step(target, increment, false, whole, problems),
            Postfix::Field(name) => field(target, name, whole, problems),
            Postfix::Index(keys) => index(target, keys, whole, problems),
        });
    }

    /// Ends the current operand and pushes the infix operator that follows it.
    pub(super) fn operator(&mut self, op: Option<BinaryOp>, problems: &mut Vec<Diagnostic>) {
        self.end_operand(problems);
        if let Some(op) = op {
            self.reduce(binding(op));
            self.operators.push(op);
        }
    }

    /// The whole sequence as one expression; `None` if it has no operand.
    pub(super) fn finish(mut self, problems: &mut Vec<Diagnostic>) -> Option<Expr> {
        self.end_operand(problems);
        self.reduce(0);
        self.operands.pop()
    }

    fn end_operand(&mut self, problems: &mut Vec<Diagnostic>) {
        let Some(mut made) = self.primary.take() else {
            return;
        };
        for (prefix, span) in self.prefixes.drain(..).rev() {
            let whole = span.to(made.span);
            made = match prefix {
                Prefix::Unary(op) => Expr { kind: ExprKind::Unary(op, Box::new(made)), span: whole },
                Prefix::Cast(ty) => Expr { kind: ExprKind::Cast(ty, Box::new(made)), span: whole },
                Prefix::Step { increment } => step(made, increment, true, whole, problems),
            };
        }
        self.operands.push(made);
    }

    /// Combines operands while the last operator binds at least as tightly as `least`.
    fn reduce(&mut self, least: u8) {
        while let Some(op) = self.operators.pop_if(|op| binding(*op) >= least) {
            let (Some(right), Some(left)) = (self.operands.pop(), self.operands.pop()) else {
                return;
            };
            let span = left.span.to(right.span);
            self.operands.push(Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span });
        }
    }
}

fn field(target: Expr, name: Ident, whole: Span, problems: &mut Vec<Diagnostic>) -> Expr {
    if !name.text.starts_with(|c: char| c.is_ascii_digit()) {
        return Expr { kind: ExprKind::Field(Box::new(target), name), span: whole };
    }
    if let ExprKind::Int(number) = target.kind {
        problems.push(errors::float(whole, smaller_unit(number, &name.text)));
        return Expr { span: whole, ..target };
    }
    let position = name.text.parse().unwrap_or_else(|_| {
        problems.push(errors::bad_tuple_field(name.span, &name.text));
        0
    });
    Expr { kind: ExprKind::TupleField(Box::new(target), position), span: whole }
}

/// Help text that writes `1.5s` in a smaller unit, without a fraction.
fn smaller_unit(whole: u64, fraction: &str) -> Option<String> {
    let digits_len = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = fraction.split_at(digits_len);
    let smaller = match unit {
        "s" => "ms",
        "ms" => "us",
        "us" => "ns",
        _ => return None,
    };
    if digits.len() > 3 {
        return None;
    }
    let thousandths: u64 = format!("{digits:0<3}").parse().ok()?;
    let value = whole.checked_mul(1000)?.checked_add(thousandths)?;
    literals::unit_ns(smaller).map(|_| format!("write {value}{smaller}"))
}

fn index(target: Expr, mut keys: Vec<Expr>, whole: Span, problems: &mut Vec<Diagnostic>) -> Expr {
    match target.kind {
        ExprKind::Map { name, keys: none } if none.is_empty() => {
            Expr { kind: ExprKind::Map { name, keys }, span: whole }
        }
        kind => {
            if keys.len() > 1 {
                problems.push(errors::several_indices(whole));
            }
            let target = Expr { kind, span: target.span };
            let Some(key) = keys.drain(..).next() else {
                return target;
            };
            Expr { kind: ExprKind::Index(Box::new(target), Box::new(key)), span: whole }
        }
    }
}
