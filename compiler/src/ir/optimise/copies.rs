//! Copy propagation and coalescing.
//!
//! In: `dst = src`. Out: uses of `dst` read `src` instead; dead-code removal deletes the copy.
//! Guarantee: a register is replaced at all its uses or at none, except in fields that cannot hold
//! a constant.

use super::Definitions;
use crate::ir::visit::Uses;
use crate::ir::{Block, Function, Inst, Operand, VReg};

/// Replaces uses of copies with the original, in the whole function, where the original never
/// changes.
pub(super) fn propagate_values(function: &mut Function, defs: &Definitions) -> bool {
    let original = |reg: VReg| match defs.inst(reg)? {
        Inst::Copy { src, .. } if defs.is_constant(*src) => Some(*src),
        _ => None,
    };
    let resolve = |start: VReg| {
        let mut found = None;
        let mut at = start;
        while let Some(src) = original(at) {
            found = Some(src);
            match src {
                Operand::Reg(next) if next != start => at = next,
                _ => break,
            }
        }
        found
    };
    let mut changed = false;
    let mut replace = |operand: &mut Operand| {
        if let Some(src) = operand.reg().and_then(resolve) {
            *operand = src;
            changed = true;
        }
    };
    for block in &mut function.blocks {
        for (inst, _) in &mut block.insts {
            inst.operands_mut(&mut replace);
        }
        block.end.operands_mut(&mut replace);
    }
    for (inst, _) in function.blocks.iter_mut().flat_map(|block| &mut block.insts) {
        inst.uses_mut(|reg| {
            if let Some(Operand::Reg(src)) = resolve(*reg) {
                *reg = src;
                changed = true;
            }
        });
    }
    changed
}

/// The same for an original that is reassigned later, where all uses of the copy come before that.
pub(super) fn propagate_places(function: &mut Function, defs: &Definitions) -> bool {
    let mut changed = false;
    for block in &mut function.blocks {
        for at in 0..block.insts.len() {
            if let Inst::Copy { dst, src: Operand::Reg(src) } = block.insts[at].0
                && dst != src
                && defs.is_value(dst)
                && !defs.is_value(src)
                && defs.uses(dst) > 0
                && uses_before_change(block, at + 1, dst, src) == defs.uses(dst)
            {
                rename_uses(block, at + 1, dst, src);
                changed = true;
            }
        }
    }
    changed
}

/// The number of reads of `reg` in the block from `start` on, before `place` is assigned.
fn uses_before_change(block: &Block, start: usize, reg: VReg, place: VReg) -> u32 {
    let count = |uses: Uses| uses.iter().filter(|used| **used == reg).count() as u32;
    let mut found = 0;
    for (inst, _) in &block.insts[start..] {
        found += count(inst.uses());
        if inst.def() == Some(place) {
            return found;
        }
    }
    found + count(block.end.uses())
}

fn rename_uses(block: &mut Block, start: usize, from: VReg, to: VReg) {
    let rename = |operand: &mut Operand| {
        if *operand == Operand::Reg(from) {
            *operand = Operand::Reg(to);
        }
    };
    for (inst, _) in &mut block.insts[start..] {
        inst.uses_mut(|reg| {
            if *reg == from {
                *reg = to;
            }
        });
    }
    block.end.operands_mut(rename);
}

/// `t = …; v = t` becomes `v = …`: the value is computed directly in the variable's register.
pub(super) fn coalesce(function: &mut Function, defs: &Definitions) -> bool {
    let mut changed = false;
    for (index, block) in function.blocks.iter_mut().enumerate() {
        for at in 0..block.insts.len() {
            if let Inst::Copy { dst, src: Operand::Reg(src) } = block.insts[at].0
                && let Some(made) = made_for(block, index, at, (dst, src), defs)
            {
                if let Some(place) = block.insts[made].0.def_mut() {
                    *place = dst;
                }
                // The copy becomes a copy of a register to itself, which dead-code removal drops.
                // No index changes.
                rename_uses(block, made + 1, src, dst);
                changed = true;
            }
        }
    }
    changed
}

/// The instruction that computes `src`, if it can compute into `dst`: between it and the copy at
/// `at`, `dst` is neither read nor assigned, and all uses of `src` are in this block before `dst`
/// changes.
fn made_for(block: &Block, index: usize, at: usize, (dst, src): (VReg, VReg), defs: &Definitions) -> Option<usize> {
    let (in_block, made) = defs.site(src)?;
    if in_block != index || made >= at || defs.is_value(dst) {
        return None;
    }
    let between = &block.insts[made + 1..at];
    let disturbed = between.iter().any(|(inst, _)| inst.def() == Some(dst) || inst.uses().contains(&dst));
    let before = between.iter().flat_map(|(inst, _)| inst.uses()).filter(|reg| *reg == src).count();
    let after = uses_before_change(block, at + 1, src, dst);
    let all = before as u32 + 1 + after;
    (!disturbed && all == defs.uses(src)).then_some(made)
}
