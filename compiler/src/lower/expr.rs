//! Expressions.
//!
//! In: typed expressions. Out: [`Value`]s.
//! Guarantee: a scalar is sign- or zero-extended to 64 bits by its type.

use crate::ast::{BinaryOp, UnaryOp};
use crate::ir::{Addr, BinOp, CmpOp, Operand, Size, VReg, Width};
use crate::lower::body::Destination;
use crate::lower::{Body, Value, conditions, maps, memory, params, prologue, records, variables};
use crate::object::Attach;
use crate::typed::{Expr, ExprKind, VarIndex};
use crate::types::Type;

impl Body<'_, '_> {
    /// The value of an expression.
    pub fn expr(&mut self, e: &Expr) -> Value {
        // Memory that was offered to the surrounding expression is not for its parts.
        let outer = self.wanted.take();
        let value = lower(self, e);
        self.wanted = outer;
        value
    }

    /// The value. It is stored at the given place if it is not a scalar and the expression supports
    /// that.
    pub(super) fn expr_in(&mut self, e: &Expr, wanted: Destination) -> Value {
        let outer = self.wanted.replace(wanted);
        let value = lower(self, e);
        self.wanted = outer;
        value
    }

    /// The value of a scalar expression.
    pub fn scalar(&mut self, e: &Expr) -> Operand {
        match self.expr(e) {
            Value::Scalar(operand) => operand,
            _ => Operand::Imm(0),
        }
    }

    /// The same in a register.
    pub fn scalar_reg(&mut self, e: &Expr) -> VReg {
        match self.scalar(e) {
            Operand::Reg(reg) => reg,
            imm @ Operand::Imm(_) => self.b.copy(imm),
        }
    }
}

pub(super) fn lower(cx: &mut Body<'_, '_>, e: &Expr) -> Value {
    let outer = cx.b.set_span(e.span);
    let value = lower_kind(cx, e);
    cx.b.set_span(outer);
    value
}

fn lower_kind(cx: &mut Body<'_, '_>, e: &Expr) -> Value {
    match &e.kind {
        ExprKind::Int(n) => Value::Scalar(Operand::Imm(*n)),
        ExprKind::Str(text) => Value::Bytes(text.clone()),
        ExprKind::Var(var) => variables::read(cx, *var),
        ExprKind::Map(map, key) => maps::read(cx, *map, key.as_deref(), &e.ty),
        ExprKind::Builtin(word, constants) => cx.shared.catalogue.builtin_of(word).lower(cx, &e.ty, constants),
        ExprKind::Call(call) => cx.shared.catalogue.function_of(&call.word).lower(cx, call, &e.ty),
        ExprKind::Unary(op, inner) => unary(cx, *op, inner),
        ExprKind::Binary(op, a, b) => binary(cx, *op, a, b, e),
        ExprKind::Ternary(cond, a, b) => ternary(cx, cond, a, b, &e.ty),
        ExprKind::StepVar { var, by, prefix } => step_var(cx, *var, *by, *prefix),
        ExprKind::StepMap { map, key, by, prefix } => {
            let old = cx.b.new_vreg();
            maps::step(cx, *map, key.as_deref(), *by, Some(old));
            let value = if *prefix { cx.b.bin(BinOp::Add, Width::W64, old, *by) } else { old };
            Value::Scalar(value.into())
        }
        ExprKind::Exchange(field, value) => records::exchange(cx, field, value),
        ExprKind::StepField { field, by, prefix } => records::stepped(cx, field, *by, *prefix),
        ExprKind::Convert(inner) => convert(cx, inner, &e.ty),
        ExprKind::ContextField(offset) => context_field(cx, *offset, &e.ty),
        ExprKind::ContextData(offset) => {
            // `__data_loc`: the low half is the offset from the start of the record.
            let context = cx.b.context();
            let word = cx.b.load(Addr::reg(context, *offset as i32), Size::B4);
            let distance = cx.b.bin(BinOp::And, Width::W64, word, 0xffff);
            Value::Scalar(cx.b.bin(BinOp::Add, Width::W64, context, distance).into())
        }
        ExprKind::ContextArg(n) => {
            let context = cx.b.context();
            let arg = cx.b.load(Addr::reg(context, *n as i32 * 8), Size::B8);
            // Verifier: it types such pointers, and refuses arithmetic on some.
            let is_typed = matches!(cx.probe.attach, Attach::Trampoline { .. });
            let arg = if is_typed && matches!(e.ty, Type::Pointer { .. }) { memory::as_number(cx, arg) } else { arg };
            cx.extended(arg, &e.ty)
        }
        ExprKind::Register(offset) => {
            let context = cx.b.context();
            let register = cx.b.load(Addr::reg(context, *offset as i32), Size::B8);
            cx.extended(register, &e.ty)
        }
        ExprKind::SyscallRegister(offset) => {
            let context = cx.b.context();
            let registers = cx.b.load(Addr::reg(context, 0), Size::B8);
            let register = prologue::read_kernel_scalar(cx, registers, i64::from(*offset), Size::B8);
            cx.extended(register, &e.ty)
        }
        ExprKind::Deref { base, offset_bytes, bits } => memory::deref(cx, base, *offset_bytes, *bits, &e.ty),
        ExprKind::Part { base, offset_bytes } => memory::part(cx, base, *offset_bytes, &e.ty),
        ExprKind::PartAt { .. } => memory::part_at(cx, e),
        ExprKind::Element { .. } => memory::element(cx, e),
        ExprKind::AddressOf(place) => memory::address_of(cx, place),
        ExprKind::Tuple(_) => memory::tuple(cx, e),
        ExprKind::Param(index) => params::value(cx, *index),
        ExprKind::Matches(..) => Value::Scalar(conditions::value_of(cx, e).into()),
        ExprKind::Block(body, value) => {
            let inside = body.first().map(|first| first.span);
            cx.within(inside, |cx| {
                let wanted = cx.wanted.take();
                cx.stmts(body);
                cx.wanted = wanted;
                lower(cx, value)
            })
        }
    }
}

