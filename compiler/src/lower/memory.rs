//! Memory: foreign memory read into our own, values stored where they are wanted.
//!
//! In: addresses and types. Out: bytes laid out as [`crate::layout`] says.
//! Guarantee: foreign memory is read by checked reads only; where it cannot be read, the value is zero or empty.

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, Operand, Size, VReg, Width};
use crate::layout;
use crate::lower::body::Wanted;
use crate::lower::conditions::chunk;
use crate::lower::{Body, Value};
use crate::typed::{Expr, ExprKind};
use crate::types::{Space, Type};

impl Body<'_, '_> {
    /// The value of a type behind a foreign address.
    pub fn read_memory(&mut self, from: VReg, ty: &Type, space: Space) -> Value {
        if let Some(int) = ty.as_int() {
            let size = Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8);
            let to = self.memory(8, "read");
            self.probe_read(to, from, size.bytes(), space);
            let value = self.b.load(to, size);
            return if int.signed { self.extended(value, ty) } else { Value::Scalar(value.into()) };
        }
        if let Type::Str { capacity_bytes } = ty {
            return self.read_string(from, *capacity_bytes, space);
        }
        let size_bytes = self.layout(ty).size_bytes;
        let to = self.room(ty);
        self.probe_read(to, from, size_bytes, space);
        Value::Memory(to)
    }

    /// Reads bytes; the kernel zeroes the room when it cannot.
    pub fn probe_read(&mut self, to: Addr, from: VReg, size_bytes: u32, space: Space) {
        let helper = match space {
            Space::Kernel => Helper::ProbeReadKernel,
            Space::User => Helper::ProbeReadUser,
        };
        let to = self.address_arg(to);
        let failed = self.b.call(helper, &[to, Arg::Value(i64::from(size_bytes).into()), Arg::Value(from.into())]);
        self.report_failed_read(helper, failed);
    }

    /// Reads a string that is as long as its room at most; one that is longer fills the room without a NUL, which says that
    /// it was cut.
    pub fn read_string(&mut self, from: VReg, capacity_bytes: u32, space: Space) -> Value {
        self.read_string_of(from, (i64::from(capacity_bytes) + 1).into(), capacity_bytes, space)
    }

    /// The same with at most so many bytes, the NUL among them: a string cut there is complete.
    pub fn read_string_of(&mut self, from: VReg, size: Operand, capacity_bytes: u32, space: Space) -> Value {
        let padded = self.wanted.is_none_or(|w| w.padded);
        let to = self.room(&Type::Str { capacity_bytes });
        let helper = match space {
            Space::Kernel => Helper::ProbeReadKernelStr,
            Space::User => Helper::ProbeReadUserStr,
        };
        let bounded = match size {
            Operand::Imm(size) => Operand::Imm(size.clamp(0, i64::from(capacity_bytes))),
            Operand::Reg(size) => self.b.clamp(size, capacity_bytes).into(),
        };
        let to_arg = self.address_arg(to);
        let len = self.b.call(helper, &[to_arg, Arg::Value(bounded), Arg::Value(from.into())]);
        self.report_failed_read(helper, len);
        if !matches!(size, Operand::Imm(size) if size <= i64::from(capacity_bytes)) {
            self.read_last_byte(to, from, len, size, (capacity_bytes, space));
        }
        if padded { Value::Memory(to) } else { Value::Text(to, len.into()) }
    }

    /// The helper puts a NUL at the end of a string that fills the room; what it hides is read again.
    fn read_last_byte(&mut self, to: Addr, from: VReg, len: VReg, size: Operand, (room, space): (u32, Space)) {
        let (filled, cut, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W64, len, i64::from(room), filled, done, Likely::Otherwise);
        self.b.switch_to(filled);
        match size {
            // What was asked for fits: the NUL is the script's own.
            Operand::Reg(size) => {
                self.b.branch(CmpOp::Gt, Width::W64, size, i64::from(room), cut, done, Likely::Unknown);
            }
            Operand::Imm(_) => self.b.jump(cut),
        }
        self.b.switch_to(cut);
        let last = self.b.bin(BinOp::Add, Width::W64, from, i64::from(room) - 1);
        self.probe_read(to.plus(room as i32 - 1), last, 1, space);
        self.b.jump(done);
        self.b.switch_to(done);
    }

    pub(super) fn deref(&mut self, base: &Expr, offset_bytes: u32, bits: Option<(u8, u8)>, ty: &Type) -> Value {
        let space = match base.ty {
            Type::Pointer { space, .. } => space,
            _ => Space::Kernel,
        };
        let wanted = self.wanted.take();
        let pointer = self.scalar_reg(base);
        let from = self.b.bin(BinOp::Add, Width::W64, pointer, i64::from(offset_bytes));
        self.wanted = wanted;
        let value = self.read_memory(from, ty, space);
        let (Some((first, width)), Value::Scalar(Operand::Reg(raw))) = (bits, &value) else { return value };
        self.bit_field(*raw, first, width, ty)
    }

    /// Bits `first..first+width` of a number, extended by the sign of the type.
    fn bit_field(&mut self, raw: VReg, first: u8, width: u8, ty: &Type) -> Value {
        let signed = ty.as_int().is_some_and(|int| int.signed);
        let up = self.b.bin(BinOp::Shl, Width::W64, raw, 64 - i64::from(first) - i64::from(width));
        let op = if signed { BinOp::Sar } else { BinOp::Shr };
        Value::Scalar(self.b.bin(op, Width::W64, up, 64 - i64::from(width)).into())
    }

    /// The address of foreign memory that an expression denotes.
    pub(super) fn address_of(&mut self, place: &Expr) -> Value {
        match &place.kind {
            ExprKind::Deref { base, offset_bytes, .. } => {
                let pointer = self.scalar(base);
                Value::Scalar(self.b.bin(BinOp::Add, Width::W64, pointer, i64::from(*offset_bytes)).into())
            }
            ExprKind::Element { .. } => Value::Scalar(self.element_address(place).into()),
            _ => Value::Scalar(Operand::Imm(0)),
        }
    }

    pub(super) fn element(&mut self, e: &Expr) -> Value {
        let ExprKind::Element { base, .. } = &e.kind else { return Value::None };
        let space = match base.ty {
            Type::Pointer { space, .. } => space,
            _ => Space::Kernel,
        };
        let wanted = self.wanted.take();
        let from = self.element_address(e);
        self.wanted = wanted;
        self.read_memory(from, &e.ty, space)
    }

    /// The address of an element; 0, which cannot be read, when its index is out of bounds.
    fn element_address(&mut self, e: &Expr) -> VReg {
        let ExprKind::Element { base, index, stride_bytes, len } = &e.kind else { return self.b.copy(0) };
        let (pointer, index) = (self.scalar(base), self.scalar(index));
        let distance = self.b.bin(BinOp::Mul, Width::W64, index, i64::from(*stride_bytes));
        let address = self.b.bin(BinOp::Add, Width::W64, pointer, distance);
        let Some(len) = len else { return address };
        let (inside, outside, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let result = self.b.new_vreg();
        self.b.branch(CmpOp::Lt, Width::W64, index, i64::from(*len), inside, outside, Likely::Then);
        self.b.switch_to(inside);
        self.b.assign(result, address);
        self.b.jump(done);
        self.b.switch_to(outside);
        self.b.assign(result, 0);
        self.b.jump(done);
        self.b.switch_to(done);
        result
    }

    /// An element of an array of our own; zero when its index is out of bounds.
    pub(super) fn part_at(&mut self, base: &Expr, index: &Expr, stride_bytes: u32, len: u32, ty: &Type) -> Value {
        self.wanted = None;
        let index = self.scalar_reg(index);
        let array = self.expr(base);
        let array = self.in_memory(array, &base.ty);
        let to = self.room(if ty.is_scalar() { &Type::U64 } else { ty });
        let (inside, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Lt, Width::W64, index, i64::from(len), inside, done, Likely::Then);
        self.b.switch_to(inside);
        // Verifier: the index needs a bound before it is added to an address of our own.
        let index = self.b.clamp(index, len.saturating_sub(1));
        let distance = self.b.bin(BinOp::Mul, Width::W64, index, i64::from(stride_bytes));
        let start = self.address(array);
        let from = self.b.bin(BinOp::Add, Width::W64, start, distance);
        self.probe_read(to, from, stride_bytes, Space::Kernel);
        self.b.jump(done);
        self.b.switch_to(done);
        self.load_as(to, ty)
    }

    /// A part of an aggregate in our own memory.
    pub(super) fn part(&mut self, base: &Expr, offset_bytes: u32, ty: &Type) -> Value {
        let value = self.expr(base);
        let addr = self.in_memory(value, &base.ty).plus(offset_bytes as i32);
        self.load_as(addr, ty)
    }

    /// The value of a type at an address of our own.
    pub fn load_as(&mut self, addr: Addr, ty: &Type) -> Value {
        let Some(int) = ty.as_int() else { return Value::Memory(addr) };
        let size = Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8);
        let aligned = chunk(addr, size.bytes() as usize) == size;
        let value = if aligned { self.b.load(addr, size) } else { self.load_bytes(addr, size) };
        if int.signed { self.extended(value, ty) } else { Value::Scalar(value.into()) }
    }

    /// A number byte by byte: in packed structs it may lie anywhere.
    fn load_bytes(&mut self, addr: Addr, size: Size) -> VReg {
        let mut value = self.b.load(addr, Size::B1);
        for at in 1..size.bytes() {
            let byte = self.b.load(addr.plus(at as i32), Size::B1);
            let up = self.b.bin(BinOp::Shl, Width::W64, byte, i64::from(at) * 8);
            value = self.b.bin(BinOp::Or, Width::W64, value, up);
        }
        value
    }

    /// The address of a value's bytes, which are put in memory if they are not.
    pub fn in_memory(&mut self, value: Value, ty: &Type) -> Addr {
        match value {
            Value::Memory(addr) | Value::Text(addr, _) => addr,
            other => {
                let addr = self.room_for(ty, "value");
                self.store(other, ty, addr);
                addr
            }
        }
    }

    pub(super) fn tuple(&mut self, e: &Expr) -> Value {
        let addr = match self.wanted.take() {
            Some(wanted) => wanted.addr,
            None => self.room_for(&e.ty, "tuple"),
        };
        self.store_tuple(e, addr);
        Value::Memory(addr)
    }

    fn store_tuple(&mut self, e: &Expr, addr: Addr) {
        let (ExprKind::Tuple(parts), Some(types)) = (&e.kind, e.ty.parts()) else { return };
        let btf = self.shared.target.btf_if_needed(&e.ty);
        let (whole, offsets) = layout::tuple(types.iter().copied(), btf);
        let filled: u32 = types.iter().map(|ty| layout::of(ty, btf).size_bytes).sum();
        if filled != whole.size_bytes {
            // Padding is part of a key: equal tuples must be equal bytes.
            self.zero(addr, whole.size_bytes);
        }
        for ((part, ty), offset) in parts.iter().zip(types).zip(offsets) {
            self.store_as(part, ty, addr.plus(offset as i32));
        }
    }

    /// Evaluates an expression into a place, as this type (which holds the expression's), padded with zeros.
    pub fn store_as(&mut self, e: &Expr, ty: &Type, addr: Addr) {
        if let (ExprKind::Tuple(_), true) = (&e.kind, e.ty == *ty) {
            self.store_tuple(e, addr);
            return;
        }
        let same = e.ty == *ty && !ty.is_scalar();
        let value = if same { self.expr_in(e, Wanted { addr, padded: true }) } else { self.expr(e) };
        match value {
            Value::Memory(from) if from == addr => {}
            Value::Memory(from) if !same => self.copy_as(from, &e.ty, ty, addr),
            value => self.store(value, ty, addr),
        }
    }

    /// The same into a place that holds an old value; one that is made of the old value is made elsewhere first.
    pub(super) fn replace(&mut self, e: &Expr, ty: &Type, addr: Addr, reads_itself: bool) {
        if !reads_itself {
            self.store_as(e, ty, addr);
            return;
        }
        let fresh = self.room_for(ty, "new");
        self.store_as(e, ty, fresh);
        let size_bytes = self.layout(ty).size_bytes;
        self.copy(addr, fresh, size_bytes);
    }

    /// Stores a value of this type.
    pub fn store(&mut self, value: Value, ty: &Type, addr: Addr) {
        match value {
            Value::None => {}
            Value::Scalar(operand) => {
                let bytes = self.layout(ty).size_bytes;
                let size = Size::from_bytes(bytes).unwrap_or(Size::B8);
                self.b.store(addr, operand, size);
            }
            Value::Memory(from) | Value::Text(from, _) => {
                let size_bytes = self.layout(ty).size_bytes;
                self.copy(addr, from, size_bytes);
            }
            Value::Bytes(text) => self.store_text(&text, self.layout(ty).size_bytes, addr),
        }
    }

    /// Stores a constant string and zeros behind it.
    fn store_text(&mut self, text: &[u8], room_bytes: u32, addr: Addr) {
        let mut at = 0u32;
        let shown = text.len().min(room_bytes.saturating_sub(1) as usize);
        while (at as usize) < shown {
            let here = addr.plus(at as i32);
            let size = chunk(here, (room_bytes - at) as usize);
            let mut word = [0u8; 8];
            for (to, from) in word[..size.bytes() as usize].iter_mut().zip(&text[at as usize..shown]) {
                *to = *from;
            }
            self.b.store(here, i64::from_le_bytes(word), size);
            at += size.bytes();
        }
        if at < room_bytes {
            self.zero(addr.plus(at as i32), room_bytes - at);
        }
    }

    /// Copies bytes of our own memory; large areas by one checked read.
    pub fn copy(&mut self, to: Addr, from: Addr, size_bytes: u32) {
        const MAX_MOVES_BYTES: u32 = 128;
        if to == from || size_bytes == 0 {
            return;
        }
        if size_bytes <= MAX_MOVES_BYTES {
            let align = chunk(to, 8).min(chunk(from, 8)).bytes();
            self.b.move_(to, from, size_bytes, align);
            return;
        }
        let from = self.address(from);
        self.probe_read(to, from, size_bytes, Space::Kernel);
    }

    /// Copies a value of one type as a larger one of the same kind.
    pub(super) fn copy_as(&mut self, from: Addr, from_ty: &Type, ty: &Type, to: Addr) {
        match (from_ty, ty) {
            (Type::Tuple(_), Type::Tuple(_)) | (Type::Record(_), Type::Record(_)) if from_ty != ty => {
                let (Some(have), Some(want)) = (from_ty.parts(), ty.parts()) else { return };
                let from_btf = self.shared.target.btf_if_needed(from_ty);
                let (_, from_offsets) = layout::tuple(have.iter().copied(), from_btf);
                let (whole, to_offsets) = layout::tuple(want.iter().copied(), self.shared.target.btf_if_needed(ty));
                self.zero(to, whole.size_bytes);
                for (at, want) in want.iter().enumerate() {
                    let source = same_part(from_ty, ty, at);
                    let part = from.plus(from_offsets[source] as i32);
                    self.copy_as(part, have[source], want, to.plus(to_offsets[at] as i32));
                }
            }
            (have, want) if want.is_scalar() => {
                let value = self.load_as(from, have);
                self.store(value, want, to);
            }
            (have, want) => {
                let (have, want) = (self.layout(have).size_bytes, self.layout(want).size_bytes);
                self.copy(to, from, have.min(want));
                if want > have {
                    self.zero(to.plus(have as i32), want - have);
                }
            }
        }
    }

    /// A value of one type as a larger one of the same kind, in memory.
    pub(super) fn convert_memory(&mut self, inner: &Expr, ty: &Type) -> Value {
        let wanted = self.wanted.take();
        let value = self.expr(inner);
        if let (Value::Bytes(text), Type::Str { .. }) = (&value, ty) {
            return Value::Bytes(text.clone());
        }
        let from = self.in_memory(value, &inner.ty);
        let to = match wanted {
            Some(wanted) => wanted.addr,
            None => self.room_for(ty, "wider"),
        };
        self.copy_as(from, &inner.ty, ty, to);
        Value::Memory(to)
    }
}

/// Which part of one tuple or record becomes part `at` of another: that of the same name, else that of the same number.
fn same_part(from: &Type, to: &Type, at: usize) -> usize {
    let (Type::Record(from), Type::Record(to)) = (from, to) else { return at };
    from.iter().position(|(name, _)| to.get(at).is_some_and(|(wanted, _)| wanted == name)).unwrap_or(at)
}
