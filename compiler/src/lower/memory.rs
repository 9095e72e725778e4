//! Memory: reads foreign memory into our own, and stores values.
//!
//! In: addresses and types. Out: bytes laid out as [`crate::layout`] says.
//! Guarantee: foreign memory is read only with probe-read helpers or with loads that are safe
//! against faults; where it cannot be read, the value is zero or empty.

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, Operand, Section, Size, VReg, Width};
use crate::layout;
use crate::lower::body::Destination;
use crate::lower::{Body, Value, builtins, failures, typed_pointers, variables};
use crate::source::Span;
use crate::typed::{Expr, ExprKind};
use crate::types::{Space, Type};

impl Body<'_, '_> {
    /// Sets memory to zero. Large areas are copied from a block of zeros.
    pub fn zero(&mut self, addr: Addr, size_bytes: u32) {
        const MAX_STORES_BYTES: u32 = 128;
        if size_bytes <= MAX_STORES_BYTES {
            zero_by_stores(self, addr, size_bytes);
            return;
        }
        let offset = self.shared.zeros(size_bytes);
        let zeros = self.b.data_addr(Section::Rodata, offset);
        let to = self.address_arg(addr);
        self.b.call_void(
            Helper::ProbeReadKernel,
            &[to, Arg::Value(i64::from(size_bytes).into()), Arg::Value(zeros.into())],
        );
    }

    /// Stores a value of this type.
    pub(super) fn store(&mut self, value: Value, ty: &Type, addr: Addr) {
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
            Value::Bytes(text) => store_text(self, &text, self.layout(ty).size_bytes, addr),
        }
    }

    /// Evaluates an expression into memory, as this type (which can hold the expression's), padded
    /// with zeros.
    pub(super) fn store_as(&mut self, e: &Expr, ty: &Type, addr: Addr) {
        if let (ExprKind::Tuple(_), true) = (&e.kind, e.ty == *ty) {
            store_tuple(self, e, addr);
            return;
        }
        let same = e.ty == *ty && !ty.is_scalar();
        let value = if same { self.expr_in(e, Destination { addr, padded: true }) } else { self.expr(e) };
        match value {
            Value::Memory(from) if from == addr => {}
            Value::Memory(from) if !same => copy_as(self, from, &e.ty, ty, addr),
            value => self.store(value, ty, addr),
        }
    }

    /// Loads a value of a type from our own memory.
    pub(super) fn load_as(&mut self, addr: Addr, ty: &Type) -> Value {
        let Some(int) = ty.as_int() else { return Value::Memory(addr) };
        let size = Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8);
        let aligned = chunk(addr, size.bytes() as usize) == size;
        let value = if aligned { self.b.load(addr, size) } else { load_bytes(self, addr, size) };
        if int.signed { self.extended(value, ty) } else { Value::Scalar(value.into()) }
    }

    /// Copies bytes within our own memory; large areas with one probe read.
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
        probe_read(self, to, from, size_bytes, Space::Kernel);
    }
}

/// An address in foreign memory.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    pub address: VReg,
    /// Whose memory it is in.
    pub space: Space,
}

pub(super) fn zero_by_stores(cx: &mut Body<'_, '_>, addr: Addr, size_bytes: u32) {
    let mut at = 0;
    while at < size_bytes && (addr.offset + at as i32) % 8 != 0 {
        let size = chunk(addr.plus(at as i32), (size_bytes - at) as usize);
        cx.b.store(addr.plus(at as i32), 0, size);
        at += size.bytes();
    }
    if at < size_bytes {
        cx.b.zero(addr.plus(at as i32), size_bytes - at);
    }
}

/// The value of a type at a foreign address.
pub(super) fn read(cx: &mut Body<'_, '_>, from: VReg, ty: &Type, space: Space) -> Value {
    if space == Space::Kernel
        && let Some(pointer) = typed_pointers::read_pointer(cx, from, ty)
    {
        return Value::Scalar(pointer.into());
    }
    if let Some(int) = ty.as_int() {
        let size = Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8);
        let to = cx.brief_word("read");
        probe_read(cx, to, from, size.bytes(), space);
        let value = cx.b.load(to, size);
        return if int.signed { cx.extended(value, ty) } else { Value::Scalar(value.into()) };
    }
    if let Type::Str { capacity_bytes } = ty {
        return read_string(cx, Source { address: from, space }, *capacity_bytes);
    }
    let size_bytes = cx.layout(ty).size_bytes;
    let to = cx.allocate(ty);
    probe_read(cx, to, from, size_bytes, space);
    Value::Memory(to)
}

