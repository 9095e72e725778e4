//! The instructions of the intermediate representation, and what ends a block.
//!
//! In: operands, addresses, helpers. Out: data that passes match on. Guarantee: an instruction assigns one register at most,
//! and says all that it reads and writes.

use super::{BlockId, FunctionId, Helper, MapId, SlotId, VReg};

/// A register or a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(VReg),
    /// A constant; sign-extended 64 bits.
    Imm(i64),
}

/// Width of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// Low 32 bits of both sides; the result is zero-extended.
    W32,
    /// All 64 bits.
    W64,
}

/// Size of a memory access or of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "bytes of the name")]
pub enum Size {
    B1 = 1,
    B2 = 2,
    B4 = 4,
    B8 = 8,
}

/// Arithmetic. `Div` and `Mod` are unsigned: x/0 = 0, x%0 = x. Shift counts are masked to the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the operation of its name")]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Shl,
    /// Logical.
    Shr,
    /// Arithmetic.
    Sar,
}

/// Comparisons; `S` is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the comparison of its name")]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    SLt,
    SLe,
    SGt,
    SGe,
}

/// A data section of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// Read-only, filled at compile time.
    Rodata,
    /// Zero at start, shared by all CPUs, mapped into the profiler.
    Bss,
}

/// Where a memory access goes: a base and a constant byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addr {
    /// The base.
    pub base: Base,
    /// Bytes added to it.
    pub offset: i32,
}

/// The base of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base {
    /// A register that holds an address the verifier knows.
    Reg(VReg),
    /// The start of a stack object.
    Slot(SlotId),
}

/// An argument of a helper call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arg {
    /// A register or a constant.
    Value(Operand),
    /// The address of a stack object plus an offset.
    Slot(SlotId, i32),
    /// A map.
    Map(MapId),
    /// The program's context.
    Context,
    /// The address of a subprogram.
    Function(FunctionId),
}

/// The instructions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Inst {
    /// `dst = src`.
    Copy {
        /// Result.
        dst: VReg,
        /// What.
        src: Operand,
    },
    /// `dst = a op b`.
    Bin {
        /// The operation.
        op: BinOp,
        /// Its width.
        width: Width,
        /// Result.
        dst: VReg,
        /// Left.
        a: Operand,
        /// Right.
        b: Operand,
    },
    /// `dst = a op b ? 1 : 0`.
    Set {
        /// The comparison.
        op: CmpOp,
        /// Its width.
        width: Width,
        /// Result, 0 or 1.
        dst: VReg,
        /// Left.
        a: Operand,
        /// Right.
        b: Operand,
    },
    /// `dst` = the low `size` bytes of `src`, sign- or zero-extended to 64 bits.
    Extend {
        /// Result.
        dst: VReg,
        /// What.
        src: VReg,
        /// Bytes kept.
        size: Size,
        /// Whether the top bit is spread.
        signed: bool,
    },
    /// `dst` = `src`, but at most `most`; both unsigned.
    ///
    /// Verifier: what is added to an address and what a helper takes as a size needs a bound. Before 6.8 the verifier forgets
    /// what a comparison told of a register that was loaded from the stack for it, so that a branch is no bound where registers
    /// are spilled; the result of this is bounded wherever it is kept.
    Clamp {
        /// Result.
        dst: VReg,
        /// What.
        src: VReg,
        /// The bound; fits in 31 bits.
        most: u32,
    },
    /// `dst` = the low `size` bytes of `src` in reversed order, zero-extended (`bswap`).
    Swap {
        /// Result.
        dst: VReg,
        /// What.
        src: VReg,
        /// Bytes reversed: 2, 4 or 8.
        size: Size,
    },
    /// `dst = *(size *)addr`, zero-extended.
    Load {
        /// Result.
        dst: VReg,
        /// From where.
        addr: Addr,
        /// How many bytes.
        size: Size,
    },
    /// `*(size *)addr = src`.
    Store {
        /// To where.
        addr: Addr,
        /// What.
        src: Operand,
        /// How many bytes.
        size: Size,
    },
    /// Sets `size_bytes` bytes at `addr` to zero.
    Zero {
        /// Where; aligned to 8 when the size is at least 8.
        addr: Addr,
        /// How many.
        size_bytes: u32,
    },
    /// Copies `size_bytes` bytes; the ranges do not overlap.
    Move {
        /// Where to.
        to: Addr,
        /// Where from.
        from: Addr,
        /// How many.
        size_bytes: u32,
        /// Alignment that both addresses have: 1, 2, 4 or 8.
        align_bytes: u32,
    },
    /// `*(size *)addr += src`, atomically; with `fetch`, the old value goes there. Size is `B4` or `B8`.
    /// Since 5.12 for every `fetch` and every operation but `Add`.
    Atomic {
        /// `Add`, `And`, `Or`, `Xor`.
        op: BinOp,
        /// Where.
        addr: Addr,
        /// What.
        src: VReg,
        /// Receives the old value.
        fetch: Option<VReg>,
        /// `B4` or `B8`.
        size: Size,
    },
    /// `dst` = the old value; `*addr = src`, atomically (8 bytes). Since 5.12.
    Exchange {
        /// Receives the old value.
        dst: VReg,
        /// Where.
        addr: Addr,
        /// What.
        src: VReg,
    },
    /// `dst` = the old value; `*addr = new` if it was `expected`, atomically (8 bytes). Since 5.12.
    CompareExchange {
        /// Receives the old value.
        dst: VReg,
        /// Where.
        addr: Addr,
        /// What it must be.
        expected: VReg,
        /// What it becomes.
        new: VReg,
    },
    /// `dst` = the context's address.
    Context {
        /// Result.
        dst: VReg,
    },
    /// `dst` = what the caller of a subprogram gave it.
    Parameter {
        /// Result.
        dst: VReg,
        /// Which: from 0.
        index: u8,
    },
    /// `dst` = the address of a stack object plus an offset.
    SlotAddr {
        /// Result.
        dst: VReg,
        /// The object.
        slot: SlotId,
        /// Bytes into it.
        offset: i32,
    },
    /// `dst` = the address of a byte of a data section.
    DataAddr {
        /// Result.
        dst: VReg,
        /// The section.
        section: Section,
        /// Bytes into it.
        offset: u32,
    },
    /// `dst = helper(args…)`. At most five arguments.
    Call {
        /// The result, when wanted.
        dst: Option<VReg>,
        /// The helper.
        helper: Helper,
        /// Its arguments.
        args: Vec<Arg>,
    },
}

