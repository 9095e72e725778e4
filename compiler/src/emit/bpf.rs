//! The BPF instruction as a plain value.
//!
//! In: registers, operations and offsets from the other `emit` files. Out: [`Insn`]s and their
//! 8-byte encoding.
//! Guarantee: an `Insn` encodes to exactly the kernel's `struct bpf_insn`, little-endian;
//! `ld_imm64` is two of them.

use aya_obj::generated as uapi;
use aya_obj::generated::bpf_insn;

use crate::ir::{BinOp, CmpOp, Size, Width};

/// A register of the BPF VM, `r0` to `r10`.
pub type RegNumber = u8;

/// The read-only frame pointer.
pub const R10: RegNumber = 10;

/// Size of one encoded instruction.
pub const INSN_SIZE_BYTES: usize = 8;

/// One 8-byte slot of the instruction stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Insn {
    /// Opcode: class, operation and source kind.
    pub code: u8,
    /// Destination register.
    pub dst: RegNumber,
    /// Source register, or a pseudo source such as `PSEUDO_CALL`.
    pub src: RegNumber,
    /// Memory offset, or jump distance in instructions from the next instruction.
    pub off: i16,
    /// Immediate.
    pub imm: i32,
}

/// Pseudo source register of a call of a subprogram.
pub const PSEUDO_CALL: RegNumber = 1;
/// Pseudo source register of a call of a kfunc by its BTF id.
pub const PSEUDO_KFUNC_CALL: RegNumber = 2;

/// The class bits of an opcode.
pub const CLASS_MASK: u8 = 0x07;
/// Loads of 64-bit immediates.
pub const LD: u8 = uapi::BPF_LD as u8;
/// Loads from memory.
pub const LDX: u8 = uapi::BPF_LDX as u8;
/// Stores of immediates.
pub const ST: u8 = uapi::BPF_ST as u8;
/// Stores of registers, and atomics.
pub const STX: u8 = uapi::BPF_STX as u8;
/// 32-bit arithmetic.
pub const ALU32: u8 = uapi::BPF_ALU as u8;
/// 64-bit arithmetic.
pub const ALU64: u8 = uapi::BPF_ALU64 as u8;
/// 64-bit comparisons, calls, exits.
pub const JMP: u8 = uapi::BPF_JMP as u8;
/// 32-bit comparisons.
pub const JMP32: u8 = uapi::BPF_JMP32 as u8;

/// The operation bits of an arithmetic or jump opcode.
pub const OP_MASK: u8 = 0xf0;
/// Move.
pub const MOV: u8 = uapi::BPF_MOV as u8;
/// Byte order conversion.
pub const END: u8 = uapi::BPF_END as u8;
/// Unconditional jump.
pub const JA: u8 = uapi::BPF_JA as u8;
/// Call of a helper, subprogram or kfunc.
pub const CALL: u8 = uapi::BPF_CALL as u8;
/// Return from the function.
pub const EXIT: u8 = uapi::BPF_EXIT as u8;

/// The source operand is a register.
pub const X: u8 = uapi::BPF_X as u8;
/// The source operand is the immediate.
pub const K: u8 = uapi::BPF_K as u8;
/// Plain memory access.
pub const MEM: u8 = uapi::BPF_MEM as u8;
/// Atomic memory access.
pub const ATOMIC: u8 = uapi::BPF_ATOMIC as u8;
/// The mode bits of a load or store.
pub const MODE_MASK: u8 = 0xe0;
/// The size bits of a load or store.
pub const SIZE_MASK: u8 = 0x18;
/// The atomic operation returns the old value.
pub const FETCH: i32 = uapi::BPF_FETCH as i32;
/// Atomic exchange.
pub const XCHG: i32 = uapi::BPF_XCHG as i32;
/// Atomic compare and exchange with `r0`.
pub const CMPXCHG: i32 = uapi::BPF_CMPXCHG as i32;
/// `ld_imm64`.
pub const LD_IMM64: u8 = LD | uapi::BPF_IMM as u8 | uapi::BPF_DW as u8;

