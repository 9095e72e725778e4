//! Constants in C definitions: array lengths, bit-field widths, enum values.
//!
//! In: an expression of integers, `#define`s and enum values. Out: its value.

use super::Definer;
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::diagnostic::Code;

/// Maximum nesting of `#define`s and expressions; a `#define` that refers to itself would not end.
const MAX_DEPTH: u32 = 32;

impl Definer<'_> {
    /// Evaluates a constant; reports an expression that is not constant.
    pub(super) fn constant(&mut self, e: &Expr) -> Option<i64> {
        if let Some(value) = self.value(e, MAX_DEPTH) {
            return Some(value);
        }
        let message = "this is not a constant that is known here".to_string();
        self.fail(Code(374), e.span, message, "use numbers, `#define`s and values of enums")
    }

    fn value(&self, e: &Expr, depth: u32) -> Option<i64> {
        let depth = depth.checked_sub(1)?;
        match &e.kind {
            ExprKind::Int(n) => Some(*n as i64),
            ExprKind::Name(name) => self.named_value(name, depth),
            ExprKind::Unary(UnaryOp::Neg, inner) => Some(self.value(inner, depth)?.wrapping_neg()),
            ExprKind::Unary(UnaryOp::BitNot, inner) => Some(!self.value(inner, depth)?),
            ExprKind::Binary(op, a, b) => combine(*op, self.value(a, depth)?, self.value(b, depth)?),
            _ => None,
        }
    }

    fn named_value(&self, name: &str, depth: u32) -> Option<i64> {
        if let Some((value, _)) = self.constants.get(name) {
            return Some(*value);
        }
        if let Some(define) = self.script.defines.iter().rfind(|define| define.name.text == name) {
            return self.value(&define.value, depth);
        }
        crate::check::user_constant(name).or_else(|| Some(self.target.btf()?.find_enumerator(name)?.1))
    }
}

fn combine(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div => a.checked_div(b)?,
        BinaryOp::Mod => a.checked_rem(b)?,
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::ShiftLeft => a.checked_shl(u32::try_from(b).ok()?)?,
        BinaryOp::ShiftRight => a.checked_shr(u32::try_from(b).ok()?)?,
        _ => return None,
    })
}
