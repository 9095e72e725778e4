//! Operators and the types of their results.
//!
//! In: operands, typed. Out: an expression whose operands have one type.
//! Guarantee: arithmetic is done in 64 bits. A result is unsigned when both sides are (a literal that is not negative
//! takes the other side's sign); a shift has its left side's; a difference is always signed.

use crate::ast::{BinaryOp, Expr, UnaryOp};
use crate::check::{Body, expr::truncate, unify};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Int, Type};

impl Body<'_, '_> {
    /// `op e`.
    pub fn unary(&mut self, op: UnaryOp, inner: &Expr, span: Span) -> typed::Expr {
        match op {
            UnaryOp::Deref => return self.deref(inner, span),
            UnaryOp::AddressOf => return self.address_of(inner, span),
            UnaryOp::Not => {
                let value = self.condition(inner);
                return match value.kind {
                    ExprKind::Int(n) if value.ty != Type::Unknown => {
                        typed::Expr { kind: ExprKind::Int(i64::from(n == 0)), ty: Type::Bool, span }
                    }
                    _ => typed::Expr { kind: ExprKind::Unary(op, Box::new(value)), ty: Type::Bool, span },
                };
            }
            UnaryOp::Neg | UnaryOp::BitNot => {}
        }
        let value = self.expr(inner);
        let Some(int) = value.ty.as_int() else {
            if value.ty == Type::Unknown {
                return value;
            }
            let message = format!("`{}` takes a number, this is {}", op.symbol(), self.one(&value.ty));
            return self.fail(Diagnostic::error(Code(303), inner.span, message));
        };
        let ty = if op == UnaryOp::Neg || int.signed { Type::I64 } else { Type::U64 };
        if let ExprKind::Int(n) = value.kind {
            let n = if op == UnaryOp::Neg { n.wrapping_neg() } else { !n };
            return typed::Expr { kind: ExprKind::Int(n), ty, span };
        }
        let value = Self::convert(value, &ty);
        typed::Expr { kind: ExprKind::Unary(op, Box::new(value)), ty, span }
    }

    /// `a op b`.
    pub fn binary(&mut self, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
        if a.ty == Type::Unknown || b.ty == Type::Unknown {
            return self.binary_unknown(op, a, b, span);
        }
        match op {
            BinaryOp::LogicalAnd | BinaryOp::LogicalOr => return self.logical(op, a, b, span),
            BinaryOp::Equal | BinaryOp::NotEqual if a.ty.as_int().is_none() || b.ty.as_int().is_none() => {
                return self.compare_memory(op, a, b, span);
            }
            BinaryOp::Add | BinaryOp::Sub if matches!(a.ty, Type::Pointer { .. }) => {
                return self.pointer_arithmetic(op, a, b, span);
            }
            _ => {}
        }
        let (Some(left), Some(right)) = (a.ty.as_int(), b.ty.as_int()) else {
            let (wrong, ty) = if a.ty.as_int().is_none() { (a.span, &a.ty) } else { (b.span, &b.ty) };
            let message = format!("`{}` takes numbers, this is {}", op.symbol(), self.one(ty));
            return self.fail(Diagnostic::error(Code(303), wrong, message));
        };
        // A shift is of its left side; the count has no say.
        let is_shift = matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight);
        let signed = if is_shift { left.signed } else { is_signed(&a, left, &b, right) };
        let operands = if signed { Type::I64 } else { Type::U64 };
        let (a, b) = (Self::convert(a, &operands), Self::convert(b, &operands));
        let ty = match op {
            _ if is_comparison(op) => Type::Bool,
            BinaryOp::Sub => Type::I64,
            _ => operands,
        };
        if let (ExprKind::Int(x), ExprKind::Int(y)) = (&a.kind, &b.kind) {
            return typed::Expr { kind: ExprKind::Int(fold(op, *x, *y, signed)), ty, span };
        }
        typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty, span }
    }

    /// While a side's type is not known yet, the result's type is guessed, to be mended in the next round.
    fn binary_unknown(&self, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
        let ty = if is_comparison(op) || matches!(op, BinaryOp::LogicalAnd | BinaryOp::LogicalOr) {
            Type::Bool
        } else if self.env.guesses {
            let known = if a.ty == Type::Unknown { &b.ty } else { &a.ty };
            known.as_int().map_or(Type::Unknown, |int| if int.signed { Type::I64 } else { Type::U64 })
        } else {
            Type::Unknown
        };
        typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty, span }
    }

    fn logical(&mut self, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
        for side in [&a, &b] {
            if !side.ty.is_scalar() {
                let message = format!("`{}` takes conditions, this is {}", op.symbol(), self.one(&side.ty));
                return self.fail(Diagnostic::error(Code(305), side.span, message));
            }
        }
        typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty: Type::Bool, span }
    }

    fn compare_memory(&mut self, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
        let (a, b) = match (&a.ty, &b.ty) {
            (Type::Tuple(_), Type::Tuple(_))
            | (Type::Record(_), Type::Record(_))
            | (Type::Buf { .. }, Type::Buf { .. })
            | (Type::Array { .. }, _) => match unify(&a.ty, &b.ty).filter(is_bytes) {
                Some(ty) => (Self::convert(a, &ty), Self::convert(b, &ty)),
                None => (a, b),
            },
            _ => (a, b),
        };
        let comparable =
            matches!((&a.ty, &b.ty), (Type::Str { .. }, Type::Str { .. })) || (a.ty == b.ty && is_bytes(&a.ty));
        if !comparable {
            let message = format!("{} and {} cannot be compared", self.one(&a.ty), self.one(&b.ty));
            let mut diagnostic = Diagnostic::error(Code(308), span, message);
            let may_be_address = |e: &typed::Expr| e.ty.is_scalar() && !matches!(e.kind, ExprKind::Int(_));
            match (&a.ty, &b.ty) {
                (Type::Str { .. }, _) if may_be_address(&b) => {
                    diagnostic = diagnostic.help("read the string behind the pointer with `str(…)`");
                }
                (_, Type::Str { .. }) if may_be_address(&a) => {
                    diagnostic = diagnostic.help("read the string behind the pointer with `str(…)`");
                }
                (Type::Struct { .. }, Type::Struct { .. }) => {
                    diagnostic = diagnostic.help("compare their fields, as in `$a.x == $b.x`");
                }
                (Type::Tuple(_) | Type::Record(_), _) => {
                    diagnostic = diagnostic.help("compare their parts, as in `$t.0 == 1`");
                }
                _ => {}
            }
            return self.fail(diagnostic);
        }
        typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty: Type::Bool, span }
    }

    /// A distance in elements behind a pointer of this type, in bytes.
    pub(super) fn elements_apart(&mut self, pointer: &Type, count: typed::Expr) -> typed::Expr {
        let span = count.span;
        let size = self.step_size(pointer).unwrap_or(1);
        if size == 1 || matches!(count.ty, Type::Pointer { .. } | Type::Unknown) {
            return count;
        }
        let size = typed::Expr { kind: ExprKind::Int(size), ty: Type::I64, span };
        self.binary(BinaryOp::Mul, count, size, span)
    }

    fn pointer_arithmetic(&mut self, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
        let Type::Pointer { to, .. } = a.ty.clone() else { return Self::poison(span) };
        let ty = a.ty.clone();
        let element = i64::from(layout::of(&to, self.env.target.btf()).size_bytes.max(1));
        let whole = |a, b, op, ty: &Type| {
            let (a, b) = (Self::convert(a, ty), Self::convert(b, ty));
            typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty: ty.clone(), span }
        };
        let size = typed::Expr { kind: ExprKind::Int(element), ty: Type::U64, span: b.span };
        if matches!(b.ty, Type::Pointer { .. }) {
            if op == BinaryOp::Add {
                return self.fail(Diagnostic::error(Code(303), span, "two pointers cannot be added"));
            }
            // As in C: how many elements lie between.
            let bytes = whole(a, b, BinaryOp::Sub, &Type::I64);
            return if element == 1 { bytes } else { whole(bytes, size, BinaryOp::Div, &Type::I64) };
        }
        if b.ty.as_int().is_none() {
            let message = format!("only a number can be added to a pointer, this is {}", self.one(&b.ty));
            return self.fail(Diagnostic::error(Code(303), b.span, message));
        }
        let b = Self::convert(b, &Type::U64);
        let scaled = if element == 1 { b } else { whole(b, size, BinaryOp::Mul, &Type::U64) };
        let sum = whole(a, scaled, op, &Type::U64);
        Self::convert(sum, &ty)
    }
}