/// Reads bytes; the kernel zeroes the destination if the read fails.
pub fn probe_read(cx: &mut Body<'_, '_>, to: Addr, from: VReg, size_bytes: u32, space: Space) {
    let helper = match space {
        Space::Kernel => Helper::ProbeReadKernel,
        Space::User => Helper::ProbeReadUser,
    };
    let to = cx.address_arg(to);
    let failed = cx.b.call(helper, &[to, Arg::Value(i64::from(size_bytes).into()), Arg::Value(from.into())]);
    failures::failed_read(cx, helper, failed);
}

/// Reads a string up to its capacity. A longer string fills the capacity without a NUL, which
/// marks it as truncated.
pub fn read_string(cx: &mut Body<'_, '_>, from: Source, capacity_bytes: u32) -> Value {
    read_string_of(cx, from, (i64::from(capacity_bytes) + 1).into(), capacity_bytes)
}

/// The same with at most `size` bytes, including the NUL: a string that is cut by `size` has
/// its NUL.
pub fn read_string_of(cx: &mut Body<'_, '_>, from: Source, size: Operand, capacity_bytes: u32) -> Value {
    let padded = cx.wanted.is_none_or(|w| w.padded);
    let to = cx.allocate(&Type::Str { capacity_bytes });
    let helper = match from.space {
        Space::Kernel => Helper::ProbeReadKernelStr,
        Space::User => Helper::ProbeReadUserStr,
    };
    let bounded = match size {
        Operand::Imm(size) => Operand::Imm(size.clamp(0, i64::from(capacity_bytes))),
        Operand::Reg(size) => cx.b.clamp(size, capacity_bytes).into(),
    };
    let to_arg = cx.address_arg(to);
    let len = cx.b.call(helper, &[to_arg, Arg::Value(bounded), Arg::Value(from.address.into())]);
    failures::failed_read(cx, helper, len);
    if !matches!(size, Operand::Imm(size) if size <= i64::from(capacity_bytes)) {
        let string = Truncated { to, len, capacity_bytes };
        read_last_byte(cx, string, from, size);
    }
    if padded { Value::Memory(to) } else { Value::Text(to, len.into()) }
}

/// A string that a helper has read, and that may fill its memory.
#[derive(Debug, Clone, Copy)]
struct Truncated {
    to: Addr,
    /// The helper's result: the length including the NUL.
    len: VReg,
    capacity_bytes: u32,
}

/// The helper ends a string that fills the capacity with a NUL; this reads the byte that the
/// NUL replaced.
fn read_last_byte(cx: &mut Body<'_, '_>, string: Truncated, from: Source, size: Operand) {
    let Truncated { to, len, capacity_bytes: room } = string;
    let (filled, cut, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, len, i64::from(room), filled, done, Likely::Otherwise);
    cx.b.switch_to(filled);
    match size {
        // If the requested size fits, the NUL is the one that the script asked for.
        Operand::Reg(size) => {
            cx.b.branch(CmpOp::Gt, Width::W64, size, i64::from(room), cut, done, Likely::Unknown);
        }
        Operand::Imm(_) => cx.b.jump(cut),
    }
    cx.b.switch_to(cut);
    let last = cx.b.bin(BinOp::Add, Width::W64, from.address, i64::from(room) - 1);
    probe_read(cx, to.plus(room as i32 - 1), last, 1, from.space);
    cx.b.jump(done);
    cx.b.switch_to(done);
}

