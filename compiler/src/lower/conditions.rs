//! Conditions as control flow.
//!
//! In: a condition and two blocks. Out: branches; `&&`, `||` and `!` materialize no value.

use crate::ast::{BinaryOp, UnaryOp};
use crate::ir::{Addr, BlockId, CmpOp, Operand, Size, VReg};
use crate::lower::memory::chunk;
use crate::lower::{Body, Value, params};
use crate::typed::{Expr, ExprKind};
use crate::types::Type;

/// Where a comparison of bytes continues.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branches {
    pub equal: BlockId,
    pub other: BlockId,
}

/// Jumps to `yes` if the condition holds, else to `no`.
pub(super) fn branch_on(cx: &mut Body<'_, '_>, cond: &Expr, yes: BlockId, no: BlockId) {
    match &cond.kind {
        ExprKind::Unary(UnaryOp::Not, inner) => branch_on(cx, inner, no, yes),
        ExprKind::Matches(value, param) => params::branch_on(cx, value, *param, yes, no),
        ExprKind::Binary(BinaryOp::LogicalAnd, a, b) => {
            let second = cx.b.new_block();
            branch_on(cx, a, second, no);
            cx.b.switch_to(second);
            cx.conditionally(|cx| branch_on(cx, b, yes, no));
        }
        ExprKind::Binary(BinaryOp::LogicalOr, a, b) => {
            let second = cx.b.new_block();
            branch_on(cx, a, yes, second);
            cx.b.switch_to(second);
            cx.conditionally(|cx| branch_on(cx, b, yes, no));
        }
        ExprKind::Binary(op, a, b) if matches!(a.ty, Type::Str { .. }) => {
            let (equal, other) = if *op == BinaryOp::Equal { (yes, no) } else { (no, yes) };
            branch_on_equal_strings(cx, a, b, equal, other);
        }
        ExprKind::Binary(op @ (BinaryOp::Equal | BinaryOp::NotEqual), a, b) if is_memory(&a.ty) => {
            let (equal, other) = if *op == BinaryOp::Equal { (yes, no) } else { (no, yes) };
            let size_bytes = cx.layout(&a.ty).size_bytes;
            let left = cx.expr(a);
            let left = cx.in_memory(left, &a.ty);
            let right = cx.expr(b);
            let right = cx.in_memory(right, &b.ty);
            compare_bytes(cx, left, right, size_bytes, Branches { equal, other });
        }
        ExprKind::Binary(op, a, b) if comparison(*op, is_signed(a)).is_some() => {
            let (left, right) = (cx.scalar(a), cx.scalar(b));
            if let Some(op) = comparison(*op, is_signed(a)) {
                cx.branch(op, left, right, yes, no);
            }
        }
        _ => {
            let value = cx.scalar(cond);
            cx.branch(CmpOp::Ne, value, 0, yes, no);
        }
    }
}

