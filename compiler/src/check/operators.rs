//! Operators and the types of their results.
//!
//! In: typed operands. Out: an expression whose operands have one type.
//! Guarantee: arithmetic is done in 64 bits. A result is unsigned if both operands are (a
//! non-negative literal takes the other operand's sign); a shift takes the sign of its left
//! operand; a difference is always signed.

use crate::ast::{self, BinaryOp, Expr, UnaryOp};
use crate::check::{Body, fields, unify, with_text};
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Int, Type};

impl Body<'_, '_> {
    /// `a op b` of typed operands.
    pub fn binary(&mut self, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
        if a.ty == Type::Unknown || b.ty == Type::Unknown {
            return binary_unknown(self, op, a, b, span);
        }
        match op {
            BinaryOp::LogicalAnd | BinaryOp::LogicalOr => return logical(self, op, a, b, span),
            BinaryOp::Equal | BinaryOp::NotEqual if a.ty.as_int().is_none() || b.ty.as_int().is_none() => {
                return compare_memory(self, op, a, b, span);
            }
            BinaryOp::Add | BinaryOp::Sub if matches!(a.ty, Type::Pointer { .. }) => {
                return pointer_arithmetic(self, op, a, b, span);
            }
            _ => {}
        }
        let (Some(left), Some(right)) = (a.ty.as_int(), b.ty.as_int()) else {
            let (wrong, ty) = if a.ty.as_int().is_none() { (a.span, &a.ty) } else { (b.span, &b.ty) };
            let message = format!("`{}` takes numbers, this is {}", op.symbol(), self.one(ty));
            return self.fail(Diagnostic::error(Code(303), wrong, message));
        };
        // The sign of a shift is that of its left operand; the count does not matter.
        let is_shift = matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight);
        let signed = if is_shift { left.signed } else { is_signed(&a, left, &b, right) };
        let operands = if signed { Type::I64 } else { Type::U64 };
        let (a, b) = (typed::Expr::convert(a, &operands), typed::Expr::convert(b, &operands));
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
}

/// `op e`.
pub(super) fn unary(cx: &mut Body<'_, '_>, op: UnaryOp, inner: &Expr, span: Span) -> typed::Expr {
    match op {
        UnaryOp::Deref => return fields::deref(cx, inner, span),
        UnaryOp::AddressOf => return fields::address_of(cx, inner, span),
        UnaryOp::Not => {
            let value = cx.condition(inner);
            return match value.kind {
                ExprKind::Int(n) if value.ty != Type::Unknown => {
                    typed::Expr { kind: ExprKind::Int(i64::from(n == 0)), ty: Type::Bool, span }
                }
                _ => typed::Expr { kind: ExprKind::Unary(op, Box::new(value)), ty: Type::Bool, span },
            };
        }
        UnaryOp::Neg | UnaryOp::BitNot => {}
    }
    let value = cx.expr(inner);
    let Some(int) = value.ty.as_int() else {
        if value.ty == Type::Unknown {
            return value;
        }
        let message = format!("`{}` takes a number, this is {}", op.symbol(), cx.one(&value.ty));
        return cx.fail(Diagnostic::error(Code(303), inner.span, message));
    };
    // As in bpftrace, an integer keeps its type. Literals, booleans and addresses are widened
    // to 64 bits.
    let is_literal = matches!(inner.kind, ast::ExprKind::Int(_) | ast::ExprKind::Duration(_));
    let ty = match value.ty {
        Type::Int(int) if !is_literal || op == UnaryOp::BitNot => Type::Int(int),
        _ if op == UnaryOp::Neg || int.signed => Type::I64,
        _ => Type::U64,
    };
    if let ExprKind::Int(n) = value.kind {
        let n = if op == UnaryOp::Neg { n.wrapping_neg() } else { !n };
        return typed::Expr { kind: ExprKind::Int(ty.as_int().map_or(n, |int| int.truncate(n))), ty, span };
    }
    let wide = if int.signed { Type::I64 } else { Type::U64 };
    let value = typed::Expr::convert(value, &wide);
    let result = typed::Expr { kind: ExprKind::Unary(op, Box::new(value)), ty: wide, span };
    typed::Expr::convert(result, &ty)
}

/// While an operand's type is unknown, the result's type is guessed; the next round corrects
/// it.
fn binary_unknown(cx: &Body<'_, '_>, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
    let ty = if is_comparison(op) || matches!(op, BinaryOp::LogicalAnd | BinaryOp::LogicalOr) {
        Type::Bool
    } else if cx.env.guesses {
        let known = if a.ty == Type::Unknown { &b.ty } else { &a.ty };
        known.as_int().map_or(Type::Unknown, |int| if int.signed { Type::I64 } else { Type::U64 })
    } else {
        Type::Unknown
    };
    typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty, span }
}

fn logical(cx: &mut Body<'_, '_>, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
    for side in [&a, &b] {
        if !side.ty.is_scalar() {
            let message = format!("`{}` takes conditions, this is {}", op.symbol(), cx.one(&side.ty));
            return cx.fail(Diagnostic::error(Code(305), side.span, message));
        }
    }
    typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty: Type::Bool, span }
}

