//! Definite assignment: every register that is read was assigned on every path to the read.
//!
//! In: a function whose numbers are in range. Out: a fault for each read of a register that may not be assigned.
//! Blocks that nothing reaches are not looked at.

use super::Check;
use crate::ir::flow::Flow;
use crate::ir::print::print_end;
use crate::ir::regs::Regs;
use crate::ir::{BlockId, VReg};

impl Check<'_> {
    pub(super) fn check_assigned(&mut self) {
        let flow = Flow::of(self.function);
        let at_start = self.assigned_at_start(&flow);
        for id in &flow.order {
            self.check_block_assigned(*id, at_start[id.0 as usize].clone());
        }
    }

    /// The greatest solution: starts from "everything" and removes what some path lacks.
    fn assigned_at_start(&self, flow: &Flow) -> Vec<Regs> {
        let all = Regs::all(self.function.vregs);
        let mut at_start = vec![all; self.function.blocks.len()];
        at_start[0] = Regs::none(self.function.vregs);
        let mut changed = true;
        while changed {
            changed = false;
            for id in &flow.order {
                let at_end = self.assigned_at_end(*id, &at_start[id.0 as usize]);
                for to in self.function.blocks[id.0 as usize].end.successors() {
                    changed |= at_start[to.0 as usize].meet(&at_end);
                }
            }
        }
        at_start
    }

    fn assigned_at_end(&self, id: BlockId, at_start: &Regs) -> Regs {
        let mut assigned = at_start.clone();
        for (inst, _) in &self.function.blocks[id.0 as usize].insts {
            if let Some(dst) = inst.def() {
                assigned.insert(dst);
            }
        }
        assigned
    }

    fn check_block_assigned(&mut self, id: BlockId, mut assigned: Regs) {
        let missing = |assigned: &Regs, uses: Vec<VReg>| uses.into_iter().find(|reg| !assigned.contains(*reg));
        let block = &self.function.blocks[id.0 as usize];
        for (inst, _) in &block.insts {
            if let Some(reg) = missing(&assigned, inst.uses()) {
                self.inst_fault(id, inst, &format!("%{} may not be assigned", reg.0));
            }
            if let Some(dst) = inst.def() {
                assigned.insert(dst);
            }
        }
        if let Some(reg) = missing(&assigned, block.end.uses()) {
            let text = print_end(&block.end);
            self.fault(&format!("b{}: `{text}`: %{} may not be assigned", id.0, reg.0));
        }
    }
}
