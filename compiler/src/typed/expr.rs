//! Making, converting and evaluating typed expressions.
//!
//! In: made by `check` and by words. Out: [`Expr`]s.
//! Guarantee: a constant stays a constant when it is converted; the constant value of an expression
//! equals the result of the generated code.

use super::{Call, Expr, ExprKind};
use crate::ast::{BinaryOp, UnaryOp};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::types::Type;

impl Expr {
    /// The expression that replaces an invalid one, so that no follow-up errors are reported.
    pub fn poison(span: Span) -> Expr {
        Expr { kind: ExprKind::Int(0), ty: Type::Unknown, span }
    }

    /// An integer constant; one that does not fit in `int64` is `uint64`.
    pub fn int(value: u64, span: Span) -> Expr {
        let ty = if i64::try_from(value).is_ok() { Type::I64 } else { Type::U64 };
        Expr { kind: ExprKind::Int(value as i64), ty, span }
    }

    /// A string constant with capacity for its NUL, truncated at an embedded NUL, as in C.
    pub fn string(text: &[u8], span: Span) -> Expr {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let ty = Type::Str { capacity_bytes: text.len() as u32 + 1 };
        Expr { kind: ExprKind::Str(text.to_vec()), ty, span }
    }

    /// The value of a builtin.
    pub fn builtin(word: &'static str, constants: Vec<Constant>, ty: Type, span: Span) -> Expr {
        Expr { kind: ExprKind::Builtin(WordName::new(word), constants), ty, span }
    }

    /// A call of a function.
    pub fn call(word: &'static str, args: Vec<Expr>, constants: Vec<Constant>, ty: Type, span: Span) -> Expr {
        let word = WordName::new(word);
        Expr { kind: ExprKind::Call(Call { word, args, constants }), ty, span }
    }

    /// Converts a value to another type: integers change width and sign; other types must agree
    /// except for capacity.
    #[must_use]
    pub fn convert(self, ty: &Type) -> Expr {
        if self.ty == *ty || self.ty == Type::Unknown || *ty == Type::Unknown {
            return self;
        }
        let span = self.span;
        match (self.kind, &self.ty, ty) {
            (ExprKind::Int(n), _, to) if to.as_int().is_some() => {
                let n =
                    if *to == Type::Bool { i64::from(n != 0) } else { to.as_int().map_or(n, |int| int.truncate(n)) };
                Expr { kind: ExprKind::Int(n), ty: ty.clone(), span }
            }
            (kind @ ExprKind::Str(_), _, Type::Str { .. }) => Expr { kind, ty: ty.clone(), span },
            // Fields in another order are handled below: the parts are evaluated as written, then
            // reordered.
            (ExprKind::Tuple(parts), Type::Record(have), Type::Record(want))
                if have.iter().zip(want).all(|((have, _), (want, _))| have == want) =>
            {
                let parts = parts.into_iter().zip(want).map(|(part, (_, ty))| part.convert(ty)).collect();
                Expr { kind: ExprKind::Tuple(parts), ty: ty.clone(), span }
            }
            (ExprKind::Tuple(parts), _, Type::Tuple(types)) => {
                let parts = parts.into_iter().zip(types).map(|(p, t)| p.convert(t)).collect();
                Expr { kind: ExprKind::Tuple(parts), ty: ty.clone(), span }
            }
            (kind, from, to) if from.is_scalar() && to.is_scalar() => {
                let inner = Expr { kind, ty: from.clone(), span };
                Expr { kind: ExprKind::Convert(Box::new(inner)), ty: ty.clone(), span }
            }
            (kind, from, _) => {
                let inner = Expr { kind, ty: from.clone(), span };
                Expr { kind: ExprKind::Convert(Box::new(inner)), ty: ty.clone(), span }
            }
        }
    }

    /// The value of an expression that is known at compile time.
    pub fn constant(&self) -> Option<i64> {
        match &self.kind {
            ExprKind::Int(n) => Some(*n),
            ExprKind::Convert(inner) => inner.constant(),
            ExprKind::Unary(UnaryOp::Not, inner) => Some(i64::from(inner.constant()? == 0)),
            ExprKind::Binary(op, a, b) => {
                if let (ExprKind::Str(a), ExprKind::Str(b)) = (&a.kind, &b.kind) {
                    return Some(i64::from((a == b) == (*op == BinaryOp::Equal)));
                }
                let signed = a.ty.as_int().is_some_and(|int| int.signed);
                binary(*op, a.constant()?, b.constant()?, signed)
            }
            _ => None,
        }
    }
}

fn binary(op: BinaryOp, a: i64, b: i64, signed: bool) -> Option<i64> {
    // Flipping the top bit maps unsigned order to signed order.
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
