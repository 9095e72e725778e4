//! Writes fields of the records stored in maps.
//!
//! In: a field, a value. Out: code that finds the record, or inserts one of zeros, and writes the
//! field.
//! Guarantee: no other field is read or written. If two CPUs insert a key's record at once, one
//! insert succeeds and both write to that record. `+=`, `-=`, `|=`, `&=`, `^=` and `++` on fields
//! of 4 and 8 bytes lose no update to another CPU or to an interrupt.

use crate::ast::BinaryOp;
use crate::ir::{BinOp, Inst, Operand, Size, VReg, Width};
use crate::lower::{Body, Value, expr, maps};
use crate::typed::{Expr, Field};
use crate::types::Int;

pub(super) fn assign(cx: &mut Body<'_, '_>, field: &Field, value: &Expr) {
    // Evaluate the value first: it may depend on the old one, and it may take long.
    let value = if field.ty.is_scalar() {
        Value::Scalar(cx.scalar(value))
    } else {
        let room = cx.allocate_named(&field.ty, "field");
        cx.store_as(value, &field.ty, room);
        Value::Memory(room)
    };
    let (record, done) = maps::value_place(cx, field.map, field.key.as_deref());
    cx.store(value, &field.ty, record.plus(field.offset_bytes as i32));
    cx.b.jump(done);
    cx.b.switch_to(done);
}

pub(super) fn modify(cx: &mut Body<'_, '_>, field: &Field, op: BinaryOp, value: &Expr) {
    let (int, size) = integer(field);
    let value = cx.scalar(value);
    let (record, done) = maps::value_place(cx, field.map, field.key.as_deref());
    let addr = record.plus(field.offset_bytes as i32);
    match atomic(op).filter(|_| is_atomic(size)) {
        Some(atomic) => {
            let src = if op == BinaryOp::Sub { cx.b.bin(BinOp::Sub, Width::W64, 0, value) } else { cx.b.copy(value) };
            cx.b.inst(Inst::Atomic { op: atomic, addr, src, fetch: None, size });
        }
        None => {
            let Value::Scalar(old) = cx.load_as(addr, &field.ty) else { return };
            let new = expr::arithmetic(cx, op, old, value, int.signed);
            cx.b.store(addr, new, size);
        }
    }
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// Adds to a field; stores the old value in `old`, if given.
pub(super) fn step(cx: &mut Body<'_, '_>, field: &Field, by: i64, old: Option<VReg>) {
    let (int, size) = integer(field);
    if let Some(old) = old {
        cx.b.assign(old, 0);
    }
    let (record, done) = maps::value_place(cx, field.map, field.key.as_deref());
    let addr = record.plus(field.offset_bytes as i32);
    let before = if is_atomic(size) {
        let by = cx.b.copy(by);
        let fetched = old.map(|_| cx.b.new_vreg());
        cx.b.inst(Inst::Atomic { op: BinOp::Add, addr, src: by, fetch: fetched, size });
        fetched
    } else {
        let before = cx.b.load(addr, size);
        let after = cx.b.bin(BinOp::Add, Width::W64, before, by);
        cx.b.store(addr, after, size);
        Some(before)
    };
    if let (Some(old), Some(before)) = (old, before) {
        let value = if size == Size::B8 { before } else { cx.b.extend(before, size, int.signed) };
        cx.b.assign(old, value);
    }
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// The same as an expression.
pub(super) fn stepped(cx: &mut Body<'_, '_>, field: &Field, by: i64, prefix: bool) -> Value {
    let old = cx.b.new_vreg();
    step(cx, field, by, Some(old));
    if !prefix {
        return Value::Scalar(old.into());
    }
    let (int, size) = integer(field);
    let new = cx.b.bin(BinOp::Add, Width::W64, old, by);
    let new = if size == Size::B8 { new } else { cx.b.extend(new, size, int.signed) };
    Value::Scalar(Operand::Reg(new))
}

/// Writes a field of 8 bytes; its old value, 0 for a record that was not there.
pub(super) fn exchange(cx: &mut Body<'_, '_>, field: &Field, value: &Expr) -> Value {
    let value = cx.scalar(value);
    let old = cx.b.new_vreg();
    cx.b.assign(old, 0);
    let (record, done) = maps::value_place(cx, field.map, field.key.as_deref());
    let src = cx.b.copy(value);
    let fetched = cx.b.new_vreg();
    cx.b.inst(Inst::Exchange { dst: fetched, addr: record.plus(field.offset_bytes as i32), src });
    cx.b.assign(old, fetched);
    cx.b.jump(done);
    cx.b.switch_to(done);
    Value::Scalar(old.into())
}

fn integer(field: &Field) -> (Int, Size) {
    let int = field.ty.as_int().unwrap_or(Int::U64);
    (int, Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8))
}

/// BPF has atomic operations of 4 and 8 bytes only.
fn is_atomic(size: Size) -> bool {
    matches!(size, Size::B4 | Size::B8)
}

fn atomic(op: BinaryOp) -> Option<BinOp> {
    match op {
        BinaryOp::Add | BinaryOp::Sub => Some(BinOp::Add),
        BinaryOp::BitAnd => Some(BinOp::And),
        BinaryOp::BitOr => Some(BinOp::Or),
        BinaryOp::BitXor => Some(BinOp::Xor),
        _ => None,
    }
}
