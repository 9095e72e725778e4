//! Expressions.
//!
//! In: typed expressions. Out: [`Value`]s.
//! Guarantee: a scalar is extended to 64 bits by the sign of its type.

use crate::ast::{BinaryOp, UnaryOp};
use crate::ir::{Addr, BinOp, CmpOp, Operand, Size, VReg, Width};
use crate::lower::body::Wanted;
use crate::lower::{Body, Value};
use crate::object::Attach;
use crate::typed::{Expr, ExprKind, VarIndex};
use crate::types::{Int, Type};

impl Body<'_, '_> {
    /// The value of an expression.
    pub fn expr(&mut self, e: &Expr) -> Value {
        // A place that the surrounding expression was offered is not for its parts.
        let outer = self.wanted.take();
        let value = self.lower_expr(e);
        self.wanted = outer;
        value
    }

    /// The value, put in this place if it is not a scalar and the expression can.
    pub(super) fn expr_in(&mut self, e: &Expr, wanted: Wanted) -> Value {
        let outer = self.wanted.replace(wanted);
        let value = self.lower_expr(e);
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

    fn lower_expr(&mut self, e: &Expr) -> Value {
        let outer = self.b.set_span(e.span);
        let value = self.lower_kind(e);
        self.b.set_span(outer);
        value
    }

    fn lower_kind(&mut self, e: &Expr) -> Value {
        match &e.kind {
            ExprKind::Int(n) => Value::Scalar(Operand::Imm(*n)),
            ExprKind::Str(text) => Value::Bytes(text.clone()),
            ExprKind::Var(var) => self.read_var(*var),
            ExprKind::Map(map, key) => self.read_map(*map, key.as_deref(), &e.ty),
            ExprKind::Builtin(word, constants) => word.lower(self, &e.ty, constants),
            ExprKind::Call(call) => call.word.lower(self, call, &e.ty),
            ExprKind::Unary(op, inner) => self.unary(*op, inner),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, e),
            ExprKind::Ternary(cond, a, b) => self.ternary(cond, a, b, &e.ty),
            ExprKind::StepVar { var, by, prefix } => self.step_var(*var, *by, *prefix),
            ExprKind::StepMap { map, key, by, prefix } => {
                let old = self.b.new_vreg();
                self.step_map(*map, key.as_deref(), *by, Some(old));
                let value = if *prefix { self.b.bin(BinOp::Add, Width::W64, old, *by) } else { old };
                Value::Scalar(value.into())
            }
            ExprKind::StepField { field, by, prefix } => self.stepped_field(field, *by, *prefix),
            ExprKind::Convert(inner) => self.convert(inner, &e.ty),
            ExprKind::ContextField(offset) => self.context_field(*offset, &e.ty),
            ExprKind::ContextData(offset) => {
                // `__data_loc`: the low half is the distance from the record's start.
                let context = self.b.context();
                let word = self.b.load(Addr::reg(context, *offset as i32), Size::B4);
                let distance = self.b.bin(BinOp::And, Width::W64, word, 0xffff);
                Value::Scalar(self.b.bin(BinOp::Add, Width::W64, context, distance).into())
            }
            ExprKind::ContextArg(n) => {
                let context = self.b.context();
                let pointer = matches!(e.ty, Type::Pointer { .. });
                let arg = if pointer && matches!(self.probe.attach, Attach::Trampoline { .. }) {
                    // Verifier: it types such pointers and refuses arithmetic on some, and pointers to pointers at all;
                    // read by a helper they are numbers.
                    self.read_kernel_scalar(context, i64::from(*n) * 8, Size::B8)
                } else {
                    self.b.load(Addr::reg(context, *n as i32 * 8), Size::B8)
                };
                self.extended(arg, &e.ty)
            }
            ExprKind::Register(offset) => {
                let context = self.b.context();
                let register = self.b.load(Addr::reg(context, *offset as i32), Size::B8);
                self.extended(register, &e.ty)
            }
            ExprKind::SyscallRegister(offset) => {
                let context = self.b.context();
                let registers = self.b.load(Addr::reg(context, 0), Size::B8);
                let register = self.read_kernel_scalar(registers, i64::from(*offset), Size::B8);
                self.extended(register, &e.ty)
            }
            ExprKind::Deref { base, offset_bytes, bits } => self.deref(base, *offset_bytes, *bits, &e.ty),
            ExprKind::Part { base, offset_bytes } => self.part(base, *offset_bytes, &e.ty),
            ExprKind::PartAt { base, index, stride_bytes, len } => {
                self.part_at(base, index, *stride_bytes, *len, &e.ty)
            }
            ExprKind::Element { .. } => self.element(e),
            ExprKind::AddressOf(place) => self.address_of(place),
            ExprKind::Tuple(_) => self.tuple(e),
            ExprKind::Block(body, value) => {
                let wanted = self.wanted.take();
                self.stmts(body);
                self.wanted = wanted;
                self.lower_expr(value)
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, inner: &Expr) -> Value {
        let value = match op {
            UnaryOp::Neg => {
                let value = self.scalar(inner);
                self.b.bin(BinOp::Sub, Width::W64, 0, value)
            }
            UnaryOp::BitNot => {
                let value = self.scalar(inner);
                self.b.bin(BinOp::Xor, Width::W64, value, -1)
            }
            _ => {
                let value = self.scalar(inner);
                self.b.set(CmpOp::Eq, Width::W64, value, 0)
            }
        };
        Value::Scalar(value.into())
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, whole: &Expr) -> Value {
        if whole.ty == Type::Bool {
            return Value::Scalar(self.condition_value(whole).into());
        }
        let signed = a.ty.as_int().is_some_and(|int| int.signed);
        let (left, right) = (self.scalar(a), self.scalar(b));
        Value::Scalar(self.arithmetic(op, left, right, signed).into())
    }

    /// Integer arithmetic in 64 bits.
    pub(super) fn arithmetic(&mut self, op: BinaryOp, a: Operand, b: Operand, signed: bool) -> VReg {
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
            BinaryOp::Mod if signed => return self.signed_division(BinOp::Mod, a, b),
            BinaryOp::Mod => BinOp::Mod,
            BinaryOp::Div if signed => return self.signed_division(BinOp::Div, a, b),
            _ => BinOp::Div,
        };
        self.b.bin(op, Width::W64, a, b)
    }

    /// Truncating division from the unsigned one: kernels before 6.6 have no signed division.
    /// `sign` is 0 or -1; `(x ^ sign) - sign` negates when it is -1.
    fn signed_division(&mut self, op: BinOp, a: Operand, b: Operand) -> VReg {
        let sign_of = |cx: &mut Self, x: Operand| cx.b.bin(BinOp::Sar, Width::W64, x, 63);
        let negate_if = |cx: &mut Self, x: Operand, sign: VReg| {
            let flipped = cx.b.bin(BinOp::Xor, Width::W64, x, sign);
            cx.b.bin(BinOp::Sub, Width::W64, flipped, sign)
        };
        let left_sign = sign_of(self, a);
        let left = negate_if(self, a, left_sign);
        let right_sign = sign_of(self, b);
        let right = negate_if(self, b, right_sign);
        let result = self.b.bin(op, Width::W64, left, right);
        // The remainder has the dividend's sign.
        let sign = match op {
            BinOp::Div => self.b.bin(BinOp::Xor, Width::W64, left_sign, right_sign),
            _ => left_sign,
        };
        negate_if(self, result.into(), sign)
    }

    fn ternary(&mut self, cond: &Expr, a: &Expr, b: &Expr, ty: &Type) -> Value {
        let wanted = self.wanted.take();
        let scalar = (ty.is_scalar() || *ty == Type::Unknown).then(|| self.b.new_vreg());
        let memory = (scalar.is_none() && *ty != Type::None)
            .then(|| wanted.map_or_else(|| self.room_for(ty, "either"), |wanted| wanted.addr));
        let (yes, no, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.branch_on(cond, yes, no);
        for (block, side) in [(yes, a), (no, b)] {
            self.b.switch_to(block);
            self.conditionally(|cx| match (scalar, memory) {
                (Some(result), _) => {
                    let value = cx.scalar(side);
                    cx.b.assign(result, value);
                }
                (None, Some(addr)) => cx.store_as(side, ty, addr),
                (None, None) => {
                    cx.expr(side);
                }
            });
            self.b.jump(done);
        }
        self.b.switch_to(done);
        match (scalar, memory) {
            (Some(result), _) => Value::Scalar(result.into()),
            (None, Some(addr)) => Value::Memory(addr),
            (None, None) => Value::None,
        }
    }

    fn step_var(&mut self, var: VarIndex, by: i64, prefix: bool) -> Value {
        let Value::Scalar(Operand::Reg(old)) = self.read_var(var) else { return Value::None };
        let sum = self.b.bin(BinOp::Add, Width::W64, old, by);
        let ty = self.probe.vars[var.0].ty.clone();
        let new = match self.extended(sum, &ty) {
            Value::Scalar(new) => new,
            _ => sum.into(),
        };
        let new = match new {
            // Not the variable's register itself: that may change before the value is used.
            Operand::Reg(reg) => self.b.copy(reg).into(),
            imm @ Operand::Imm(_) => imm,
        };
        self.write_var(var, new);
        Value::Scalar(if prefix { new } else { old.into() })
    }

    /// A full register cut to a type and extended by its sign.
    pub fn extended(&mut self, value: VReg, ty: &Type) -> Value {
        let int = ty.as_int().unwrap_or(Int::U64);
        let cut = match Size::from_bytes(u32::from(int.size_bytes)) {
            Some(Size::B8) | None => value,
            Some(size) => self.b.extend(value, size, int.signed),
        };
        Value::Scalar(cut.into())
    }

    fn convert(&mut self, inner: &Expr, ty: &Type) -> Value {
        if !ty.is_scalar() {
            return self.convert_memory(inner, ty);
        }
        let value = self.scalar(inner);
        if *ty == Type::Bool {
            return Value::Scalar(self.b.set(CmpOp::Ne, Width::W64, value, 0).into());
        }
        let (Some(from), Some(to)) = (inner.ty.as_int(), ty.as_int()) else { return Value::Scalar(value) };
        let grows = to.size_bytes > from.size_bytes && (to.signed || !from.signed);
        let fits = to.size_bytes == 8 || to == from || grows;
        match (fits, value) {
            (true, value) => Value::Scalar(value),
            (false, Operand::Reg(reg)) => self.extended(reg, ty),
            (false, Operand::Imm(n)) => Value::Scalar(Operand::Imm(crate::check::truncate(n, to))),
        }
    }

    fn context_field(&mut self, offset: u32, ty: &Type) -> Value {
        let context = self.b.context();
        let Some(int) = ty.as_int() else {
            let from = self.b.bin(BinOp::Add, Width::W64, context, i64::from(offset));
            return self.read_memory(from, ty, crate::types::Space::Kernel);
        };
        let size = Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8);
        let value = self.b.load(Addr::reg(context, offset as i32), size);
        if int.signed { self.extended(value, ty) } else { Value::Scalar(value.into()) }
    }
}
