//! Machine code over virtual registers.
//!
//! In: nothing; `select` creates this data, `allocate` rewrites it and `layout` encodes it.
//! Guarantees: each [`Op`] names every register that it reads or writes, including implicit ones
//! (call arguments, `r0`); control flow exists only at the end of a [`Block`].

use super::bpf::RegNumber;
use crate::ir::{BinOp, CmpOp, FunctionId, Helper, Likely, MapId, Section, Size, Width};
use crate::source::Span;

/// A register: a machine register (0 to 10) or, from [`Reg::FIRST_VIRTUAL`] on, a virtual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reg(pub u32);

/// One operation: one BPF instruction, or a fixed pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// `dst = src`.
    Mov { dst: Reg, src: Reg },
    /// `dst` = the low 32 bits of `src`.
    Mov32 { dst: Reg, src: Reg },
    /// `dst` = a constant, in one instruction or an `ld_imm64`.
    Const { dst: Reg, value: u64 },
    /// `dst` = the address of a map.
    MapAddr { dst: Reg, map: MapId },
    /// `dst` = the address of a subprogram.
    FunctionAddr { dst: Reg, function: FunctionId },
    /// `dst` = the address of a byte of a data section.
    DataAddr { dst: Reg, section: Section, offset: u32 },
    /// `dst` = the frame pointer plus an offset.
    FrameAddr { dst: Reg, offset: i16 },
    /// `dst op= src`.
    Alu { op: BinOp, width: Width, dst: Reg, src: Reg },
    /// `dst op= imm`.
    AluImm { op: BinOp, width: Width, dst: Reg, imm: i32 },
    /// `dst` = its low `size` bytes reversed.
    Swap { dst: Reg, size: Size },
    /// `dst = *(size *)(base + offset)`.
    Load { dst: Reg, base: Reg, offset: i16, size: Size },
    /// Like `Load`, but from kernel memory that may be unmapped: then 0.
    Peek { dst: Reg, base: Reg, offset: i16, size: Size },
    /// `*(size *)(base + offset) = src`.
    Store { base: Reg, offset: i16, src: Reg, size: Size },
    /// `*(size *)(base + offset) = imm`.
    StoreImm { base: Reg, offset: i16, imm: i32, size: Size },
    /// An atomic that does not return the old value.
    Atomic { operation: i32, base: Reg, offset: i16, src: Reg, size: Size },
    /// An atomic that returns the old value in `src`.
    AtomicFetch { operation: i32, base: Reg, offset: i16, src: Reg, size: Size },
    /// Compares `r0` with memory and stores `src` if they are equal; `r0` receives the old value.
    CompareExchange { base: Reg, offset: i16, src: Reg },
    /// Reads `r1` to `r{arguments}`, writes `r0`, clobbers `r1` to `r5`.
    Call { helper: Helper, arguments: u8 },
    /// The same for a call of a subprogram.
    CallFunction { function: FunctionId, arguments: u8 },
}

/// The right side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    Reg(Reg),
    Imm(i32),
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Jump(usize),
    Branch { op: CmpOp, width: Width, left: Reg, right: Right, then: usize, otherwise: usize, likely: Likely },
    Return(i32),
}

/// Straight-line code that ends in one terminator.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub ops: Vec<(Op, Span)>,
    pub end: End,
    pub end_span: Span,
}

/// One BPF program or subprogram.
#[derive(Debug, Clone)]
pub(super) struct Function {
    /// Execution starts at block 0.
    pub blocks: Vec<Block>,
    /// One past the highest register number.
    pub regs: u32,
    /// Used bytes of the frame, a multiple of 8.
    pub frame_bytes: u32,
    /// Short-lived registers that must stay in a machine register: neither spilled nor coalesced.
    pub kept: Vec<Reg>,
}

impl Reg {
    /// The lowest number of a virtual register.
    pub(super) const FIRST_VIRTUAL: u32 = 11;
    /// The frame pointer, which is never allocated.
    pub(super) const FRAME: Reg = Reg(10);

    /// A machine register.
    pub(super) const fn machine(number: RegNumber) -> Reg {
        Reg(number as u32)
    }

    /// Whether it is a machine register.
    pub(super) fn is_machine(self) -> bool {
        self.0 < Reg::FIRST_VIRTUAL
    }
}

impl Function {
    /// A new virtual register.
    pub(super) fn fresh(&mut self) -> Reg {
        self.regs += 1;
        Reg(self.regs - 1)
    }
}

