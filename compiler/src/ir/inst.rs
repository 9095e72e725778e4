//! The instructions and block terminators of the intermediate representation.
//!
//! In: operands, addresses, helpers. Out: data that passes match on. Guarantee: an instruction
//! assigns at most one register, and its fields name everything that it reads and writes.

use super::{BlockId, FunctionId, Helper, MapId, SlotId, VReg};

/// A register or a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(VReg),
    /// A constant, sign-extended to 64 bits.
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
pub enum Size {
    B1 = 1,
    B2 = 2,
    B4 = 4,
    B8 = 8,
}

/// Arithmetic. `Div` and `Mod` are unsigned: x/0 = 0, x%0 = x. Shift counts are masked to the
/// width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Logical (shifts in zeros).
    Shr,
    /// Arithmetic (shifts in the sign bit).
    Sar,
}

impl BinOp {
    /// All operations.
    pub const ALL: [BinOp; 11] = [
        BinOp::Add,
        BinOp::Sub,
        BinOp::Mul,
        BinOp::Div,
        BinOp::Mod,
        BinOp::And,
        BinOp::Or,
        BinOp::Xor,
        BinOp::Shl,
        BinOp::Shr,
        BinOp::Sar,
    ];
}

/// Comparisons; the prefix `S` means signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

impl CmpOp {
    /// All comparisons.
    pub const ALL: [CmpOp; 10] = [
        CmpOp::Eq,
        CmpOp::Ne,
        CmpOp::Lt,
        CmpOp::Le,
        CmpOp::Gt,
        CmpOp::Ge,
        CmpOp::SLt,
        CmpOp::SLe,
        CmpOp::SGt,
        CmpOp::SGe,
    ];
}

/// A data section of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// Read-only, filled at compile time.
    Rodata,
    /// Zero at start, shared by all CPUs, memory-mapped into the profiler.
    Bss,
}

/// The target of a memory access: a base and a constant byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addr {
    pub base: Base,
    /// Offset from the base, in bytes.
    pub offset: i32,
}

