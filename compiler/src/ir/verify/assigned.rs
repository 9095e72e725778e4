//! Definite assignment: every register that is read was assigned on every path to the read.
//!
//! In: a function whose ids are in range. Out: a fault for each read of a register that may be
//! unassigned. Unreachable blocks are not checked.

use super::Check;
use crate::ir::BlockId;
use crate::ir::flow::Order;
use crate::ir::print::print_end;
use crate::ir::regs::Regs;
use crate::ir::visit::Uses;

impl Check<'_> {
    pub(super) fn check_assigned(&mut self) {
        let order = Order::of(self.function);
        let at_start = self.assigned_at_start(&order);
        for id in &order.blocks {
            self.check_block_assigned(*id, at_start[id.0 as usize].clone());
        }
    }

    /// Computes the greatest fixed point: starts with all registers and removes those that some
    /// path does not assign.
    fn assigned_at_start(&self, order: &Order) -> Vec<Regs> {
        let all = Regs::all(self.function.vregs);
        let mut at_start = vec![all; self.function.blocks.len()];
        at_start[0] = Regs::none(self.function.vregs);
        let has_back_edge = order.has_back_edge(self.function);
        let mut changed = true;
        while changed {
            changed = false;
            for id in &order.blocks {
                let at_end = self.assigned_at_end(*id, &at_start[id.0 as usize]);
                for to in self.function.blocks[id.0 as usize].end.successors() {
                    changed |= at_start[to.0 as usize].meet(&at_end) && has_back_edge;
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
        let missing = |assigned: &Regs, uses: Uses| uses.into_iter().find(|reg| !assigned.contains(*reg));
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