impl End {
    /// The possible successor blocks.
    pub(super) fn successors(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, second) = match *self {
            End::Jump(to) => (Some(to), None),
            End::Branch { then, otherwise, .. } => (Some(then), Some(otherwise)),
            End::Return(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Calls `visit` for every register that the terminator reads.
    pub(super) fn each_use(&self, mut visit: impl FnMut(Reg)) {
        if let End::Branch { left, right, .. } = *self {
            visit(left);
            if let Right::Reg(right) = right {
                visit(right);
            }
        }
    }

    /// Replaces every register that the terminator reads.
    pub(super) fn replace_uses(&mut self, mut with: impl FnMut(Reg) -> Reg) {
        if let End::Branch { left, right, .. } = self {
            *left = with(*left);
            if let Right::Reg(right) = right {
                *right = with(*right);
            }
        }
    }
}

/// How an operation uses a register operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Read,
    Write,
    ReadWrite,
}

impl Op {
    /// Calls `visit` for every explicit register operand, including the frame pointer, with its
    /// role.
    fn each_operand(&mut self, mut visit: impl FnMut(&mut Reg, Role)) {
        match self {
            Op::Mov { dst, src }
            | Op::Mov32 { dst, src }
            | Op::Load { dst, base: src, .. }
            | Op::Peek { dst, base: src, .. } => {
                visit(src, Role::Read);
                visit(dst, Role::Write);
            }
            Op::Const { dst, .. }
            | Op::MapAddr { dst, .. }
            | Op::FunctionAddr { dst, .. }
            | Op::DataAddr { dst, .. }
            | Op::FrameAddr { dst, .. } => visit(dst, Role::Write),
            Op::Alu { dst, src, .. } => {
                visit(src, Role::Read);
                visit(dst, Role::ReadWrite);
            }
            Op::AluImm { dst, .. } | Op::Swap { dst, .. } => visit(dst, Role::ReadWrite),
            Op::Store { base, src, .. } | Op::Atomic { base, src, .. } | Op::CompareExchange { base, src, .. } => {
                visit(base, Role::Read);
                visit(src, Role::Read);
            }
            Op::StoreImm { base, .. } => visit(base, Role::Read),
            Op::AtomicFetch { base, src, .. } => {
                visit(base, Role::Read);
                visit(src, Role::ReadWrite);
            }
            Op::Call { .. } | Op::CallFunction { .. } => {}
        }
    }

    /// Calls `visit` for every register that the operation reads, including implicit ones.
    pub(super) fn each_use(mut self, mut visit: impl FnMut(Reg)) {
        self.each_operand(|reg, role| {
            if role != Role::Write {
                visit(*reg);
            }
        });
        match self {
            Op::Call { arguments, .. } | Op::CallFunction { arguments, .. } => {
                (1..=arguments).for_each(|number| visit(Reg::machine(number)));
            }
            Op::CompareExchange { .. } => visit(Reg::machine(0)),
            _ => {}
        }
    }

    /// Calls `visit` for every register that the operation writes or clobbers, including implicit
    /// ones.
    pub(super) fn each_def(mut self, mut visit: impl FnMut(Reg)) {
        self.each_operand(|reg, role| {
            if role != Role::Read {
                visit(*reg);
            }
        });
        match self {
            Op::Call { .. } | Op::CallFunction { .. } => (0..=5).for_each(|number| visit(Reg::machine(number))),
            Op::CompareExchange { .. } => visit(Reg::machine(0)),
            _ => {}
        }
    }

    /// Replaces every explicit register operand.
    pub(super) fn replace(&mut self, mut with: impl FnMut(Reg, Role) -> Reg) {
        self.each_operand(|reg, role| *reg = with(*reg, role));
    }

    /// The result register of an operation without other effects; such an operation is dead when
    /// its result is unused.
    pub(super) fn pure_result(self) -> Option<Reg> {
        match self {
            Op::Mov { dst, .. }
            | Op::Mov32 { dst, .. }
            | Op::Const { dst, .. }
            | Op::MapAddr { dst, .. }
            | Op::FunctionAddr { dst, .. }
            | Op::DataAddr { dst, .. }
            | Op::FrameAddr { dst, .. }
            | Op::Alu { dst, .. }
            | Op::AluImm { dst, .. }
            | Op::Swap { dst, .. }
            | Op::Load { dst, .. }
            | Op::Peek { dst, .. } => Some(dst),
            _ => None,
        }
    }

    /// The result register of an operation without inputs; such a value is rematerialised instead
    /// of spilled.
    pub(super) fn constant_result(self) -> Option<Reg> {
        match self {
            Op::Const { dst, .. }
            | Op::MapAddr { dst, .. }
            | Op::FunctionAddr { dst, .. }
            | Op::DataAddr { dst, .. }
            | Op::FrameAddr { dst, .. } => Some(dst),
            _ => None,
        }
    }
}