/// The value of a condition: 0 or 1.
pub(super) fn value_of(cx: &mut Body<'_, '_>, cond: &Expr) -> VReg {
    if let ExprKind::Binary(op, a, b) = &cond.kind
        && a.ty.is_scalar()
        && let Some(op) = comparison(*op, is_signed(a))
    {
        let (left, right) = (cx.scalar(a), cx.scalar(b));
        return cx.b.set(op, crate::ir::Width::W64, left, right);
    }
    let result = cx.b.new_vreg();
    let (yes, no, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    branch_on(cx, cond, yes, no);
    for (block, value) in [(yes, 1), (no, 0)] {
        cx.b.switch_to(block);
        cx.b.assign(result, value);
        cx.b.jump(done);
    }
    cx.b.switch_to(done);
    result
}

pub(super) fn branch_on_equal_strings(cx: &mut Body<'_, '_>, a: &Expr, b: &Expr, equal: BlockId, other: BlockId) {
    let (left, right) = (cx.expr(a), cx.expr(b));
    match (left, right) {
        (Value::Bytes(x), Value::Bytes(y)) => cx.b.jump(if x == y { equal } else { other }),
        (Value::Bytes(text), value) => compare_with_text(cx, value, &b.ty, &text, Branches { equal, other }),
        (value, Value::Bytes(text)) => compare_with_text(cx, value, &a.ty, &text, Branches { equal, other }),
        (left, right) => {
            let (left, right) = (cx.in_memory(left, &a.ty), cx.in_memory(right, &b.ty));
            let (left_room, right_room) = (capacity(&a.ty), capacity(&b.ty));
            let room = left_room.min(right_room);
            if left_room == right_room {
                compare_bytes(cx, left, right, room, Branches { equal, other });
                return;
            }
            // A truncated string fills its capacity without a NUL: the longer one must end
            // there too.
            let same = cx.b.new_block();
            compare_bytes(cx, left, right, room, Branches { equal: same, other });
            cx.b.switch_to(same);
            let longer = if left_room > right_room { left } else { right };
            let behind = cx.b.load(longer.plus(room as i32), Size::B1);
            cx.branch(CmpOp::Eq, behind, 0, equal, other);
        }
    }
}

/// Compares memory with a constant and its NUL, in chunks of up to 8 bytes.
fn compare_with_text(cx: &mut Body<'_, '_>, value: Value, ty: &Type, text: &[u8], to: Branches) {
    let addr = cx.in_memory(value, ty);
    let room = capacity(ty) as usize;
    if text.len() > room {
        cx.b.jump(to.other);
        return;
    }
    let mut bytes = text.to_vec();
    if text.len() < room {
        bytes.push(0);
    }
    let mut at = 0;
    while at < bytes.len() {
        let size = chunk(addr.plus(at as i32), bytes.len() - at);
        let mut word = [0u8; 8];
        let end = at + size.bytes() as usize;
        word[..size.bytes() as usize].copy_from_slice(&bytes[at..end]);
        let have = cx.b.load(addr.plus(at as i32), size);
        let next = cx.b.new_block();
        cx.branch(CmpOp::Eq, have, i64::from_le_bytes(word), next, to.other);
        cx.b.switch_to(next);
        at = end;
    }
    cx.b.jump(to.equal);
}

/// Compares memory with memory.
pub(super) fn compare_bytes(cx: &mut Body<'_, '_>, a: Addr, b: Addr, size_bytes: u32, to: Branches) {
    let mut at = 0;
    while at < size_bytes {
        let left = (size_bytes - at) as usize;
        let size = chunk(a.plus(at as i32), left).min(chunk(b.plus(at as i32), left));
        let x = cx.b.load(a.plus(at as i32), size);
        let y = cx.b.load(b.plus(at as i32), size);
        let next = cx.b.new_block();
        cx.branch(CmpOp::Eq, x, Operand::Reg(y), next, to.other);
        cx.b.switch_to(next);
        at += size.bytes();
    }
    cx.b.jump(to.equal);
}

/// Whether values of a type are bytes in memory.
fn is_memory(ty: &Type) -> bool {
    !ty.is_scalar() && !matches!(ty, Type::Unknown | Type::None | Type::Str { .. })
}

fn capacity(ty: &Type) -> u32 {
    match ty {
        Type::Str { capacity_bytes } => *capacity_bytes,
        _ => 0,
    }
}

fn is_signed(e: &Expr) -> bool {
    e.ty.as_int().is_some_and(|int| int.signed)
}

fn comparison(op: BinaryOp, signed: bool) -> Option<CmpOp> {
    Some(match (op, signed) {
        (BinaryOp::Equal, _) => CmpOp::Eq,
        (BinaryOp::NotEqual, _) => CmpOp::Ne,
        (BinaryOp::Less, true) => CmpOp::SLt,
        (BinaryOp::Less, false) => CmpOp::Lt,
        (BinaryOp::LessEqual, true) => CmpOp::SLe,
        (BinaryOp::LessEqual, false) => CmpOp::Le,
        (BinaryOp::Greater, true) => CmpOp::SGt,
        (BinaryOp::Greater, false) => CmpOp::Gt,
        (BinaryOp::GreaterEqual, true) => CmpOp::SGe,
        (BinaryOp::GreaterEqual, false) => CmpOp::Ge,
        _ => return None,
    })
}
