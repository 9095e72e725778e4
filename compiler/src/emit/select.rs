//! Instruction selection.
//!
//! In: one IR function and its frame layout. Out: a [`machine::Function`](Function) over virtual
//! registers.
//! Guarantees: every immediate fits its field, every shift count its width, and there is no
//! division by a constant zero (the verifier rejects violations of all three). Stack accesses are
//! aligned.

use super::bpf;
use super::frame::Frame;
use super::machine::{Block, End, Function, Op, Reg, Right};
use super::select_memory;
use crate::ir::{self, Addr, Arg, Base, BinOp, CmpOp, Inst, Likely, Operand, Size, VReg, Width, arithmetic};
use crate::source::Span;

/// Translates `function`.
pub(super) fn select(function: &ir::Function, frame: &Frame) -> Function {
    let first_fresh = Reg::FIRST_VIRTUAL + function.vregs;
    // The number of argument registers at entry: the context, or the arguments of a subprogram.
    let given = function.role.parameters().max(1);
    let mut selector = Selector {
        frame,
        out: Function {
            blocks: Vec::new(),
            regs: first_fresh + u32::from(given),
            frame_bytes: frame.size_bytes,
            kept: Vec::new(),
        },
        given: Reg(first_fresh),
        current: 0,
        span: function.span,
    };
    // The prologue is a separate block, because the IR may jump back to its first block.
    selector.out.blocks = vec![selector.empty_block(); function.blocks.len() + 1];
    for index in 0..given {
        let dst = selector.given(index);
        selector.push(Op::Mov { dst, src: Reg::machine(index + 1) });
    }
    selector.finish(End::Jump(1), function.span);
    for (index, block) in function.blocks.iter().enumerate() {
        selector.current = index + 1;
        for (inst, span) in &block.insts {
            selector.span = *span;
            selector.inst(inst);
        }
        selector.span = block.end_span;
        selector.terminator(&block.end, block.end_span);
    }
    selector.out
}

/// The state of the selection for one function.
pub(super) struct Selector<'a> {
    frame: &'a Frame,
    out: Function,
    /// The first of the virtual registers that hold the function's arguments.
    given: Reg,
    current: usize,
    span: Span,
}

/// A comparison that was decided at compile time, or its operands in encodable form.
enum Compared {
    Known(bool),
    Test { op: CmpOp, left: Reg, right: Right },
}