pub(super) fn deref(cx: &mut Body<'_, '_>, base: &Expr, offset_bytes: u32, bits: Option<(u8, u8)>, ty: &Type) -> Value {
    let space = match base.ty {
        Type::Pointer { space, .. } => space,
        _ => Space::Kernel,
    };
    let value = typed_pointers::read(cx, base, offset_bytes, ty).unwrap_or_else(|| {
        let wanted = cx.wanted.take();
        let pointer = cx.scalar_reg(base);
        let from = cx.b.bin(BinOp::Add, Width::W64, pointer, i64::from(offset_bytes));
        cx.wanted = wanted;
        let outer = cx.b.span();
        cx.b.set_span(without_parentheses(base.span, outer));
        let value = read(cx, from, ty, space);
        cx.b.set_span(outer);
        value
    });
    let (Some((first, width)), Value::Scalar(Operand::Reg(raw))) = (bits, &value) else { return value };
    bit_field(cx, *raw, first, width, ty)
}

/// The span of `(pointer).field` without the parenthesis at its start, as bpftrace shows it.
fn without_parentheses(pointer: Span, whole: Span) -> Span {
    let is_before_field = pointer.start > whole.start && pointer.end < whole.end;
    if is_before_field { Span { start: pointer.start, ..whole } } else { whole }
}

/// Bits `first..first+width` of a number, sign- or zero-extended by its type.
fn bit_field(cx: &mut Body<'_, '_>, raw: VReg, first: u8, width: u8, ty: &Type) -> Value {
    let signed = ty.as_int().is_some_and(|int| int.signed);
    let up = cx.b.bin(BinOp::Shl, Width::W64, raw, 64 - i64::from(first) - i64::from(width));
    let op = if signed { BinOp::Sar } else { BinOp::Shr };
    Value::Scalar(cx.b.bin(op, Width::W64, up, 64 - i64::from(width)).into())
}

/// The foreign address that an expression denotes.
pub(super) fn address_of(cx: &mut Body<'_, '_>, place: &Expr) -> Value {
    match &place.kind {
        ExprKind::Deref { base, offset_bytes, .. } => {
            let pointer = cx.scalar(base);
            Value::Scalar(cx.b.bin(BinOp::Add, Width::W64, pointer, i64::from(*offset_bytes)).into())
        }
        ExprKind::Element { .. } => Value::Scalar(element_address(cx, place).into()),
        ExprKind::Var(var) => Value::Scalar(variables::address_as_number(cx, *var)),
        ExprKind::ContextField(offset) => {
            let context = cx.b.context();
            let address = cx.b.bin(BinOp::Add, Width::W64, context, i64::from(*offset));
            Value::Scalar(as_number(cx, address).into())
        }
        _ => Value::Scalar(Operand::Imm(0)),
    }
}

/// An address as a number. Verifier: it forgets what a register holds whose bytes are reversed.
/// Reversed twice, an address is a number, with which everything may be calculated. It allows that
/// to those who may see addresses, by `CAP_PERFMON`.
pub(super) fn as_number(cx: &mut Body<'_, '_>, address: VReg) -> VReg {
    let reversed = cx.b.swap(address, Size::B8);
    cx.b.swap(reversed, Size::B8)
}

pub(super) fn element(cx: &mut Body<'_, '_>, e: &Expr) -> Value {
    let ExprKind::Element { base, .. } = &e.kind else { return Value::None };
    let space = match base.ty {
        Type::Pointer { space, .. } => space,
        _ => Space::Kernel,
    };
    let wanted = cx.wanted.take();
    let from = element_address(cx, e);
    cx.wanted = wanted;
    read(cx, from, &e.ty, space)
}