/// Whether equal values of a type are equal bytes.
fn is_bytes(ty: &Type) -> bool {
    match ty {
        Type::Array { of, .. } => of.is_scalar() || is_bytes(of),
        Type::Tuple(_) | Type::Record(_) => {
            ty.parts().unwrap_or_default().into_iter().all(|part| part.is_scalar() || is_bytes(part))
        }
        Type::Str { .. }
        | Type::Buf { .. }
        | Type::Inet
        | Type::KernelSymbol
        | Type::UserSymbol
        | Type::Username
        | Type::ProbeName => true,
        _ => false,
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(op, Equal | NotEqual | Less | Greater | LessEqual | GreaterEqual)
}

/// Whether an operation on two integers is signed: a literal that is not negative has no say, and neither have unsigned
/// types narrower than 8 bytes when the other side is signed.
fn is_signed(a: &typed::Expr, left: Int, b: &typed::Expr, right: Int) -> bool {
    let neutral = |e: &typed::Expr| matches!(e.kind, ExprKind::Int(n) if n >= 0 && e.ty == Type::I64);
    match (neutral(a), neutral(b)) {
        (true, true) => true,
        (true, false) => right.signed,
        (false, true) => left.signed,
        (false, false) => left.signed || right.signed,
    }
}

/// The result of an operation on constants; division by zero is 0 and the remainder then the dividend, as in the kernel.
fn fold(op: BinaryOp, a: i64, b: i64, signed: bool) -> i64 {
    let (ua, ub) = (a as u64, b as u64);
    let order = if signed { a.cmp(&b) } else { ua.cmp(&ub) };
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div if b == 0 => 0,
        BinaryOp::Mod if b == 0 => a,
        BinaryOp::Div if signed => a.wrapping_div(b),
        BinaryOp::Mod if signed => a.wrapping_rem(b),
        BinaryOp::Div => (ua / ub) as i64,
        BinaryOp::Mod => (ua % ub) as i64,
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::ShiftLeft => a.wrapping_shl(b as u32),
        BinaryOp::ShiftRight if signed => a.wrapping_shr(b as u32),
        BinaryOp::ShiftRight => ua.wrapping_shr(b as u32) as i64,
        BinaryOp::Equal => i64::from(a == b),
        BinaryOp::NotEqual => i64::from(a != b),
        BinaryOp::Less => i64::from(order.is_lt()),
        BinaryOp::Greater => i64::from(order.is_gt()),
        BinaryOp::LessEqual => i64::from(order.is_le()),
        BinaryOp::GreaterEqual => i64::from(order.is_ge()),
        BinaryOp::LogicalAnd => i64::from(a != 0 && b != 0),
        BinaryOp::LogicalOr => truncate(i64::from(a != 0 || b != 0), Int::I64),
    }
}
