//! Which registers and blocks an instruction or a terminator names.
//!
//! In: one instruction. Out: its definition, its uses, its successors; each can be rewritten in place.
//! Guarantee: uses come in the order in which the fields are declared, a definition is never among them.

use super::{Addr, Arg, Base, BlockId, Effect, Inst, Operand, Terminator, VReg};

impl Inst {
    /// The register that is assigned.
    pub fn def(&self) -> Option<VReg> {
        match self {
            Inst::Copy { dst, .. }
            | Inst::Bin { dst, .. }
            | Inst::Set { dst, .. }
            | Inst::Extend { dst, .. }
            | Inst::Swap { dst, .. }
            | Inst::Clamp { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::Exchange { dst, .. }
            | Inst::CompareExchange { dst, .. }
            | Inst::Context { dst }
            | Inst::Parameter { dst, .. }
            | Inst::SlotAddr { dst, .. }
            | Inst::DataAddr { dst, .. } => Some(*dst),
            Inst::Atomic { fetch: dst, .. } | Inst::Call { dst, .. } => *dst,
            Inst::Store { .. } | Inst::Zero { .. } | Inst::Move { .. } => None,
        }
    }

    /// The place of the register that is assigned.
    pub fn def_mut(&mut self) -> Option<&mut VReg> {
        match self {
            Inst::Copy { dst, .. }
            | Inst::Bin { dst, .. }
            | Inst::Set { dst, .. }
            | Inst::Extend { dst, .. }
            | Inst::Swap { dst, .. }
            | Inst::Clamp { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::Exchange { dst, .. }
            | Inst::CompareExchange { dst, .. }
            | Inst::Context { dst }
            | Inst::Parameter { dst, .. }
            | Inst::SlotAddr { dst, .. }
            | Inst::DataAddr { dst, .. } => Some(dst),
            Inst::Atomic { fetch: dst, .. } | Inst::Call { dst, .. } => dst.as_mut(),
            Inst::Store { .. } | Inst::Zero { .. } | Inst::Move { .. } => None,
        }
    }

    /// Calls `see` with every operand's place: registers and constants that may stand for each other.
    pub fn operands_mut(&mut self, mut see: impl FnMut(&mut Operand)) {
        match self {
            Inst::Copy { src, .. } | Inst::Store { src, .. } => see(src),
            Inst::Bin { a, b, .. } | Inst::Set { a, b, .. } => {
                see(a);
                see(b);
            }
            Inst::Call { args, .. } => {
                for arg in args {
                    if let Arg::Value(value) = arg {
                        see(value);
                    }
                }
            }
            _ => {}
        }
    }

    /// Calls `see` with the place of every register that is read.
    pub fn uses_mut(&mut self, mut see: impl FnMut(&mut VReg)) {
        match self {
            Inst::Extend { src, .. } | Inst::Swap { src, .. } | Inst::Clamp { src, .. } => see(src),
            Inst::Load { addr, .. } | Inst::Store { addr, .. } | Inst::Zero { addr, .. } => {
                in_addr(addr, &mut see);
            }
            Inst::Move { to, from, .. } => {
                in_addr(to, &mut see);
                in_addr(from, &mut see);
            }
            Inst::Atomic { addr, src, .. } | Inst::Exchange { addr, src, .. } => {
                in_addr(addr, &mut see);
                see(src);
            }
            Inst::CompareExchange { addr, expected, new, .. } => {
                in_addr(addr, &mut see);
                see(expected);
                see(new);
            }
            Inst::Copy { .. }
            | Inst::Bin { .. }
            | Inst::Set { .. }
            | Inst::Context { .. }
            | Inst::Parameter { .. }
            | Inst::SlotAddr { .. }
            | Inst::DataAddr { .. }
            | Inst::Call { .. } => {}
        }
        self.operands_mut(|operand| {
            if let Operand::Reg(reg) = operand {
                see(reg);
            }
        });
    }

    /// The registers that are read.
    pub fn uses(&self) -> Vec<VReg> {
        let mut found = Vec::new();
        self.clone().uses_mut(|reg| found.push(*reg));
        found
    }

    /// Whether memory, maps or rings may change.
    pub fn writes(&self) -> bool {
        match self {
            Inst::Store { .. }
            | Inst::Zero { .. }
            | Inst::Move { .. }
            | Inst::Atomic { .. }
            | Inst::Exchange { .. }
            | Inst::CompareExchange { .. } => true,
            Inst::Call { helper, .. } => helper.effect() == Effect::Writes,
            _ => false,
        }
    }
}

/// Calls `see` with the register of an address.
fn in_addr(addr: &mut Addr, see: &mut impl FnMut(&mut VReg)) {
    if let Base::Reg(reg) = &mut addr.base {
        see(reg);
    }
}

impl Terminator {
    /// The blocks that may run next, without repeats.
    pub fn successors(&self) -> Vec<BlockId> {
        match self {
            Terminator::Jump(block) => vec![*block],
            Terminator::Branch { then, otherwise, .. } if then == otherwise => vec![*then],
            Terminator::Branch { then, otherwise, .. } => vec![*then, *otherwise],
            Terminator::Return(_) => Vec::new(),
        }
    }

    /// Calls `see` with the place of every block that is named.
    pub fn blocks_mut(&mut self, mut see: impl FnMut(&mut BlockId)) {
        match self {
            Terminator::Jump(block) => see(block),
            Terminator::Branch { then, otherwise, .. } => {
                see(then);
                see(otherwise);
            }
            Terminator::Return(_) => {}
        }
    }

    /// Calls `see` with every operand's place.
    pub fn operands_mut(&mut self, mut see: impl FnMut(&mut Operand)) {
        if let Terminator::Branch { a, b, .. } = self {
            see(a);
            see(b);
        }
    }

    /// The registers that are read.
    pub fn uses(&self) -> Vec<VReg> {
        let operands = match self {
            Terminator::Branch { a, b, .. } => [Some(*a), Some(*b)],
            _ => [None, None],
        };
        operands.into_iter().flatten().filter_map(Operand::reg).collect()
    }
}

impl Operand {
    /// The register, when it is one.
    pub fn reg(self) -> Option<VReg> {
        match self {
            Operand::Reg(reg) => Some(reg),
            Operand::Imm(_) => None,
        }
    }

    /// The constant, when it is one.
    pub fn imm(self) -> Option<i64> {
        match self {
            Operand::Imm(value) => Some(value),
            Operand::Reg(_) => None,
        }
    }
}