/// The address of an element; 0, which cannot be read, if the index is out of bounds.
fn element_address(cx: &mut Body<'_, '_>, e: &Expr) -> VReg {
    let ExprKind::Element { base, index, stride_bytes, len } = &e.kind else { return cx.b.copy(0) };
    let (pointer, index) = (cx.scalar(base), cx.scalar(index));
    let distance = cx.b.bin(BinOp::Mul, Width::W64, index, i64::from(*stride_bytes));
    let address = cx.b.bin(BinOp::Add, Width::W64, pointer, distance);
    let Some(len) = len else { return address };
    let (inside, outside, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    let result = cx.b.new_vreg();
    cx.b.branch(CmpOp::Lt, Width::W64, index, i64::from(*len), inside, outside, Likely::Then);
    cx.b.switch_to(inside);
    cx.b.assign(result, address);
    cx.b.jump(done);
    cx.b.switch_to(outside);
    failures::out_of_bounds(cx);
    cx.b.assign(result, 0);
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}

/// An element of an array in our own memory; zero if the index is out of bounds.
pub(super) fn part_at(cx: &mut Body<'_, '_>, e: &Expr) -> Value {
    let ExprKind::PartAt { base, index, stride_bytes, len } = &e.kind else { return Value::None };
    let (ty, stride_bytes, len) = (&e.ty, *stride_bytes, *len);
    cx.wanted = None;
    let index = cx.scalar_reg(index);
    let array = cx.expr(base);
    let array = cx.in_memory(array, &base.ty);
    let to = cx.allocate(if ty.is_scalar() { &Type::U64 } else { ty });
    let (inside, outside, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Lt, Width::W64, index, i64::from(len), inside, outside, Likely::Then);
    cx.b.switch_to(outside);
    failures::out_of_bounds(cx);
    cx.b.jump(done);
    cx.b.switch_to(inside);
    // Verifier: the index needs a bound before it is added to an address of our own memory.
    let index = cx.b.clamp(index, len.saturating_sub(1));
    let distance = cx.b.bin(BinOp::Mul, Width::W64, index, i64::from(stride_bytes));
    let start = cx.address(array);
    let from = cx.b.bin(BinOp::Add, Width::W64, start, distance);
    probe_read(cx, to, from, stride_bytes, Space::Kernel);
    cx.b.jump(done);
    cx.b.switch_to(done);
    cx.load_as(to, ty)
}

/// A part of an aggregate in our own memory.
pub(super) fn part(cx: &mut Body<'_, '_>, base: &Expr, offset_bytes: u32, ty: &Type) -> Value {
    let value = cx.expr(base);
    let addr = cx.in_memory(value, &base.ty).plus(offset_bytes as i32);
    cx.load_as(addr, ty)
}

/// Loads a number byte by byte: in packed structs it may be unaligned.
pub(super) fn load_bytes(cx: &mut Body<'_, '_>, addr: Addr, size: Size) -> VReg {
    let mut value = cx.b.load(addr, Size::B1);
    for at in 1..size.bytes() {
        let byte = cx.b.load(addr.plus(at as i32), Size::B1);
        let up = cx.b.bin(BinOp::Shl, Width::W64, byte, i64::from(at) * 8);
        value = cx.b.bin(BinOp::Or, Width::W64, value, up);
    }
    value
}

pub(super) fn tuple(cx: &mut Body<'_, '_>, e: &Expr) -> Value {
    let addr = match cx.wanted.take() {
        Some(wanted) => wanted.addr,
        None => cx.allocate_named(&e.ty, "tuple"),
    };
    store_tuple(cx, e, addr);
    Value::Memory(addr)
}

pub(super) fn store_tuple(cx: &mut Body<'_, '_>, e: &Expr, addr: Addr) {
    let (ExprKind::Tuple(parts), Some(types)) = (&e.kind, e.ty.parts()) else { return };
    let btf = cx.shared.target.btf_if_needed(&e.ty);
    let (whole, offsets) = layout::tuple(types.iter().copied(), btf);
    let filled: u32 = types.iter().map(|ty| layout::of(ty, btf).size_bytes).sum();
    if filled != whole.size_bytes {
        // Padding is part of a key: equal tuples must have equal bytes.
        cx.zero(addr, whole.size_bytes);
    }
    for ((part, ty), offset) in parts.iter().zip(types).zip(offsets) {
        cx.store_as(part, ty, addr.plus(offset as i32));
    }
}

/// As [`Body::store_as`], for memory that holds an old value. An expression that reads the old
/// value is evaluated elsewhere first.
pub(super) fn replace(cx: &mut Body<'_, '_>, e: &Expr, ty: &Type, addr: Addr, reads_itself: bool) {
    if !reads_itself {
        cx.store_as(e, ty, addr);
        return;
    }
    let fresh = cx.allocate_named(ty, "new");
    cx.store_as(e, ty, fresh);
    let size_bytes = cx.layout(ty).size_bytes;
    cx.copy(addr, fresh, size_bytes);
}

/// Stores a constant string, followed by zeros.
pub(super) fn store_text(cx: &mut Body<'_, '_>, text: &[u8], capacity_bytes: u32, addr: Addr) {
    let mut at = 0u32;
    let shown = text.len().min(capacity_bytes.saturating_sub(1) as usize);
    while (at as usize) < shown {
        let here = addr.plus(at as i32);
        let size = chunk(here, (capacity_bytes - at) as usize);
        let mut word = [0u8; 8];
        for (to, from) in word[..size.bytes() as usize].iter_mut().zip(&text[at as usize..shown]) {
            *to = *from;
        }
        cx.b.store(here, i64::from_le_bytes(word), size);
        at += size.bytes();
    }
    if at < capacity_bytes {
        cx.zero(addr.plus(at as i32), capacity_bytes - at);
    }
}

/// Copies a value of one type as a larger type of the same kind.
pub(super) fn copy_as(cx: &mut Body<'_, '_>, from: Addr, from_ty: &Type, ty: &Type, to: Addr) {
    match (from_ty, ty) {
        (Type::Tuple(_), Type::Tuple(_)) | (Type::Record(_), Type::Record(_)) if from_ty != ty => {
            let (Some(have), Some(want)) = (from_ty.parts(), ty.parts()) else { return };
            let from_btf = cx.shared.target.btf_if_needed(from_ty);
            let (_, from_offsets) = layout::tuple(have.iter().copied(), from_btf);
            let (whole, to_offsets) = layout::tuple(want.iter().copied(), cx.shared.target.btf_if_needed(ty));
            cx.zero(to, whole.size_bytes);
            for (at, want) in want.iter().enumerate() {
                let source = same_part(from_ty, ty, at);
                let part = from.plus(from_offsets[source] as i32);
                copy_as(cx, part, have[source], want, to.plus(to_offsets[at] as i32));
            }
        }
        (Type::ProbeName, want) if *want != Type::ProbeName => builtins::copy_name(cx, from, want, to),
        (have, want) if want.is_scalar() => {
            let value = cx.load_as(from, have);
            cx.store(value, want, to);
        }
        (have, want) => {
            let (have, want) = (cx.layout(have).size_bytes, cx.layout(want).size_bytes);
            cx.copy(to, from, have.min(want));
            if want > have {
                cx.zero(to.plus(have as i32), want - have);
            }
        }
    }
}

/// Converts a value in memory to a larger type of the same kind.
pub(super) fn convert_memory(cx: &mut Body<'_, '_>, inner: &Expr, ty: &Type) -> Value {
    if let (Type::Str { .. }, ExprKind::Builtin(_, constants)) = (ty, &inner.kind)
        && let Some(name) = builtins::only_name(cx, &inner.ty, constants)
    {
        return Value::Bytes(name);
    }
    let wanted = cx.wanted.take();
    let value = cx.expr(inner);
    if let (Value::Bytes(text), Type::Str { .. }) = (&value, ty) {
        return Value::Bytes(text.clone());
    }
    let from = cx.in_memory(value, &inner.ty);
    let to = match wanted {
        Some(wanted) => wanted.addr,
        None => cx.allocate_named(ty, "wider"),
    };
    copy_as(cx, from, &inner.ty, ty, to);
    Value::Memory(to)
}

/// The index of the part that becomes part `at` of the other tuple or record: the part of the same
/// name, else the one at the same index.
fn same_part(from: &Type, to: &Type, at: usize) -> usize {
    let (Type::Record(from), Type::Record(to)) = (from, to) else { return at };
    from.iter().position(|(name, _)| to.get(at).is_some_and(|(wanted, _)| wanted == name)).unwrap_or(at)
}

/// The largest aligned access at an address that is not longer than `left`. Objects are aligned to
/// 8 bytes. So are addresses in registers: they are map values, scratch memory or data.
pub(super) fn chunk(addr: Addr, left: usize) -> Size {
    let offset = addr.offset;
    [Size::B8, Size::B4, Size::B2]
        .into_iter()
        .find(|size| offset % size.bytes() as i32 == 0 && size.bytes() as usize <= left)
        .unwrap_or(Size::B1)
}
