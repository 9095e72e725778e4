//! Expressions whose value is known without code.
//!
//! In: a typed expression. Out: its value.
//! Guarantee: the same value that the code would give.

use crate::ast::{BinaryOp, UnaryOp};
use crate::typed::{self, ExprKind};

/// The value of an expression that needs no code.
pub fn constant(e: &typed::Expr) -> Option<i64> {
    match &e.kind {
        ExprKind::Int(n) => Some(*n),
        ExprKind::Convert(inner) => constant(inner),
        ExprKind::Unary(UnaryOp::Not, inner) => Some(i64::from(constant(inner)? == 0)),
        ExprKind::Binary(op, a, b) => {
            if let (ExprKind::Str(a), ExprKind::Str(b)) = (&a.kind, &b.kind) {
                return Some(i64::from((a == b) == (*op == BinaryOp::Equal)));
            }
            let signed = a.ty.as_int().is_some_and(|int| int.signed);
            binary(*op, constant(a)?, constant(b)?, signed)
        }
        _ => None,
    }
}

fn binary(op: BinaryOp, a: i64, b: i64, signed: bool) -> Option<i64> {
    // With the highest bit turned over, the order of signed numbers is that of unsigned ones.
    let (x, y) = if signed { (a, b) } else { (a ^ i64::MIN, b ^ i64::MIN) };
    let truth = match op {
        BinaryOp::Add => return Some(a.wrapping_add(b)),
        BinaryOp::Sub => return Some(a.wrapping_sub(b)),
        BinaryOp::Mul => return Some(a.wrapping_mul(b)),
        BinaryOp::LogicalAnd => a != 0 && b != 0,
        BinaryOp::LogicalOr => a != 0 || b != 0,
        BinaryOp::Equal => a == b,
        BinaryOp::NotEqual => a != b,
        BinaryOp::Less => x < y,
        BinaryOp::LessEqual => x <= y,
        BinaryOp::Greater => x > y,
        BinaryOp::GreaterEqual => x >= y,
        _ => return None,
    };
    Some(i64::from(truth))
}