/// How a block ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminator {
    /// Goes on at a block.
    Jump(BlockId),
    /// Goes on at `then` when `a op b`, else at `otherwise`.
    Branch {
        /// The comparison.
        op: CmpOp,
        /// Its width.
        width: Width,
        /// Left.
        a: Operand,
        /// Right.
        b: Operand,
        /// Where to when it holds.
        then: BlockId,
        /// Where to when it does not.
        otherwise: BlockId,
        /// Which side is expected to run, for the layout.
        likely: Likely,
    },
    /// Ends the program with 0 or another constant.
    Return(i32),
}

/// Which side of a branch is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Likely {
    /// `then`.
    Then,
    /// `otherwise`.
    Otherwise,
    /// Not known.
    #[default]
    Unknown,
}

impl CmpOp {
    /// The comparison that holds exactly when this one does not.
    #[must_use]
    pub fn negated(self) -> CmpOp {
        match self {
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::Lt => CmpOp::Ge,
            CmpOp::Le => CmpOp::Gt,
            CmpOp::Gt => CmpOp::Le,
            CmpOp::Ge => CmpOp::Lt,
            CmpOp::SLt => CmpOp::SGe,
            CmpOp::SLe => CmpOp::SGt,
            CmpOp::SGt => CmpOp::SLe,
            CmpOp::SGe => CmpOp::SLt,
        }
    }
}

impl Size {
    /// Bytes.
    pub fn bytes(self) -> u32 {
        self as u32
    }

    /// The size of that many bytes, when there is one.
    pub fn from_bytes(bytes: u32) -> Option<Size> {
        match bytes {
            1 => Some(Size::B1),
            2 => Some(Size::B2),
            4 => Some(Size::B4),
            8 => Some(Size::B8),
            _ => None,
        }
    }
}

impl From<VReg> for Operand {
    fn from(reg: VReg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Operand {
        Operand::Imm(value)
    }
}

impl Addr {
    /// `offset` bytes past the address in a register.
    pub fn reg(reg: VReg, offset: i32) -> Addr {
        Addr { base: Base::Reg(reg), offset }
    }

    /// `offset` bytes into a stack object.
    pub fn slot(slot: SlotId, offset: i32) -> Addr {
        Addr { base: Base::Slot(slot), offset }
    }

    /// The address some bytes further on.
    #[must_use]
    pub fn plus(self, bytes: i32) -> Addr {
        Addr { base: self.base, offset: self.offset + bytes }
    }
}