fn unary(cx: &mut Body<'_, '_>, op: UnaryOp, inner: &Expr) -> Value {
    let value = match op {
        UnaryOp::Neg => {
            let value = cx.scalar(inner);
            cx.b.bin(BinOp::Sub, Width::W64, 0, value)
        }
        UnaryOp::BitNot => {
            let value = cx.scalar(inner);
            cx.b.bin(BinOp::Xor, Width::W64, value, -1)
        }
        _ => {
            let value = cx.scalar(inner);
            cx.b.set(CmpOp::Eq, Width::W64, value, 0)
        }
    };
    Value::Scalar(value.into())
}

fn binary(cx: &mut Body<'_, '_>, op: BinaryOp, a: &Expr, b: &Expr, whole: &Expr) -> Value {
    if whole.ty == Type::Bool {
        return Value::Scalar(conditions::value_of(cx, whole).into());
    }
    let signed = a.ty.as_int().is_some_and(|int| int.signed);
    let (left, right) = (cx.scalar(a), cx.scalar(b));
    Value::Scalar(arithmetic(cx, op, left, right, signed).into())
}

/// Integer arithmetic in 64 bits.
pub(super) fn arithmetic(cx: &mut Body<'_, '_>, op: BinaryOp, a: Operand, b: Operand, signed: bool) -> VReg {
    let op = match op {
        BinaryOp::Add => BinOp::Add,
        BinaryOp::Sub => BinOp::Sub,
        BinaryOp::Mul => BinOp::Mul,
        BinaryOp::BitAnd => BinOp::And,
        BinaryOp::BitOr => BinOp::Or,
        BinaryOp::BitXor => BinOp::Xor,
        BinaryOp::ShiftLeft => BinOp::Shl,
        BinaryOp::ShiftRight if signed => BinOp::Sar,
        BinaryOp::ShiftRight => BinOp::Shr,
        BinaryOp::Mod if signed => return signed_division(cx, BinOp::Mod, a, b),
        BinaryOp::Mod => BinOp::Mod,
        BinaryOp::Div if signed => return signed_division(cx, BinOp::Div, a, b),
        _ => BinOp::Div,
    };
    cx.b.bin(op, Width::W64, a, b)
}

