//! Machine code before registers are chosen.
//!
//! In: nothing; this is the data that `select` fills, `allocate` rewrites and `layout` encodes.
//! Guarantees: each [`Op`] names every register that it reads or writes, implicit ones (call arguments, `r0`) included;
//! control flow exists only at the end of a [`Block`].

use super::bpf::RegNumber;
use crate::ir::{BinOp, CmpOp, FunctionId, Helper, Likely, MapId, Section, Size, Width};
use crate::source::Span;

/// A register: a machine register (0 to 10) or, from [`Reg::FIRST_VIRTUAL`], a virtual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// One operation: one instruction of the target, or a fixed pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `dst = src`.
    Mov { dst: Reg, src: Reg },
    /// `dst` = the low 32 bits of `src`.
    Mov32 { dst: Reg, src: Reg },
    /// `dst` = a constant: one or two instructions, whichever it takes.
    Const { dst: Reg, value: u64 },
    /// `dst` = a map.
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
    /// `dst` = its low bytes reversed.
    Swap { dst: Reg, size: Size },
    /// `dst = *(size *)(base + offset)`.
    Load { dst: Reg, base: Reg, offset: i16, size: Size },
    /// `*(size *)(base + offset) = src`.
    Store { base: Reg, offset: i16, src: Reg, size: Size },
    /// `*(size *)(base + offset) = imm`.
    StoreImm { base: Reg, offset: i16, imm: i32, size: Size },
    /// An atomic that returns nothing.
    Atomic { operation: i32, base: Reg, offset: i16, src: Reg, size: Size },
    /// An atomic that returns the old value in `src`.
    AtomicFetch { operation: i32, base: Reg, offset: i16, src: Reg, size: Size },
    /// Compares `r0` with memory; `r0` receives the old value.
    CompareExchange { base: Reg, offset: i16, src: Reg },
    /// Reads `r1` to `r{arguments}`, writes `r0`, spoils `r1` to `r5`.
    Call { helper: Helper, arguments: u8 },
}

/// The right side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    Reg(Reg),
    Imm(i32),
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Jump(usize),
    Branch { op: CmpOp, width: Width, left: Reg, right: Right, then: usize, otherwise: usize, likely: Likely },
    Return(i32),
}

/// Straight-line code with one way out.
#[derive(Debug, Clone)]
pub struct Block {
    pub ops: Vec<(Op, Span)>,
    pub end: End,
    pub end_span: Span,
}

/// One program.
#[derive(Debug, Clone)]
pub struct Function {
    /// Execution starts at block 0.
    pub blocks: Vec<Block>,
    /// One past the highest register number.
    pub regs: u32,
    /// Bytes of the frame in use, a multiple of 8.
    pub frame_bytes: u32,
    /// Short-lived registers that stay in a machine register, neither spilled nor merged with others.
    pub kept: Vec<Reg>,
}

impl Reg {
    /// The lowest number of a virtual register.
    pub const FIRST_VIRTUAL: u32 = 11;
    /// The frame pointer, which no one allocates.
    pub const FRAME: Reg = Reg(10);

    /// A machine register.
    pub const fn machine(number: RegNumber) -> Reg {
        Reg(number as u32)
    }

    /// Whether it is a machine register.
    pub fn is_machine(self) -> bool {
        self.0 < Reg::FIRST_VIRTUAL
    }
}

impl Function {
    /// A new virtual register.
    pub fn fresh(&mut self) -> Reg {
        self.regs += 1;
        Reg(self.regs - 1)
    }
}

impl End {
    /// The blocks that may run next.
    pub fn successors(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, second) = match *self {
            End::Jump(to) => (Some(to), None),
            End::Branch { then, otherwise, .. } => (Some(then), Some(otherwise)),
            End::Return(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Calls `visit` for every register that it reads.
    pub fn each_use(&self, mut visit: impl FnMut(Reg)) {
        if let End::Branch { left, right, .. } = *self {
            visit(left);
            if let Right::Reg(right) = right {
                visit(right);
            }
        }
    }

    /// Replaces every register that it reads.
    pub fn replace_uses(&mut self, mut with: impl FnMut(Reg) -> Reg) {
        if let End::Branch { left, right, .. } = self {
            *left = with(*left);
            if let Right::Reg(right) = right {
                *right = with(*right);
            }
        }
    }
}

/// What an operation does with the register that it is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Read,
    Write,
    ReadWrite,
}

impl Op {
    /// Calls `visit` for every explicit register operand, with what happens to it; the frame pointer included.
    fn each_operand(&mut self, mut visit: impl FnMut(&mut Reg, Role)) {
        match self {
            Op::Mov { dst, src } | Op::Mov32 { dst, src } | Op::Load { dst, base: src, .. } => {
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
            Op::Call { .. } => {}
        }
    }

    /// Calls `visit` for every register that it reads, implicit ones included.
    pub fn each_use(mut self, mut visit: impl FnMut(Reg)) {
        self.each_operand(|reg, role| {
            if role != Role::Write {
                visit(*reg);
            }
        });
        match self {
            Op::Call { arguments, .. } => {
                (1..=arguments).for_each(|number| visit(Reg::machine(number)));
            }
            Op::CompareExchange { .. } => visit(Reg::machine(0)),
            _ => {}
        }
    }

    /// Calls `visit` for every register that it writes or spoils, implicit ones included.
    pub fn each_def(mut self, mut visit: impl FnMut(Reg)) {
        self.each_operand(|reg, role| {
            if role != Role::Read {
                visit(*reg);
            }
        });
        match self {
            Op::Call { .. } => (0..=5).for_each(|number| visit(Reg::machine(number))),
            Op::CompareExchange { .. } => visit(Reg::machine(0)),
            _ => {}
        }
    }

    /// Replaces every explicit register.
    pub fn replace(&mut self, mut with: impl FnMut(Reg, Role) -> Reg) {
        self.each_operand(|reg, role| *reg = with(*reg, role));
    }

    /// The register that it computes, when that is all it does: such an operation goes when nobody reads the result.
    pub fn pure_result(self) -> Option<Reg> {
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
            | Op::Load { dst, .. } => Some(dst),
            _ => None,
        }
    }

    /// The register that it sets from nothing: such a value is computed again rather than kept in memory.
    pub fn constant_result(self) -> Option<Reg> {
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
