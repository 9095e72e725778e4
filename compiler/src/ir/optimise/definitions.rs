//! Where registers are assigned and how often they are read.
//!
//! In: a function without unreachable blocks. Out: for each register its only assignment, when it has just one. In a
//! verified function that assignment dominates every use, so that such a register is a value and not a place.

use crate::ir::{Function, Inst, Operand, VReg};

/// Index of a block and of an instruction in it.
pub(super) type Site = (usize, usize);

/// A snapshot of a function's definitions. It stays right while instructions are replaced by ones of equal value.
#[derive(Debug, Clone)]
pub(super) struct Definitions {
    sites: Vec<Option<Site>>,
    computed: Vec<Option<Inst>>,
    uses: Vec<u32>,
}

impl Definitions {
    pub fn of(function: &Function) -> Definitions {
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

    /// The only assignment of a register, unless it is a call: no pass looks through one.
    pub fn inst(&self, reg: VReg) -> Option<&Inst> {
        self.computed[reg.0 as usize].as_ref()
    }

    /// Where the only assignment of a register is.
    pub fn site(&self, reg: VReg) -> Option<Site> {
        self.sites[reg.0 as usize]
    }

    /// Whether a register is assigned just once.
    pub fn is_value(&self, reg: VReg) -> bool {
        self.sites[reg.0 as usize].is_some()
    }

    /// Whether an operand is the same wherever it can be read.
    pub fn is_constant(&self, operand: Operand) -> bool {
        operand.reg().is_none_or(|reg| self.is_value(reg))
    }

    /// How often a register is read.
    pub fn uses(&self, reg: VReg) -> u32 {
        self.uses[reg.0 as usize]
    }
}