/// Truncating division built from unsigned division: kernels before 6.6 have no signed
/// division. `sign` is 0 or -1; `(x ^ sign) - sign` negates when it is -1.
fn signed_division(cx: &mut Body<'_, '_>, op: BinOp, a: Operand, b: Operand) -> VReg {
    let sign_of = |cx: &mut Body<'_, '_>, x: Operand| cx.b.bin(BinOp::Sar, Width::W64, x, 63);
    let negate_if = |cx: &mut Body<'_, '_>, x: Operand, sign: VReg| {
        let flipped = cx.b.bin(BinOp::Xor, Width::W64, x, sign);
        cx.b.bin(BinOp::Sub, Width::W64, flipped, sign)
    };
    let left_sign = sign_of(cx, a);
    let left = negate_if(cx, a, left_sign);
    let right_sign = sign_of(cx, b);
    let right = negate_if(cx, b, right_sign);
    let result = cx.b.bin(op, Width::W64, left, right);
    // The remainder has the dividend's sign.
    let sign = match op {
        BinOp::Div => cx.b.bin(BinOp::Xor, Width::W64, left_sign, right_sign),
        _ => left_sign,
    };
    negate_if(cx, result.into(), sign)
}

fn ternary(cx: &mut Body<'_, '_>, cond: &Expr, a: &Expr, b: &Expr, ty: &Type) -> Value {
    let wanted = cx.wanted.take();
    let scalar = (ty.is_scalar() || *ty == Type::Unknown).then(|| cx.b.new_vreg());
    let memory = (scalar.is_none() && *ty != Type::None)
        .then(|| wanted.map_or_else(|| cx.allocate_named(ty, "either"), |wanted| wanted.addr));
    let (yes, no, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    conditions::branch_on(cx, cond, yes, no);
    for (block, side) in [(yes, a), (no, b)] {
        cx.b.switch_to(block);
        cx.conditionally(|cx| match (scalar, memory) {
            (Some(result), _) => {
                let value = cx.scalar(side);
                cx.b.assign(result, value);
            }
            (None, Some(addr)) => cx.store_as(side, ty, addr),
            (None, None) => {
                cx.expr(side);
            }
        });
        cx.b.jump(done);
    }
    cx.b.switch_to(done);
    match (scalar, memory) {
        (Some(result), _) => Value::Scalar(result.into()),
        (None, Some(addr)) => Value::Memory(addr),
        (None, None) => Value::None,
    }
}

fn step_var(cx: &mut Body<'_, '_>, var: VarIndex, by: i64, prefix: bool) -> Value {
    let Value::Scalar(Operand::Reg(old)) = variables::read(cx, var) else { return Value::None };
    let sum = cx.b.bin(BinOp::Add, Width::W64, old, by);
    let ty = cx.probe.vars[var.0].ty.clone();
    let new = match cx.extended(sum, &ty) {
        Value::Scalar(new) => new,
        _ => sum.into(),
    };
    let new = match new {
        // Not the variable's own register, which may change before the value is used.
        Operand::Reg(reg) => cx.b.copy(reg).into(),
        imm @ Operand::Imm(_) => imm,
    };
    variables::write(cx, var, new);
    Value::Scalar(if prefix { new } else { old.into() })
}

fn convert(cx: &mut Body<'_, '_>, inner: &Expr, ty: &Type) -> Value {
    if !ty.is_scalar() {
        return memory::convert_memory(cx, inner, ty);
    }
    let value = cx.scalar(inner);
    if *ty == Type::Bool {
        return Value::Scalar(cx.b.set(CmpOp::Ne, Width::W64, value, 0).into());
    }
    let (Some(from), Some(to)) = (inner.ty.as_int(), ty.as_int()) else { return Value::Scalar(value) };
    let grows = to.size_bytes > from.size_bytes && (to.signed || !from.signed);
    let fits = to.size_bytes == 8 || to == from || grows;
    match (fits, value) {
        (true, value) => Value::Scalar(value),
        (false, Operand::Reg(reg)) => cx.extended(reg, ty),
        (false, Operand::Imm(n)) => Value::Scalar(Operand::Imm(to.truncate(n))),
    }
}

fn context_field(cx: &mut Body<'_, '_>, offset: u32, ty: &Type) -> Value {
    let context = cx.b.context();
    let Some(int) = ty.as_int() else {
        let from = cx.b.bin(BinOp::Add, Width::W64, context, i64::from(offset));
        return memory::read(cx, from, ty, crate::types::Space::Kernel);
    };
    let size = Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8);
    let value = cx.b.load(Addr::reg(context, offset as i32), size);
    if int.signed { cx.extended(value, ty) } else { Value::Scalar(value.into()) }
}
