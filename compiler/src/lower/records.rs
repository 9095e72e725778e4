//! Writing fields of the records that maps hold.
//!
//! In: a field, a value. Out: code that finds the record, or makes it of zeros, and writes the field in it.
//! Guarantee: no other field is read or written; of two CPUs that make a key's record at once one makes it and both write into it;
//! `+=`, `-=`, `|=`, `&=`, `^=` and `++` on fields of 4 and 8 bytes lose no update to another CPU or to an interrupt.

use crate::ast::BinaryOp;
use crate::ir::{BinOp, Inst, Operand, Size, VReg, Width};
use crate::lower::{Body, Value};
use crate::typed::{Expr, Field};
use crate::types::Int;

impl Body<'_, '_> {
    pub(super) fn assign_field(&mut self, field: &Field, value: &Expr) {
        // The value comes first: it may be made of the old one, and it may take long.
        let value = if field.ty.is_scalar() {
            Value::Scalar(self.scalar(value))
        } else {
            let room = self.room_for(&field.ty, "field");
            self.store_as(value, &field.ty, room);
            Value::Memory(room)
        };
        let (record, done) = self.value_place(field.map, field.key.as_deref());
        self.store(value, &field.ty, record.plus(field.offset_bytes as i32));
        self.b.jump(done);
        self.b.switch_to(done);
    }

    pub(super) fn update_field(&mut self, field: &Field, op: BinaryOp, value: &Expr) {
        let (int, size) = integer(field);
        let value = self.scalar(value);
        let (record, done) = self.value_place(field.map, field.key.as_deref());
        let addr = record.plus(field.offset_bytes as i32);
        match atomic(op).filter(|_| is_atomic(size)) {
            Some(atomic) => {
                let src =
                    if op == BinaryOp::Sub { self.b.bin(BinOp::Sub, Width::W64, 0, value) } else { self.b.copy(value) };
                self.b.inst(Inst::Atomic { op: atomic, addr, src, fetch: None, size });
            }
            None => {
                let Value::Scalar(old) = self.load_as(addr, &field.ty) else { return };
                let new = self.arithmetic(op, old, value, int.signed);
                self.b.store(addr, new, size);
            }
        }
        self.b.jump(done);
        self.b.switch_to(done);
    }

    /// Adds to a field; the old value goes to `old`, when wanted.
    pub(super) fn step_field(&mut self, field: &Field, by: i64, old: Option<VReg>) {
        let (int, size) = integer(field);
        if let Some(old) = old {
            self.b.assign(old, 0);
        }
        let (record, done) = self.value_place(field.map, field.key.as_deref());
        let addr = record.plus(field.offset_bytes as i32);
        let before = if is_atomic(size) {
            let by = self.b.copy(by);
            let fetched = old.map(|_| self.b.new_vreg());
            self.b.inst(Inst::Atomic { op: BinOp::Add, addr, src: by, fetch: fetched, size });
            fetched
        } else {
            let before = self.b.load(addr, size);
            let after = self.b.bin(BinOp::Add, Width::W64, before, by);
            self.b.store(addr, after, size);
            Some(before)
        };
        if let (Some(old), Some(before)) = (old, before) {
            let value = if size == Size::B8 { before } else { self.b.extend(before, size, int.signed) };
            self.b.assign(old, value);
        }
        self.b.jump(done);
        self.b.switch_to(done);
    }

    /// The same as a value.
    pub(super) fn stepped_field(&mut self, field: &Field, by: i64, prefix: bool) -> Value {
        let old = self.b.new_vreg();
        self.step_field(field, by, Some(old));
        if !prefix {
            return Value::Scalar(old.into());
        }
        let (int, size) = integer(field);
        let new = self.b.bin(BinOp::Add, Width::W64, old, by);
        let new = if size == Size::B8 { new } else { self.b.extend(new, size, int.signed) };
        Value::Scalar(Operand::Reg(new))
    }
}

fn integer(field: &Field) -> (Int, Size) {
    let int = field.ty.as_int().unwrap_or(Int::U64);
    (int, Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8))
}

/// The machine's atomic operations are of 4 and 8 bytes.
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
