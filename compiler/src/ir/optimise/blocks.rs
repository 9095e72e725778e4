//! Control-flow simplification: removes unreachable blocks, threads jumps, merges blocks.
//!
//! In: any function. Out: the same function with fewer blocks, all reachable. Guarantee: block 0
//! stays the entry. A branch is decided early only where its operand was just set to a constant.

use crate::ir::arithmetic;
use crate::ir::flow::Order;
use crate::ir::{Block, BlockId, Function, Inst, Operand, Terminator, VReg};

/// Simplifies the control-flow graph.
pub(super) fn simplify(function: &mut Function) -> bool {
    let threaded = thread(function);
    let decided = decide(function);
    let dropped = drop_unreachable(function);
    let merged = merge(function);
    // Merged blocks are unreachable now.
    let emptied = merged && drop_unreachable(function);
    threaded | decided | dropped | merged | emptied
}

/// Retargets jumps to a block that only jumps.
fn thread(function: &mut Function) -> bool {
    let ends: Vec<Option<Terminator>> =
        function.blocks.iter().map(|block| block.insts.is_empty().then(|| block.end.clone())).collect();
    let last = |start: BlockId| {
        let mut at = start;
        // A cycle of empty blocks has no end; the bound stops the walk.
        for _ in 0..ends.len() {
            match ends[at.0 as usize] {
                Some(Terminator::Jump(next)) => at = next,
                _ => break,
            }
        }
        at
    };
    let mut changed = false;
    for block in &mut function.blocks {
        block.end.blocks_mut(|to| {
            let end = last(*to);
            // In a cycle of empty blocks the target stays as it is.
            let is_ring = matches!(ends[end.0 as usize], Some(Terminator::Jump(_)));
            changed |= *to != end && !is_ring;
            *to = if is_ring { *to } else { end };
        });
        if let Terminator::Jump(to) = block.end
            && let Some(end @ Terminator::Return(_)) = &ends[to.0 as usize]
        {
            block.end = end.clone();
            changed = true;
        }
    }
    changed
}

/// Retargets `r = 1; goto j` with `j: if r != 0 …` to the side that the branch takes.
fn decide(function: &mut Function) -> bool {
    let mut changed = false;
    for index in 0..function.blocks.len() {
        let Terminator::Jump(to) = function.blocks[index].end else { continue };
        let target = &function.blocks[to.0 as usize];
        if let Some(end) = decided(&function.blocks[index], target) {
            function.blocks[index].end = Terminator::Jump(end);
            changed = true;
        }
    }
    changed
}

fn decided(from: &Block, target: &Block) -> Option<BlockId> {
    if !target.insts.is_empty() {
        return None;
    }
    let Terminator::Branch { op, width, a, b, then, otherwise, .. } = target.end else {
        return None;
    };
    let known = |operand| match operand {
        Operand::Imm(value) => Some(value),
        Operand::Reg(reg) => constant_at_end(from, reg),
    };
    let holds = arithmetic::compare(op, width, known(a)? as u64, known(b)? as u64);
    Some(if holds { then } else { otherwise })
}

fn constant_at_end(block: &Block, reg: VReg) -> Option<i64> {
    match block.insts.iter().rev().find(|(inst, _)| inst.def() == Some(reg))? {
        (Inst::Copy { src: Operand::Imm(value), .. }, _) => Some(*value),
        _ => None,
    }
}

/// Appends a block with a single predecessor to that predecessor, if it ends in a jump.
fn merge(function: &mut Function) -> bool {
    let order = Order::of(function);
    let predecessors = order.predecessors(function);
    let mut changed = false;
    // In this order, a chain is merged from its head on.
    for id in &order.blocks {
        while let Terminator::Jump(to) = function.blocks[id.0 as usize].end
            && to != *id
            && to.0 != 0
            && predecessors[to.0 as usize].len() == 1
        {
            let next = &mut function.blocks[to.0 as usize];
            let insts = std::mem::take(&mut next.insts);
            let (end, end_span) = (next.end.clone(), next.end_span);
            next.end = Terminator::Return(0);
            let block = &mut function.blocks[id.0 as usize];
            block.insts.extend(insts);
            block.end = end;
            block.end_span = end_span;
            changed = true;
        }
    }
    changed
}

/// Keeps the reachable blocks, in their original order.
fn drop_unreachable(function: &mut Function) -> bool {
    let order = Order::of(function).blocks;
    if order.len() == function.blocks.len() {
        return false;
    }
    let mut kept = order;
    kept.sort_unstable();
    reorder(function, &kept);
    true
}

/// Puts the blocks in a new order. Blocks that are not in it must be unreachable, and are dropped.
pub(super) fn reorder(function: &mut Function, order: &[BlockId]) {
    let mut position = vec![BlockId(0); function.blocks.len()];
    for (new, old) in order.iter().enumerate() {
        position[old.0 as usize] = BlockId(new as u32);
    }
    let mut old: Vec<Option<Block>> = function.blocks.drain(..).map(Some).collect();
    for id in order {
        if let Some(mut block) = old[id.0 as usize].take() {
            block.end.blocks_mut(|to| *to = position[to.0 as usize]);
            function.blocks.push(block);
        }
    }
}
