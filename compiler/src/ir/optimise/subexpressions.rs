//! Common subexpressions: a result that was computed on every path to an instruction is reused.
//!
//! In: instructions without side effects whose operands never change. Out: copies of the first
//! result. These include calls of helpers whose result stays the same during one run, and loads of
//! memory that is never written: the context, `.rodata`. The current task's address as a number is
//! made from the typed pointer to it, which spares a call.
//! Guarantee: only a result whose definition dominates the use is reused; loads of other memory are
//! never shared.

use std::collections::HashMap;

use super::Definitions;
use crate::ir::flow::Dominators;
use crate::ir::{Arg, Base, BlockId, Effect, Function, Helper, Inst, Section, Size, VReg};

/// Shares results down the dominator tree.
pub(super) fn share(function: &mut Function, defs: &Definitions) -> bool {
    let dominators = Dominators::of(function);
    let mut found: HashMap<Inst, (BlockId, VReg)> = HashMap::new();
    let mut changed = false;
    // In this order, a block that does not dominate the current one dominates no later one either,
    // so the latest result is the only candidate.
    for id in &dominators.tree() {
        let mut numbers = Vec::new();
        for (at, (inst, _)) in function.blocks[id.0 as usize].insts.iter_mut().enumerate() {
            let Some((dst, expression)) = expression(inst, defs) else { continue };
            let earlier = |wanted: &Inst| {
                let (block, first) = found.get(wanted)?;
                dominators.dominates(*block, *id).then_some(*first)
            };
            if let Some(first) = earlier(&expression) {
                *inst = Inst::Copy { dst, src: first.into() };
                changed = true;
            } else if let Some(task) = typed(&expression).and_then(|typed| earlier(&typed)) {
                numbers.push((at, dst, task));
            } else {
                found.insert(expression, (*id, dst));
            }
        }
        changed |= !numbers.is_empty();
        for (at, dst, task) in numbers.into_iter().rev() {
            let reversed = VReg(function.vregs);
            function.vregs += 1;
            let insts = &mut function.blocks[id.0 as usize].insts;
            insts[at].0 = Inst::Swap { dst, src: reversed, size: Size::B8 };
            // Verifier: a pointer whose bytes were reversed is a number.
            insts.insert(at, (Inst::Swap { dst: reversed, src: task, size: Size::B8 }, insts[at].1));
        }
    }
    changed
}

/// The call for a typed pointer to the task whose address a call yields as a number.
fn typed(call: &Inst) -> Option<Inst> {
    match call {
        Inst::Call { helper: Helper::GetCurrentTask, args, dst } => {
            Some(Inst::Call { helper: Helper::GetCurrentTaskBtf, args: args.clone(), dst: *dst })
        }
        _ => None,
    }
}

/// The result of an instruction that can be shared, and the instruction with its result cleared, as
/// a key.
fn expression(inst: &Inst, defs: &Definitions) -> Option<(VReg, Inst)> {
    let dst = inst.def().filter(|dst| defs.is_value(*dst))?;
    let shared = match inst {
        Inst::Bin { .. }
        | Inst::Set { .. }
        | Inst::Extend { .. }
        | Inst::Swap { .. }
        | Inst::Clamp { .. }
        | Inst::Context { .. }
        | Inst::Parameter { .. }
        | Inst::SlotAddr { .. }
        | Inst::DataAddr { .. } => true,
        Inst::Call { helper, args, .. } => {
            let on_memory = args.iter().any(|arg| matches!(arg, Arg::Slot(..) | Arg::Map(_)));
            helper.effect() == Effect::Constant && !on_memory
        }
        Inst::Load { addr, .. } => is_read_only(addr.base, defs),
        _ => false,
    };
    if !shared || !inst.uses().into_iter().all(|reg| defs.is_value(reg)) {
        return None;
    }
    let mut expression = inst.clone();
    if let Some(place) = expression.def_mut() {
        *place = VReg(0);
    }
    Some((dst, expression))
}

fn is_read_only(base: Base, defs: &Definitions) -> bool {
    let Base::Reg(base) = base else { return false };
    matches!(defs.inst(base), Some(Inst::Context { .. } | Inst::DataAddr { section: Section::Rodata, .. }))
}
