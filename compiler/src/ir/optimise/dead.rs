//! Dead code: removes results that are never read.
//!
//! In: any function. Out: the same function without instructions whose only effect is a result that
//! is not read afterwards. Calls and atomic operations that are kept for their effect lose an
//! unread result. Guarantee: no instruction that writes is removed.

use crate::ir::flow::Order;
use crate::ir::regs::Regs;
use crate::ir::{Block, Function, Inst, Operand, VReg};

/// Removes dead instructions.
pub(super) fn remove(function: &mut Function) -> bool {
    let live_out = live_at_end(function);
    let mut changed = false;
    for (block, live) in function.blocks.iter_mut().zip(live_out) {
        changed |= remove_in(block, live);
    }
    changed
}

fn remove_in(block: &mut Block, mut live: Regs) -> bool {
    let before = block.insts.len();
    let mut changed = false;
    read(&mut live, &block.end.uses());
    let mut kept = Vec::with_capacity(before);
    for (mut inst, span) in std::mem::take(&mut block.insts).into_iter().rev() {
        let is_self = matches!(inst, Inst::Copy { dst, src: Operand::Reg(src) } if src == dst);
        if is_self {
            continue;
        }
        let is_read = inst.def().is_some_and(|dst| live.contains(dst));
        if !is_read && !inst.writes() {
            continue;
        }
        if let Some(dst) = inst.def() {
            live.remove(dst);
        }
        if !is_read {
            changed |= drop_result(&mut inst);
        }
        read(&mut live, &inst.uses());
        kept.push((inst, span));
    }
    kept.reverse();
    block.insts = kept;
    changed | (block.insts.len() != before)
}

/// Drops an unread result. An atomic operation that fetches the old value needs 5.12; without the
/// result it also runs on older kernels.
fn drop_result(inst: &mut Inst) -> bool {
    match inst {
        Inst::Atomic { fetch: dst, .. } | Inst::Call { dst, .. } => dst.take().is_some(),
        _ => false,
    }
}

fn read(live: &mut Regs, regs: &[VReg]) {
    for reg in regs {
        live.insert(*reg);
    }
}

/// The least fixed point of the backward liveness equations.
fn live_at_end(function: &Function) -> Vec<Regs> {
    let order = Order::of(function);
    let has_back_edge = order.has_back_edge(function);
    let none = Regs::none(function.vregs);
    let mut at_start = vec![none.clone(); function.blocks.len()];
    let mut at_end = vec![none; function.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for id in order.blocks.iter().rev() {
            let index = id.0 as usize;
            let block = &function.blocks[index];
            let mut live = std::mem::replace(&mut at_end[index], Regs::none(0));
            for next in block.end.successors() {
                live.join(&at_start[next.0 as usize]);
            }
            at_end[index].clone_from(&live);
            read(&mut live, &block.end.uses());
            for (inst, _) in block.insts.iter().rev() {
                if let Some(dst) = inst.def() {
                    live.remove(dst);
                }
                read(&mut live, &inst.uses());
            }
            changed |= at_start[index].join(&live) && has_back_edge;
        }
    }
    at_end
}
