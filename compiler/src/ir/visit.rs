//! The registers and blocks that an instruction or a terminator names.
//!
//! In: one instruction. Out: its definition, its uses, its successors; each can be rewritten in
//! place.
//! Guarantee: uses are visited in the order in which the fields are declared; a definition is never
//! among them.

use super::{Addr, Arg, Base, BlockId, Effect, Inst, Operand, Terminator, VReg};
use std::ops::Deref;

/// The registers that one instruction reads. Passes ask for them at every instruction in every
/// round, so they are stored inline and need no allocation.
#[derive(Debug, Clone, Copy)]
pub struct Uses {
    regs: [VReg; MOST_USES],
    count: usize,
}

/// Calls read the most registers: their arguments. [`super::verify`] allows as many arguments as
/// there are argument registers.
const MOST_USES: usize = 5;

impl Default for Uses {
    fn default() -> Uses {
        Uses { regs: [VReg(0); MOST_USES], count: 0 }
    }
}

impl Uses {
    fn push(&mut self, reg: VReg) {
        if let Some(place) = self.regs.get_mut(self.count) {
            *place = reg;
            self.count += 1;
        }
    }

    fn push_operand(&mut self, operand: Operand) {
        if let Operand::Reg(reg) = operand {
            self.push(reg);
        }
    }

    fn push_base(&mut self, addr: Addr) {
        if let Base::Reg(reg) = addr.base {
            self.push(reg);
        }
    }
}

impl Deref for Uses {
    type Target = [VReg];

    fn deref(&self) -> &[VReg] {
        &self.regs[..self.count]
    }
}

impl IntoIterator for Uses {
    type Item = VReg;
    type IntoIter = std::iter::Take<std::array::IntoIter<VReg, MOST_USES>>;

    fn into_iter(self) -> Self::IntoIter {
        self.regs.into_iter().take(self.count)
    }
}

/// The possible successor blocks; needs no allocation.
pub(crate) type Successors = std::iter::Flatten<std::array::IntoIter<Option<BlockId>, 2>>;

impl Inst {
    /// The register that the instruction assigns.
    pub fn def(&self) -> Option<VReg> {
        match self {
            Inst::Copy { dst, .. }
            | Inst::Bin { dst, .. }
            | Inst::Set { dst, .. }
            | Inst::Extend { dst, .. }
            | Inst::Swap { dst, .. }
            | Inst::Clamp { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::Peek { dst, .. }
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

    /// A mutable reference to the register that the instruction assigns.
    pub fn def_mut(&mut self) -> Option<&mut VReg> {
        match self {
            Inst::Copy { dst, .. }
            | Inst::Bin { dst, .. }
            | Inst::Set { dst, .. }
            | Inst::Extend { dst, .. }
            | Inst::Swap { dst, .. }
            | Inst::Clamp { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::Peek { dst, .. }
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

    /// Calls `see` with a mutable reference to every operand: places where a register and a
    /// constant are interchangeable.
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

    /// Calls `see` with a mutable reference to every register that the instruction reads.
    pub fn uses_mut(&mut self, mut see: impl FnMut(&mut VReg)) {
        match self {
            Inst::Extend { src, .. }
            | Inst::Swap { src, .. }
            | Inst::Clamp { src, .. }
            | Inst::Peek { base: src, .. } => see(src),
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

    /// The registers that the instruction reads.
    pub fn uses(&self) -> Uses {
        let mut found = Uses::default();
        match self {
            Inst::Extend { src, .. }
            | Inst::Swap { src, .. }
            | Inst::Clamp { src, .. }
            | Inst::Peek { base: src, .. } => found.push(*src),
            Inst::Load { addr, .. } | Inst::Zero { addr, .. } => found.push_base(*addr),
            Inst::Store { addr, src, .. } => {
                found.push_base(*addr);
                found.push_operand(*src);
            }
            Inst::Move { to, from, .. } => {
                found.push_base(*to);
                found.push_base(*from);
            }
            Inst::Atomic { addr, src, .. } | Inst::Exchange { addr, src, .. } => {
                found.push_base(*addr);
                found.push(*src);
            }
            Inst::CompareExchange { addr, expected, new, .. } => {
                found.push_base(*addr);
                found.push(*expected);
                found.push(*new);
            }
            Inst::Copy { src, .. } => found.push_operand(*src),
            Inst::Bin { a, b, .. } | Inst::Set { a, b, .. } => {
                found.push_operand(*a);
                found.push_operand(*b);
            }
            Inst::Call { args, .. } => {
                for arg in args {
                    if let Arg::Value(value) = arg {
                        found.push_operand(*value);
                    }
                }
            }
            Inst::Context { .. } | Inst::Parameter { .. } | Inst::SlotAddr { .. } | Inst::DataAddr { .. } => {}
        }
        found
    }

    /// Whether the instruction may change memory, maps or ring buffers.
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
    /// The possible successor blocks, without duplicates.
    pub fn successors(&self) -> Successors {
        let blocks = match self {
            Terminator::Jump(block) => [Some(*block), None],
            Terminator::Branch { then, otherwise, .. } if then == otherwise => [Some(*then), None],
            Terminator::Branch { then, otherwise, .. } => [Some(*then), Some(*otherwise)],
            Terminator::Return(_) => [None, None],
        };
        blocks.into_iter().flatten()
    }

    /// Calls `see` with a mutable reference to every block that the terminator names.
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

    /// Calls `see` with a mutable reference to every operand.
    pub fn operands_mut(&mut self, mut see: impl FnMut(&mut Operand)) {
        if let Terminator::Branch { a, b, .. } = self {
            see(a);
            see(b);
        }
    }

    /// The registers that the terminator reads.
    pub fn uses(&self) -> Uses {
        let mut found = Uses::default();
        if let Terminator::Branch { a, b, .. } = self {
            found.push_operand(*a);
            found.push_operand(*b);
        }
        found
    }
}

impl Operand {
    /// The register, if it is one.
    pub fn reg(self) -> Option<VReg> {
        match self {
            Operand::Reg(reg) => Some(reg),
            Operand::Imm(_) => None,
        }
    }

    /// The constant, if it is one.
    pub fn imm(self) -> Option<i64> {
        match self {
            Operand::Imm(value) => Some(value),
            Operand::Reg(_) => None,
        }
    }
}