impl Insn {
    /// The eight-byte encoding.
    pub fn to_bytes(self) -> [u8; INSN_SIZE_BYTES] {
        let off = self.off.to_le_bytes();
        let imm = self.imm.to_le_bytes();
        [self.code, self.dst | self.src << 4, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
    }

    /// The class bits.
    pub fn class(self) -> u8 {
        self.code & CLASS_MASK
    }

    /// The operation bits of an arithmetic or jump instruction.
    pub fn operation(self) -> u8 {
        self.code & OP_MASK
    }

    /// Whether the right operand of an arithmetic or jump instruction is a register.
    pub fn is_register_source(self) -> bool {
        self.code & X != 0
    }

    /// Whether this is the first half of an `ld_imm64`.
    pub fn is_wide(self) -> bool {
        self.code == LD_IMM64
    }

    /// Whether it has a jump distance (not a call, not an exit).
    pub fn is_jump(self) -> bool {
        matches!(self.class(), JMP | JMP32) && !matches!(self.operation(), CALL | EXIT)
    }

    /// `dst = src`: 64 bits, or 32 bits with zero extension.
    pub fn mov(width: Width, dst: RegNumber, src: RegNumber) -> Insn {
        Insn { code: alu_class(width) | MOV | X, dst, src, ..Insn::default() }
    }

    /// `dst = imm`, sign-extended (64) or zero-extended (32).
    pub fn mov_imm(width: Width, dst: RegNumber, imm: i32) -> Insn {
        Insn { code: alu_class(width) | MOV | K, dst, imm, ..Insn::default() }
    }

    /// `dst op= src`.
    pub fn alu(op: BinOp, width: Width, dst: RegNumber, src: RegNumber) -> Insn {
        Insn { code: alu_class(width) | alu_op(op) | X, dst, src, ..Insn::default() }
    }

    /// `dst op= imm`.
    pub fn alu_imm(op: BinOp, width: Width, dst: RegNumber, imm: i32) -> Insn {
        Insn { code: alu_class(width) | alu_op(op) | K, dst, imm, ..Insn::default() }
    }

    /// `dst` = its low bytes in big-endian order, which is a byte swap because the object is
    /// little-endian.
    pub fn to_big_endian(dst: RegNumber, size: Size) -> Insn {
        let imm = size.bytes() as i32 * 8;
        Insn { code: ALU32 | END | uapi::BPF_TO_BE as u8, dst, imm, ..Insn::default() }
    }

    /// `dst = *(size *)(base + off)`.
    pub fn load(size: Size, dst: RegNumber, base: RegNumber, off: i16) -> Insn {
        Insn { code: LDX | MEM | size_bits(size), dst, src: base, off, imm: 0 }
    }

    /// `*(size *)(base + off) = src`.
    pub fn store(size: Size, base: RegNumber, off: i16, src: RegNumber) -> Insn {
        Insn { code: STX | MEM | size_bits(size), dst: base, src, off, imm: 0 }
    }

    /// `*(size *)(base + off) = imm`.
    pub fn store_imm(size: Size, base: RegNumber, off: i16, imm: i32) -> Insn {
        Insn { code: ST | MEM | size_bits(size), dst: base, src: 0, off, imm }
    }

    /// The atomic `operation` on `*(size *)(base + off)`.
    pub fn atomic(operation: i32, size: Size, base: RegNumber, off: i16, src: RegNumber) -> Insn {
        Insn { code: STX | ATOMIC | size_bits(size), dst: base, src, off, imm: operation }
    }

    /// Both halves of `dst = imm`. In the object, a relocation marks an immediate that is an
    /// address: of a map (immediate 0), or of a data section (immediate: the offset into it).
    pub fn load_imm64(dst: RegNumber, imm: u64) -> [Insn; 2] {
        let low = Insn { code: LD_IMM64, dst, imm: imm as i32, ..Insn::default() };
        [low, Insn { imm: (imm >> 32) as i32, ..Insn::default() }]
    }

    /// A helper call.
    pub fn call(helper: u32) -> Insn {
        Insn { code: JMP | CALL, imm: helper as i32, ..Insn::default() }
    }

    /// A call of a subprogram; its offset is filled in when the file is written.
    pub fn call_function(function: u32) -> Insn {
        Insn { code: JMP | CALL, src: PSEUDO_CALL, imm: function as i32, ..Insn::default() }
    }

    /// A call of a kfunc by its BTF id.
    pub fn call_kernel(id: u32) -> Insn {
        Insn { code: JMP | CALL, src: PSEUDO_KFUNC_CALL, imm: id as i32, ..Insn::default() }
    }

    /// The exit instruction.
    pub fn exit() -> Insn {
        Insn { code: JMP | EXIT, ..Insn::default() }
    }

    /// An unconditional jump whose distance is filled in later.
    pub fn jump() -> Insn {
        Insn { code: JMP | JA, ..Insn::default() }
    }

    /// `if dst op src goto`; the distance is filled in later.
    pub fn branch(op: CmpOp, width: Width, dst: RegNumber, src: RegNumber) -> Insn {
        Insn { code: jump_class(width) | jump_op(op) | X, dst, src, ..Insn::default() }
    }

    /// `if dst op imm goto`; the distance is filled in later.
    pub fn branch_imm(op: CmpOp, width: Width, dst: RegNumber, imm: i32) -> Insn {
        Insn { code: jump_class(width) | jump_op(op) | K, dst, imm, ..Insn::default() }
    }

    /// The size of a memory access.
    pub fn access_size(self) -> Size {
        match u32::from(self.code & SIZE_MASK) {
            uapi::BPF_B => Size::B1,
            uapi::BPF_H => Size::B2,
            uapi::BPF_W => Size::B4,
            _ => Size::B8,
        }
    }

    /// The arithmetic operation, if the IR has it.
    pub fn bin_op(self) -> Option<BinOp> {
        BinOp::ALL.into_iter().find(|op| alu_op(*op) == self.operation())
    }

    /// The comparison of a conditional jump.
    pub fn cmp_op(self) -> Option<CmpOp> {
        CmpOp::ALL.into_iter().find(|op| jump_op(*op) == self.operation())
    }

    /// The width of an arithmetic or conditional-jump instruction.
    pub fn width(self) -> Width {
        if matches!(self.class(), ALU32 | JMP32) { Width::W32 } else { Width::W64 }
    }
}

impl From<&bpf_insn> for Insn {
    fn from(insn: &bpf_insn) -> Insn {
        Insn { code: insn.code, dst: insn.dst_reg(), src: insn.src_reg(), off: insn.off, imm: insn.imm }
    }
}

/// The immediate of an atomic operation, if BPF has one for it.
pub fn atomic_op(op: BinOp, fetch: bool) -> Option<i32> {
    let code = match op {
        BinOp::Add | BinOp::And | BinOp::Or | BinOp::Xor => i32::from(alu_op(op)),
        _ => return None,
    };
    Some(if fetch { code | FETCH } else { code })
}

fn alu_class(width: Width) -> u8 {
    match width {
        Width::W32 => ALU32,
        Width::W64 => ALU64,
    }
}

fn jump_class(width: Width) -> u8 {
    match width {
        Width::W32 => JMP32,
        Width::W64 => JMP,
    }
}

fn size_bits(size: Size) -> u8 {
    let bits = match size {
        Size::B1 => uapi::BPF_B,
        Size::B2 => uapi::BPF_H,
        Size::B4 => uapi::BPF_W,
        Size::B8 => uapi::BPF_DW,
    };
    bits as u8
}

fn alu_op(op: BinOp) -> u8 {
    let code = match op {
        BinOp::Add => uapi::BPF_ADD,
        BinOp::Sub => uapi::BPF_SUB,
        BinOp::Mul => uapi::BPF_MUL,
        BinOp::Div => uapi::BPF_DIV,
        BinOp::Mod => uapi::BPF_MOD,
        BinOp::And => uapi::BPF_AND,
        BinOp::Or => uapi::BPF_OR,
        BinOp::Xor => uapi::BPF_XOR,
        BinOp::Shl => uapi::BPF_LSH,
        BinOp::Shr => uapi::BPF_RSH,
        BinOp::Sar => uapi::BPF_ARSH,
    };
    code as u8
}

fn jump_op(op: CmpOp) -> u8 {
    let code = match op {
        CmpOp::Eq => uapi::BPF_JEQ,
        CmpOp::Ne => uapi::BPF_JNE,
        CmpOp::Lt => uapi::BPF_JLT,
        CmpOp::Le => uapi::BPF_JLE,
        CmpOp::Gt => uapi::BPF_JGT,
        CmpOp::Ge => uapi::BPF_JGE,
        CmpOp::SLt => uapi::BPF_JSLT,
        CmpOp::SLe => uapi::BPF_JSLE,
        CmpOp::SGt => uapi::BPF_JSGT,
        CmpOp::SGe => uapi::BPF_JSGE,
    };
    code as u8
}
