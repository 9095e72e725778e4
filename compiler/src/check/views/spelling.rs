//! Prints expressions of a view as source text, for column headers and messages.
//!
//! In: an expression. Out: its source text.
//! Guarantee: parsing the text yields the same expression.

use super::spelled;
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};

/// The precedence of an operator in a view.
fn binding(op: BinaryOp) -> u8 {
    use BinaryOp as Op;
    match op {
        Op::LogicalOr => 1,
        Op::LogicalAnd => 2,
        Op::Equal | Op::NotEqual => 3,
        Op::Less | Op::Greater | Op::LessEqual | Op::GreaterEqual => 4,
        Op::Add | Op::Sub => 5,
        _ => 6,
    }
}

/// Prints an expression as the user would write it.
pub(super) fn spell(expr: &Expr) -> String {
    let within = |inner: &Expr, least: u8| match &inner.kind {
        ExprKind::Binary(op, ..) if binding(*op) < least => format!("({})", spell(inner)),
        _ => spell(inner),
    };
    match &expr.kind {
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Duration(ns) => duration(*ns),
        ExprKind::Decimal { thousandths, .. } => {
            let fraction = format!("{:03}", thousandths % 1000);
            format!("{}.{}", thousandths / 1000, fraction.trim_end_matches('0'))
        }
        ExprKind::Str(text) => format!("{:?}", String::from_utf8_lossy(text)),
        ExprKind::Var(name) => format!("${name}"),
        ExprKind::Name(name) => name.clone(),
        ExprKind::Map { name, .. } => spelled(name),
        ExprKind::Field(base, name) => format!("{}.{}", spell(base), name.text),
        ExprKind::Call { name, args } => {
            format!("{}({})", name.text, args.iter().map(spell).collect::<Vec<_>>().join(", "))
        }
        ExprKind::Unary(UnaryOp::Not, of) => format!("!{}", within(of, 7)),
        ExprKind::Unary(_, of) => format!("-{}", within(of, 7)),
        ExprKind::Binary(op, left, right) => {
            let binds = binding(*op);
            format!("{} {} {}", within(left, binds), op.symbol(), within(right, binds + 1))
        }
        _ => String::new(),
    }
}

/// A duration in the largest unit that divides it.
fn duration(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    match units.iter().find(|(_, size)| ns >= *size && ns.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", ns / size),
        None => format!("{ns}ns"),
    }
}
