//! Where registers are assigned and how often they are read.
//!
//! In: a function without unreachable blocks. Out: for each register its only assignment, if it has
//! exactly one. In a verified function that assignment dominates every use, so such a register is a
//! constant value, not a variable.

use crate::ir::{Function, Inst, Operand, VReg};

/// Index of a block, and of an instruction in that block.
pub(super) type Site = (usize, usize);

/// A snapshot of a function's definitions. It stays valid while instructions are replaced with
/// equivalent ones.
#[derive(Debug, Clone)]
pub(super) struct Definitions {
    sites: Vec<Option<Site>>,
    computed: Vec<Option<Inst>>,
    uses: Vec<u32>,
}

impl Definitions {
    /// The definitions of a function.
    pub(super) fn of(function: &Function) -> Definitions {
        let count = function.vregs as usize;
        let mut sites: Vec<Option<Site>> = vec![None; count];
        let mut computed: Vec<Option<Inst>> = vec![None; count];
        let mut times = vec![0; count];
        let mut uses = vec![0; count];
        for (b, block) in function.blocks.iter().enumerate() {
            for (i, (inst, _)) in block.insts.iter().enumerate() {
                inst.uses().into_iter().for_each(|reg| uses[reg.0 as usize] += 1);
                if let Some(dst) = inst.def() {
                    times[dst.0 as usize] += 1;
                    sites[dst.0 as usize] = Some((b, i));
                    computed[dst.0 as usize] = (!matches!(inst, Inst::Call { .. })).then(|| inst.clone());
                }
            }
            block.end.uses().into_iter().for_each(|reg| uses[reg.0 as usize] += 1);
        }
        for (reg, times) in times.into_iter().enumerate() {
            if times != 1 {
                (sites[reg], computed[reg]) = (None, None);
            }
        }
        Definitions { sites, computed, uses }
    }

    /// The only assignment of a register. `None` for calls too, because no pass looks through one.
    pub(super) fn inst(&self, reg: VReg) -> Option<&Inst> {
        self.computed[reg.0 as usize].as_ref()
    }

    /// The location of a register's only assignment.
    pub(super) fn site(&self, reg: VReg) -> Option<Site> {
        self.sites[reg.0 as usize]
    }

    /// Whether a register is assigned exactly once.
    pub(super) fn is_value(&self, reg: VReg) -> bool {
        self.sites[reg.0 as usize].is_some()
    }

    /// Whether an operand has the same value wherever it can be read.
    pub(super) fn is_constant(&self, operand: Operand) -> bool {
        operand.reg().is_none_or(|reg| self.is_value(reg))
    }

    /// The number of times a register is read.
    pub(super) fn uses(&self, reg: VReg) -> u32 {
        self.uses[reg.0 as usize]
    }
}
