//! Common subexpressions: a result that was computed on every path to an instruction is reused.
//!
//! In: instructions without side effects whose operands never change. Out: copies of the first
//! result. These include calls of helpers whose result stays the same during one run, and loads of
//! memory that is never written: the context, `.rodata`.
//! Guarantee: only a result whose definition dominates the use is reused; loads of other memory are
//! never shared.

use std::collections::HashMap;

use super::Definitions;
use crate::ir::flow::Dominators;
use crate::ir::{Arg, Base, BlockId, Effect, Function, Inst, Section, VReg};

/// Shares results down the dominator tree.
pub(super) fn share(function: &mut Function, defs: &Definitions) -> bool {
    let dominators = Dominators::of(function);
    let mut found: HashMap<Inst, (BlockId, VReg)> = HashMap::new();
    let mut changed = false;
    // In this order, a block that does not dominate the current one dominates no later one either,
    // so the latest result is the only candidate.
    for id in &dominators.tree() {
        for (inst, _) in &mut function.blocks[id.0 as usize].insts {
            let Some((dst, expression)) = expression(inst, defs) else { continue };
            match found.get(&expression) {
                Some((block, first)) if dominators.dominates(*block, *id) => {
                    *inst = Inst::Copy { dst, src: (*first).into() };
                    changed = true;
                }
                _ => {
                    found.insert(expression, (*id, dst));
                }
            }
        }
    }
    changed
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