fn compare_memory(cx: &mut Body<'_, '_>, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
    let (a, b) = match (&a.ty, &b.ty) {
        (Type::Str { .. }, Type::ProbeName) | (Type::ProbeName, Type::Str { .. }) => (with_text(a), with_text(b)),
        (Type::Tuple(_), Type::Tuple(_))
        | (Type::Record(_), Type::Record(_))
        | (Type::Buf { .. }, Type::Buf { .. })
        | (Type::Array { .. }, _) => match unify(&a.ty, &b.ty).filter(is_bytes) {
            Some(ty) => (typed::Expr::convert(a, &ty), typed::Expr::convert(b, &ty)),
            None => (a, b),
        },
        _ => (a, b),
    };
    let comparable =
        matches!((&a.ty, &b.ty), (Type::Str { .. }, Type::Str { .. })) || (a.ty == b.ty && is_bytes(&a.ty));
    if !comparable {
        let message = format!("{} and {} cannot be compared", cx.one(&a.ty), cx.one(&b.ty));
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
        return cx.fail(diagnostic);
    }
    typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty: Type::Bool, span }
}

/// Scales a number of elements to bytes, by the element size of this pointer type.
pub(super) fn elements_apart(cx: &mut Body<'_, '_>, pointer: &Type, count: typed::Expr) -> typed::Expr {
    let span = count.span;
    let size = step_size(cx, pointer).unwrap_or(1);
    if size == 1 || matches!(count.ty, Type::Pointer { .. } | Type::Unknown) {
        return count;
    }
    let size = typed::Expr { kind: ExprKind::Int(size), ty: Type::I64, span };
    cx.binary(BinaryOp::Mul, count, size, span)
}

fn pointer_arithmetic(cx: &mut Body<'_, '_>, op: BinaryOp, a: typed::Expr, b: typed::Expr, span: Span) -> typed::Expr {
    let Type::Pointer { to, .. } = a.ty.clone() else { return typed::Expr::poison(span) };
    let ty = a.ty.clone();
    let element = i64::from(layout::of(&to, cx.env.target.btf()).size_bytes.max(1));
    let whole = |a, b, op, ty: &Type| {
        let (a, b) = (typed::Expr::convert(a, ty), typed::Expr::convert(b, ty));
        typed::Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty: ty.clone(), span }
    };
    let size = typed::Expr { kind: ExprKind::Int(element), ty: Type::U64, span: b.span };
    if matches!(b.ty, Type::Pointer { .. }) {
        if op == BinaryOp::Add {
            return cx.fail(Diagnostic::error(Code(303), span, "two pointers cannot be added"));
        }
        // As in C: the distance in elements.
        let bytes = whole(a, b, BinaryOp::Sub, &Type::I64);
        return if element == 1 { bytes } else { whole(bytes, size, BinaryOp::Div, &Type::I64) };
    }
    if b.ty.as_int().is_none() {
        let message = format!("only a number can be added to a pointer, this is {}", cx.one(&b.ty));
        return cx.fail(Diagnostic::error(Code(303), b.span, message));
    }
    let b = typed::Expr::convert(b, &Type::U64);
    let scaled = if element == 1 { b } else { whole(b, size, BinaryOp::Mul, &Type::U64) };
    let sum = whole(a, scaled, op, &Type::U64);
    typed::Expr::convert(sum, &ty)
}

/// Whether values of a type are equal if and only if their bytes are equal.
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

/// The operands of an operation. A literal takes the sign of the other operand, but not if it is
/// cast: then, as in bpftrace, the other is a signed number too. There, a quotient of different
/// signs is unsigned.
pub(super) fn signed_by_cast(
    op: BinaryOp,
    (a, left): (&Expr, typed::Expr),
    (b, right): (&Expr, typed::Expr),
) -> (typed::Expr, typed::Expr) {
    let is_cast = |of: &Expr, value: &typed::Expr| {
        matches!(value.kind, ExprKind::Int(_)) && value.ty == Type::I64 && has_cast(of)
    };
    let signed = |value: typed::Expr| match value.ty {
        Type::Int(Int { signed: false, .. }) | Type::Bool => typed::Expr::convert(value, &Type::I64),
        _ => value,
    };
    let counts = !matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::ShiftLeft | BinaryOp::ShiftRight);
    match (counts && is_cast(a, &left), counts && is_cast(b, &right)) {
        (true, false) => (left, signed(right)),
        (false, true) => (signed(left), right),
        _ => (left, right),
    }
}

/// Whether a cast decides the type of a constant.
fn has_cast(e: &Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Cast(..) => true,
        ast::ExprKind::Unary(UnaryOp::Neg | UnaryOp::BitNot, inner) => has_cast(inner),
        ast::ExprKind::Binary(BinaryOp::ShiftLeft | BinaryOp::ShiftRight, a, _) => has_cast(a),
        ast::ExprKind::Binary(op, a, b) if !is_comparison(*op) => has_cast(a) || has_cast(b),
        _ => false,
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(op, Equal | NotEqual | Less | Greater | LessEqual | GreaterEqual)
}

/// Whether an operation on two integers is signed: a non-negative literal takes the other operand's
/// sign; otherwise one signed operand suffices.
fn is_signed(a: &typed::Expr, left: Int, b: &typed::Expr, right: Int) -> bool {
    let neutral = |e: &typed::Expr| matches!(e.kind, ExprKind::Int(n) if n >= 0 && e.ty == Type::I64);
    match (neutral(a), neutral(b)) {
        (true, true) => true,
        (true, false) => right.signed,
        (false, true) => left.signed,
        (false, false) => left.signed || right.signed,
    }
}

/// Folds an operation on constants. As in the kernel, division by zero yields 0, and the remainder
/// is then the dividend.
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
        BinaryOp::LogicalOr => i64::from(a != 0 || b != 0),
    }
}

/// By how much `++` changes a value of a type: a pointer by the size of what it points to.
pub(super) fn step_size(cx: &Body<'_, '_>, ty: &Type) -> Option<i64> {
    match ty {
        Type::Int(_) | Type::Unknown => Some(1),
        Type::Pointer { to, .. } => Some(i64::from(layout::of(to, cx.env.target.btf()).size_bytes.max(1))),
        _ => None,
    }
}
