//! Conditions as control flow.
//!
//! In: a condition and two blocks. Out: branches; `&&`, `||` and `!` cost no value.

use crate::ast::{BinaryOp, UnaryOp};
use crate::ir::{Addr, BlockId, CmpOp, Operand, Size, VReg};
use crate::lower::{Body, Value};
use crate::typed::{Expr, ExprKind};
use crate::types::Type;

impl Body<'_, '_> {
    /// Goes on at `yes` when the condition holds, else at `no`.
    pub(super) fn branch_on(&mut self, cond: &Expr, yes: BlockId, no: BlockId) {
        match &cond.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => self.branch_on(inner, no, yes),
            ExprKind::Matches(value, param) => self.branch_on_param(value, *param, yes, no),
            ExprKind::Binary(BinaryOp::LogicalAnd, a, b) => {
                let second = self.b.new_block();
                self.branch_on(a, second, no);
                self.b.switch_to(second);
                self.conditionally(|cx| cx.branch_on(b, yes, no));
            }
            ExprKind::Binary(BinaryOp::LogicalOr, a, b) => {
                let second = self.b.new_block();
                self.branch_on(a, yes, second);
                self.b.switch_to(second);
                self.conditionally(|cx| cx.branch_on(b, yes, no));
            }
            ExprKind::Binary(op, a, b) if matches!(a.ty, Type::Str { .. }) => {
                let (equal, other) = if *op == BinaryOp::Equal { (yes, no) } else { (no, yes) };
                self.branch_on_equal_strings(a, b, equal, other);
            }
            ExprKind::Binary(op @ (BinaryOp::Equal | BinaryOp::NotEqual), a, b) if is_memory(&a.ty) => {
                let (equal, other) = if *op == BinaryOp::Equal { (yes, no) } else { (no, yes) };
                let size_bytes = self.layout(&a.ty).size_bytes;
                let left = self.expr(a);
                let left = self.in_memory(left, &a.ty);
                let right = self.expr(b);
                let right = self.in_memory(right, &b.ty);
                self.compare_bytes(left, right, size_bytes, equal, other);
            }
            ExprKind::Binary(op, a, b) if comparison(*op, is_signed(a)).is_some() => {
                let (left, right) = (self.scalar(a), self.scalar(b));
                if let Some(op) = comparison(*op, is_signed(a)) {
                    self.branch(op, left, right, yes, no);
                }
            }
            _ => {
                let value = self.scalar(cond);
                self.branch(CmpOp::Ne, value, 0, yes, no);
            }
        }
    }

    /// The value 0 or 1 of a condition.
    pub(super) fn condition_value(&mut self, cond: &Expr) -> VReg {
        if let ExprKind::Binary(op, a, b) = &cond.kind
            && a.ty.is_scalar()
            && let Some(op) = comparison(*op, is_signed(a))
        {
            let (left, right) = (self.scalar(a), self.scalar(b));
            return self.b.set(op, crate::ir::Width::W64, left, right);
        }
        let result = self.b.new_vreg();
        let (yes, no, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.branch_on(cond, yes, no);
        for (block, value) in [(yes, 1), (no, 0)] {
            self.b.switch_to(block);
            self.b.assign(result, value);
            self.b.jump(done);
        }
        self.b.switch_to(done);
        result
    }

    pub(super) fn branch_on_equal_strings(&mut self, a: &Expr, b: &Expr, equal: BlockId, other: BlockId) {
        let (left, right) = (self.expr(a), self.expr(b));
        match (left, right) {
            (Value::Bytes(x), Value::Bytes(y)) => self.b.jump(if x == y { equal } else { other }),
            (Value::Bytes(text), value) => self.compare_with_text(value, &b.ty, &text, equal, other),
            (value, Value::Bytes(text)) => self.compare_with_text(value, &a.ty, &text, equal, other),
            (left, right) => {
                let (left, right) = (self.in_memory(left, &a.ty), self.in_memory(right, &b.ty));
                let (left_room, right_room) = (capacity(&a.ty), capacity(&b.ty));
                let room = left_room.min(right_room);
                if left_room == right_room {
                    self.compare_bytes(left, right, room, equal, other);
                    return;
                }
                // A string that was cut has no NUL in its room: the longer one must end there too.
                let same = self.b.new_block();
                self.compare_bytes(left, right, room, same, other);
                self.b.switch_to(same);
                let longer = if left_room > right_room { left } else { right };
                let behind = self.b.load(longer.plus(room as i32), Size::B1);
                self.branch(CmpOp::Eq, behind, 0, equal, other);
            }
        }
    }

    /// Compares memory with a constant and its NUL, a word at a time.
    fn compare_with_text(&mut self, value: Value, ty: &Type, text: &[u8], equal: BlockId, other: BlockId) {
        let addr = self.in_memory(value, ty);
        let room = capacity(ty) as usize;
        if text.len() > room {
            self.b.jump(other);
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
            let have = self.b.load(addr.plus(at as i32), size);
            let next = self.b.new_block();
            self.branch(CmpOp::Eq, have, i64::from_le_bytes(word), next, other);
            self.b.switch_to(next);
            at = end;
        }
        self.b.jump(equal);
    }

    pub(super) fn compare_bytes(&mut self, a: Addr, b: Addr, size_bytes: u32, equal: BlockId, other: BlockId) {
        let mut at = 0;
        while at < size_bytes {
            let left = (size_bytes - at) as usize;
            let size = chunk(a.plus(at as i32), left).min(chunk(b.plus(at as i32), left));
            let x = self.b.load(a.plus(at as i32), size);
            let y = self.b.load(b.plus(at as i32), size);
            let next = self.b.new_block();
            self.branch(CmpOp::Eq, x, Operand::Reg(y), next, other);
            self.b.switch_to(next);
            at += size.bytes();
        }
        self.b.jump(equal);
    }
}

/// The largest access at an address that is aligned and not longer than what is left. Objects are aligned to 8 bytes; of
/// addresses in registers the same holds, for they are map values, scratch or data.
pub(super) fn chunk(addr: Addr, left: usize) -> Size {
    let offset = addr.offset;
    [Size::B8, Size::B4, Size::B2]
        .into_iter()
        .find(|size| offset % size.bytes() as i32 == 0 && size.bytes() as usize <= left)
        .unwrap_or(Size::B1)
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
