//! Renumbering: blocks in layout order, registers and slots without gaps.
//!
//! In: a function. Out: the same function, renumbered. Guarantee: the expected side of a branch
//! directly follows it where the graph allows; unused registers and slots are gone.

use super::blocks::reorder;
use crate::ir::flow::Order;
use crate::ir::{Addr, Arg, Base, Function, Inst, Likely, Operand, Slot, SlotId, Terminator, VReg};

/// Renumbers the function.
pub(super) fn compact(function: &mut Function) {
    for block in &mut function.blocks {
        prefer_then(&mut block.end);
    }
    let order = Order::of(function).blocks;
    reorder(function, &order);
    compact_registers(function);
    compact_slots(function);
}

/// Inverts a branch whose `otherwise` side is expected, because the order puts `then` directly
/// after the branch.
fn prefer_then(end: &mut Terminator) {
    if let Terminator::Branch { op, then, otherwise, likely: likely @ Likely::Otherwise, .. } = end {
        *op = op.negated();
        *likely = Likely::Then;
        std::mem::swap(then, otherwise);
    }
}

fn compact_registers(function: &mut Function) {
    let mut new: Vec<Option<u32>> = vec![None; function.vregs as usize];
    let mut next = 0;
    let mut rename = |reg: &mut VReg| {
        let number = new[reg.0 as usize].get_or_insert_with(|| {
            next += 1;
            next - 1
        });
        *reg = VReg(*number);
    };
    for block in &mut function.blocks {
        for (inst, _) in &mut block.insts {
            inst.uses_mut(&mut rename);
            if let Some(dst) = inst.def_mut() {
                rename(dst);
            }
        }
        block.end.operands_mut(|operand| {
            if let Operand::Reg(reg) = operand {
                rename(reg);
            }
        });
    }
    function.vregs = next;
}

fn compact_slots(function: &mut Function) {
    let mut new: Vec<Option<u32>> = vec![None; function.slots.len()];
    let mut kept: Vec<Slot> = Vec::new();
    let old = std::mem::take(&mut function.slots);
    let mut rename = |slot: &mut SlotId| {
        let index = slot.0 as usize;
        let number = new[index].get_or_insert_with(|| {
            kept.push(old[index].clone());
            kept.len() as u32 - 1
        });
        *slot = SlotId(*number);
    };
    for (inst, _) in function.blocks.iter_mut().flat_map(|block| &mut block.insts) {
        slots_mut(inst, &mut rename);
    }
    function.slots = kept;
}

fn slots_mut(inst: &mut Inst, see: &mut impl FnMut(&mut SlotId)) {
    let mut in_addr = |addr: &mut Addr| {
        if let Base::Slot(slot) = &mut addr.base {
            see(slot);
        }
    };
    match inst {
        Inst::Load { addr, .. }
        | Inst::Store { addr, .. }
        | Inst::Zero { addr, .. }
        | Inst::Atomic { addr, .. }
        | Inst::Exchange { addr, .. }
        | Inst::CompareExchange { addr, .. } => in_addr(addr),
        Inst::Move { to, from, .. } => {
            in_addr(to);
            in_addr(from);
        }
        Inst::SlotAddr { slot, .. } => see(slot),
        Inst::Call { args, .. } => {
            for arg in args {
                if let Arg::Slot(slot, _) = arg {
                    see(slot);
                }
            }
        }
        _ => {}
    }
}