impl Selector<'_> {
    /// The virtual register of the function's argument `index`; in a program, argument 0 is the
    /// context.
    fn given(&self, index: u8) -> Reg {
        Reg(self.given.0 + u32::from(index))
    }

    fn empty_block(&self) -> Block {
        Block { ops: Vec::new(), end: End::Return(0), end_span: self.span }
    }

    /// Appends an operation to the current block.
    pub(super) fn push(&mut self, op: Op) {
        let span = self.span;
        self.out.blocks[self.current].ops.push((op, span));
    }

    /// A new virtual register.
    pub(super) fn fresh(&mut self) -> Reg {
        self.out.fresh()
    }

    fn finish(&mut self, end: End, span: Span) {
        let block = &mut self.out.blocks[self.current];
        block.end = end;
        block.end_span = span;
    }

    /// The base register and the offset of an address; the offset fits the 16-bit field.
    pub(super) fn address(&mut self, addr: Addr) -> (Reg, i16) {
        match addr.base {
            Base::Slot(slot) => (Reg::FRAME, (self.frame.offset(slot) + addr.offset) as i16),
            Base::Reg(base) => {
                if let Ok(offset) = i16::try_from(addr.offset) {
                    return (virtual_reg(base), offset);
                }
                let dst = self.fresh();
                self.push(Op::Mov { dst, src: virtual_reg(base) });
                self.push(Op::AluImm { op: BinOp::Add, width: Width::W64, dst, imm: addr.offset });
                (dst, 0)
            }
        }
    }

    /// Sets `dst` to the address itself.
    pub(super) fn address_of(&mut self, dst: Reg, addr: Addr) {
        match addr.base {
            Base::Slot(slot) => {
                let offset = (self.frame.offset(slot) + addr.offset) as i16;
                self.push(Op::FrameAddr { dst, offset });
            }
            Base::Reg(base) => {
                self.push(Op::Mov { dst, src: virtual_reg(base) });
                if addr.offset != 0 {
                    self.push(Op::AluImm { op: BinOp::Add, width: Width::W64, dst, imm: addr.offset });
                }
            }
        }
    }

    fn inst(&mut self, inst: &Inst) {
        match inst {
            Inst::Copy { dst, src } => self.set(virtual_reg(*dst), *src, Width::W64),
            Inst::Bin { op, width, dst, a, b } => self.bin(*op, *width, virtual_reg(*dst), *a, *b),
            Inst::Set { op, width, dst, a, b } => self.set_flag(*op, *width, virtual_reg(*dst), *a, *b),
            Inst::Extend { dst, src, size, signed } => {
                self.extend(virtual_reg(*dst), virtual_reg(*src), *size, *signed);
            }
            Inst::Swap { dst, src, size } => {
                let dst = virtual_reg(*dst);
                self.push(Op::Mov { dst, src: virtual_reg(*src) });
                self.push(Op::Swap { dst, size: *size });
            }
            Inst::Clamp { dst, src, most } => self.clamp(virtual_reg(*dst), virtual_reg(*src), *most as i32),
            Inst::Load { .. }
            | Inst::Peek { .. }
            | Inst::Store { .. }
            | Inst::Zero { .. }
            | Inst::Move { .. }
            | Inst::Atomic { .. }
            | Inst::Exchange { .. }
            | Inst::CompareExchange { .. } => select_memory::inst(self, inst),
            Inst::Context { dst } => self.push(Op::Mov { dst: virtual_reg(*dst), src: self.given(0) }),
            Inst::Parameter { dst, index } => {
                self.push(Op::Mov { dst: virtual_reg(*dst), src: self.given(*index) });
            }
            Inst::SlotAddr { dst, slot, offset } => {
                self.address_of(virtual_reg(*dst), Addr::slot(*slot, *offset));
            }
            Inst::DataAddr { dst, section, offset } => {
                self.push(Op::DataAddr { dst: virtual_reg(*dst), section: *section, offset: *offset });
            }
            Inst::Call { dst, helper, args } => self.call(*dst, *helper, args),
        }
    }

    /// `dst = src`; with `W32`, only the low half of a constant is significant.
    fn set(&mut self, dst: Reg, src: Operand, width: Width) {
        match (src, width) {
            (Operand::Reg(src), _) if virtual_reg(src) == dst => {}
            (Operand::Reg(src), _) => self.push(Op::Mov { dst, src: virtual_reg(src) }),
            (Operand::Imm(value), Width::W64) => self.push(Op::Const { dst, value: value as u64 }),
            (Operand::Imm(value), Width::W32) => self.push(Op::Const { dst, value: u64::from(value as u32) }),
        }
    }

    fn bin(&mut self, op: BinOp, width: Width, dst: Reg, a: Operand, b: Operand) {
        let (a, b) = match (a, b) {
            (Operand::Imm(_), Operand::Reg(_)) if commutes(op) => (b, a),
            _ => (a, b),
        };
        match b {
            Operand::Imm(value) => self.bin_imm(op, width, dst, a, value),
            Operand::Reg(b) if virtual_reg(b) != dst || a == Operand::Reg(b) => {
                self.set(dst, a, width);
                self.push(Op::Alu { op, width, dst, src: virtual_reg(b) });
            }
            Operand::Reg(b) => match a {
                Operand::Reg(a) if commutes(op) => self.push(Op::Alu { op, width, dst, src: virtual_reg(a) }),
                _ => {
                    let result = self.fresh();
                    self.set(result, a, width);
                    self.push(Op::Alu { op, width, dst: result, src: virtual_reg(b) });
                    self.push(Op::Mov { dst, src: result });
                }
            },
        }
    }

    fn bin_imm(&mut self, op: BinOp, width: Width, dst: Reg, a: Operand, b: i64) {
        let is_zero = b == 0 || (width == Width::W32 && b as u32 == 0);
        match op {
            BinOp::Div if is_zero => return self.push(Op::Const { dst, value: 0 }),
            BinOp::Mod if is_zero => return self.low_half(width, dst, a),
            _ => {}
        }
        let imm = match (op, width) {
            (BinOp::Shl | BinOp::Shr | BinOp::Sar, Width::W32) => Some((b & 31) as i32),
            (BinOp::Shl | BinOp::Shr | BinOp::Sar, Width::W64) => Some((b & 63) as i32),
            (_, Width::W32) => Some(b as i32),
            (_, Width::W64) => i32::try_from(b).ok(),
        };
        if let Some(imm) = imm {
            self.set(dst, a, width);
            return self.push(Op::AluImm { op, width, dst, imm });
        }
        let right = self.fresh();
        self.push(Op::Const { dst: right, value: b as u64 });
        self.set(dst, a, width);
        self.push(Op::Alu { op, width, dst, src: right });
    }

    /// `dst = a`; with `W32`, its low half zero-extended.
    fn low_half(&mut self, width: Width, dst: Reg, a: Operand) {
        match (a, width) {
            (Operand::Reg(src), Width::W32) => self.push(Op::Mov32 { dst, src: virtual_reg(src) }),
            _ => self.set(dst, a, width),
        }
    }

    fn extend(&mut self, dst: Reg, src: Reg, size: Size, signed: bool) {
        let unused_bits = 64 - 8 * size.bytes() as i32;
        match (size, signed) {
            (Size::B8, _) => self.push(Op::Mov { dst, src }),
            (Size::B4, false) => self.push(Op::Mov32 { dst, src }),
            (_, false) => {
                let imm = (1 << (8 * size.bytes())) - 1;
                self.push(Op::Mov { dst, src });
                self.push(Op::AluImm { op: BinOp::And, width: Width::W64, dst, imm });
            }
            (_, true) => {
                self.push(Op::Mov { dst, src });
                self.push(Op::AluImm { op: BinOp::Shl, width: Width::W64, dst, imm: unused_bits });
                self.push(Op::AluImm { op: BinOp::Sar, width: Width::W64, dst, imm: unused_bits });
            }
        }
    }

    /// `dst = min(src, most)`, compared in a short-lived register of its own, so that the compared
    /// register is the one that is copied to `dst`.
    fn clamp(&mut self, dst: Reg, src: Reg, most: i32) {
        let value = self.fresh();
        self.out.kept.push(value);
        self.push(Op::Mov { dst: value, src });
        let beyond = self.out.blocks.len();
        let join = beyond + 1;
        let (op, width, likely) = (CmpOp::Le, Width::W64, Likely::Then);
        let end =
            End::Branch { op, width, left: value, right: Right::Imm(most), then: join, otherwise: beyond, likely };
        self.finish(end, self.span);
        self.out.blocks.extend([self.empty_block(), self.empty_block()]);
        self.current = beyond;
        self.push(Op::Const { dst: value, value: most as u64 });
        self.finish(End::Jump(join), self.span);
        self.current = join;
        self.push(Op::Mov { dst, src: value });
    }

    /// BPF has no conditional set: the flag is set to 1, and a branch skips the instruction that
    /// sets it to 0.
    fn set_flag(&mut self, op: CmpOp, width: Width, dst: Reg, a: Operand, b: Operand) {
        let flag = self.fresh();
        match self.compare(op, width, a, b) {
            Compared::Known(known) => self.push(Op::Const { dst, value: u64::from(known) }),
            Compared::Test { op, left, right } => {
                self.push(Op::Const { dst: flag, value: 1 });
                let clear = self.out.blocks.len();
                let join = clear + 1;
                let end =
                    End::Branch { op, width, left, right, then: join, otherwise: clear, likely: Likely::Otherwise };
                self.finish(end, self.span);
                self.out.blocks.extend([self.empty_block(), self.empty_block()]);
                self.current = clear;
                self.push(Op::Const { dst: flag, value: 0 });
                self.finish(End::Jump(join), self.span);
                self.current = join;
                self.push(Op::Mov { dst, src: flag });
            }
        }
    }

    fn compare(&mut self, op: CmpOp, width: Width, a: Operand, b: Operand) -> Compared {
        let (op, left, right) = match (a, b) {
            (Operand::Imm(a), Operand::Imm(b)) => {
                return Compared::Known(arithmetic::compare(op, width, a as u64, b as u64));
            }
            (Operand::Imm(_), Operand::Reg(b)) => (mirrored(op), b, a),
            (Operand::Reg(a), _) => (op, a, b),
        };
        let left = virtual_reg(left);
        let right = match (right, width) {
            (Operand::Reg(right), _) => Right::Reg(virtual_reg(right)),
            (Operand::Imm(value), Width::W32) => Right::Imm(value as i32),
            (Operand::Imm(value), Width::W64) => {
                if let Ok(imm) = i32::try_from(value) {
                    Right::Imm(imm)
                } else {
                    let dst = self.fresh();
                    self.push(Op::Const { dst, value: value as u64 });
                    Right::Reg(dst)
                }
            }
        };
        Compared::Test { op, left, right }
    }

    fn call(&mut self, dst: Option<VReg>, helper: ir::Helper, args: &[Arg]) {
        if let (ir::Helper::Run | ir::Helper::RunApart, [Arg::Function(function), given @ ..]) = (helper, args) {
            self.arguments(given);
            self.push(Op::CallFunction { function: *function, arguments: given.len() as u8 });
            return self.keep_result(dst);
        }
        self.arguments(args);
        self.push(Op::Call { helper, arguments: args.len() as u8 });
        self.keep_result(dst);
    }

    fn arguments(&mut self, args: &[Arg]) {
        // Registers first: constants and addresses need no register while the register arguments
        // are moved.
        for registers in [true, false] {
            for (number, arg) in (1..).zip(args) {
                let is_register = matches!(arg, Arg::Value(Operand::Reg(_)) | Arg::Context);
                if is_register == registers {
                    self.argument(Reg::machine(number), *arg);
                }
            }
        }
    }

    fn keep_result(&mut self, dst: Option<VReg>) {
        if let Some(dst) = dst {
            self.push(Op::Mov { dst: virtual_reg(dst), src: Reg::machine(0) });
        }
    }

    fn argument(&mut self, dst: Reg, arg: Arg) {
        match arg {
            Arg::Value(value) => self.set(dst, value, Width::W64),
            Arg::Slot(slot, offset) => self.address_of(dst, Addr::slot(slot, offset)),
            Arg::Map(map) => self.push(Op::MapAddr { dst, map }),
            Arg::Function(function) => self.push(Op::FunctionAddr { dst, function }),
            Arg::Context => self.push(Op::Mov { dst, src: self.given(0) }),
        }
    }

    fn terminator(&mut self, end: &ir::Terminator, span: Span) {
        let end = match *end {
            ir::Terminator::Jump(to) => End::Jump(to.0 as usize + 1),
            ir::Terminator::Return(value) => End::Return(value),
            ir::Terminator::Branch { op, width, a, b, then, otherwise, likely } => {
                let (then, otherwise) = (then.0 as usize + 1, otherwise.0 as usize + 1);
                match self.compare(op, width, a, b) {
                    Compared::Known(true) => End::Jump(then),
                    Compared::Known(false) => End::Jump(otherwise),
                    Compared::Test { .. } if then == otherwise => End::Jump(then),
                    Compared::Test { op, left, right } => {
                        End::Branch { op, width, left, right, then, otherwise, likely }
                    }
                }
            }
        };
        self.finish(end, span);
    }

    /// The alignment of a slot's address, as known from the frame layout; `None` for other
    /// addresses.
    pub(super) fn known_alignment(&self, addr: Addr) -> Option<u32> {
        match addr.base {
            Base::Slot(slot) => {
                let offset = self.frame.offset(slot) + addr.offset;
                Some(1 << offset.trailing_zeros().min(3))
            }
            Base::Reg(_) => None,
        }
    }
}

/// The virtual register for an IR register.
pub(super) fn virtual_reg(reg: VReg) -> Reg {
    Reg(Reg::FIRST_VIRTUAL + reg.0)
}

/// The operation code of an atomic. The IR verifier accepts only operations that BPF has.
pub(super) fn atomic_operation(op: BinOp, fetch: bool) -> i32 {
    bpf::atomic_op(op, fetch).unwrap_or_else(|| unreachable!("the IR verifier admits no atomic {op:?}"))
}

fn commutes(op: BinOp) -> bool {
    matches!(op, BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor)
}

/// The equivalent comparison with its operands exchanged.
fn mirrored(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Eq | CmpOp::Ne => op,
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        CmpOp::SLt => CmpOp::SGt,
        CmpOp::SLe => CmpOp::SGe,
        CmpOp::SGt => CmpOp::SLt,
        CmpOp::SGe => CmpOp::SLe,
    }
}