/// The base of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base {
    /// A register that holds an address known to the verifier.
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
        /// The value.
        src: Operand,
    },
    /// `dst = a op b`.
    Bin {
        /// The operation.
        op: BinOp,
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
        /// The value.
        src: VReg,
        /// Bytes kept.
        size: Size,
        /// Whether to sign-extend.
        signed: bool,
    },
    /// `dst` = the minimum of `src` and `most`, both unsigned.
    ///
    /// Verifier: a value that is added to an address, or that a helper takes as a size, needs a
    /// bound. Before 6.8 a comparison does not bound the stack copy of a spilled register, so a
    /// branch gives no bound where registers are spilled. The result of this instruction is bounded
    /// wherever it is kept.
    Clamp {
        /// Result.
        dst: VReg,
        /// The value.
        src: VReg,
        /// The upper bound; fits in 31 bits.
        most: u32,
    },
    /// `dst` = the low `size` bytes of `src` in reversed order, zero-extended (`bswap`).
    Swap {
        /// Result.
        dst: VReg,
        /// The value.
        src: VReg,
        /// Bytes reversed: 2, 4 or 8.
        size: Size,
    },
    /// `dst = *(size *)addr`, zero-extended.
    Load {
        /// Result.
        dst: VReg,
        /// The address.
        addr: Addr,
        /// Bytes to load.
        size: Size,
    },
    /// `dst = *(size *)(base + offset)`, zero-extended; 0 if the memory cannot be read. `base`
    /// points into kernel memory, and the verifier knows its type. To the verifier this is a load,
    /// which the kernel protects against faults.
    Peek {
        /// Result.
        dst: VReg,
        /// A pointer to which the verifier has given a type. Where the verifier distinguishes, it
        /// is known not to be null.
        base: VReg,
        /// Offset from `base` in bytes; one that [`crate::btf::Verifier::walk`] allows.
        offset: i16,
        /// Bytes to load.
        size: Size,
    },
    /// `*(size *)addr = src`.
    Store {
        /// The address.
        addr: Addr,
        /// The value.
        src: Operand,
        /// Bytes to store.
        size: Size,
    },
    /// Sets `size_bytes` bytes at `addr` to zero.
    Zero {
        /// The address; aligned to 8 when the size is at least 8.
        addr: Addr,
        /// Number of bytes.
        size_bytes: u32,
    },
    /// Copies `size_bytes` bytes; the ranges do not overlap.
    Move {
        /// The destination.
        to: Addr,
        /// The source.
        from: Addr,
        /// Number of bytes.
        size_bytes: u32,
        /// Alignment of both addresses in bytes: 1, 2, 4 or 8.
        align_bytes: u32,
    },
    /// `*(size *)addr op= src`, atomically; `fetch` receives the old value. The size is `B4` or
    /// `B8`. Since 5.12 for every `fetch` and every operation but `Add`.
    Atomic {
        /// `Add`, `And`, `Or`, `Xor`.
        op: BinOp,
        /// The address.
        addr: Addr,
        /// The right operand.
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
        /// The address.
        addr: Addr,
        /// The new value.
        src: VReg,
    },
    /// `dst` = the old value; `*addr = new` if the old value equals `expected`, atomically (8
    /// bytes). Since 5.12.
    CompareExchange {
        /// Receives the old value.
        dst: VReg,
        /// The address.
        addr: Addr,
        /// The value to compare with.
        expected: VReg,
        /// The value to store.
        new: VReg,
    },
    /// `dst` = the context's address.
    Context {
        /// Result.
        dst: VReg,
    },
    /// `dst` = an argument that the caller passed to this subprogram.
    Parameter {
        /// Result.
        dst: VReg,
        /// Index of the parameter, from 0.
        index: u8,
    },
    /// `dst` = the address of a stack object plus an offset.
    SlotAddr {
        /// Result.
        dst: VReg,
        /// The object.
        slot: SlotId,
        /// Offset into the object, in bytes.
        offset: i32,
    },
    /// `dst` = the address of a byte of a data section.
    DataAddr {
        /// Result.
        dst: VReg,
        section: Section,
        /// Offset into the section, in bytes.
        offset: u32,
    },
    /// `dst = helper(args…)`. At most five arguments.
    Call {
        /// The result, when used.
        dst: Option<VReg>,
        helper: Helper,
        /// Its arguments.
        args: Vec<Arg>,
    },
}

/// How a block ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminator {
    /// Continues at a block.
    Jump(BlockId),
    /// Continues at `then` when `a op b` holds, else at `otherwise`.
    Branch {
        /// The comparison.
        op: CmpOp,
        width: Width,
        /// Left.
        a: Operand,
        /// Right.
        b: Operand,
        /// Target when the comparison holds.
        then: BlockId,
        /// Target when it does not.
        otherwise: BlockId,
        /// The side that is expected to run, for the block layout.
        likely: Likely,
    },
    /// Ends the function with a constant result.
    Return(i32),
}

/// The expected side of a branch.
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
    /// The size in bytes.
    pub fn bytes(self) -> u32 {
        self as u32
    }

    /// The size with that many bytes, if there is one.
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

impl Base {
    /// The register, if the base is one.
    pub fn reg(self) -> Option<VReg> {
        match self {
            Base::Reg(reg) => Some(reg),
            Base::Slot(_) => None,
        }
    }

    /// The stack object, if the base is one.
    pub fn slot(self) -> Option<SlotId> {
        match self {
            Base::Reg(_) => None,
            Base::Slot(slot) => Some(slot),
        }
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

    /// The address `bytes` bytes further on.
    #[must_use]
    pub fn plus(self, bytes: i32) -> Addr {
        Addr { base: self.base, offset: self.offset + bytes }
    }
}
