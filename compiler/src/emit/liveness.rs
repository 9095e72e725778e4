//! Liveness analysis and block frequencies.
//!
//! In: a machine function. Out: the registers live at the end of each block, and the estimated
//! frequency of each block.
//! Guarantee: a register that is read on some path from a point is live at that point; unreachable
//! blocks have empty sets.

use super::machine::{Function, Reg};
use crate::ir::Likely;

use super::machine::End;

/// A set of registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegSet {
    words: Vec<u64>,
}

impl RegSet {
    /// The empty set, with capacity for `regs` registers.
    pub(super) fn new(regs: u32) -> RegSet {
        RegSet { words: vec![0; (regs as usize).div_ceil(64)] }
    }

    /// Adds a register. The frame pointer is always live and never in a set.
    pub(super) fn insert(&mut self, reg: Reg) {
        if reg != Reg::FRAME {
            self.words[reg.0 as usize / 64] |= 1 << (reg.0 % 64);
        }
    }

    /// Removes a register.
    pub(super) fn remove(&mut self, reg: Reg) {
        self.words[reg.0 as usize / 64] &= !(1 << (reg.0 % 64));
    }

    /// Whether the set contains a register.
    pub(super) fn contains(&self, reg: Reg) -> bool {
        self.words[reg.0 as usize / 64] & (1 << (reg.0 % 64)) != 0
    }

    /// Adds the registers of `other`; returns whether the set changed.
    pub(super) fn union(&mut self, other: &RegSet) -> bool {
        let mut changed = false;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            changed |= *more & !*word != 0;
            *word |= more;
        }
        changed
    }

    /// The registers in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Reg> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(Reg(index as u32 * 64 + bit))
            })
        })
    }
}

/// Removes operations whose result is never read; returns the registers live at the end of each
/// block.
pub(super) fn prune_and_analyse(function: &mut Function) -> Vec<RegSet> {
    loop {
        let live_out = analyse(function);
        if !prune(function, &live_out) {
            return live_out;
        }
    }
}

fn analyse(function: &Function) -> Vec<RegSet> {
    let order = postorder(function);
    let mut live_out = vec![RegSet::new(function.regs); function.blocks.len()];
    let mut live_in = live_out.clone();
    let mut changed = true;
    while changed {
        changed = false;
        for index in &order {
            let block = &function.blocks[*index];
            for next in block.end.successors() {
                live_out[*index].union(&live_in[next]);
            }
            let mut live = live_out[*index].clone();
            block.end.each_use(|reg| live.insert(reg));
            for (op, _) in block.ops.iter().rev() {
                op.each_def(|reg| live.remove(reg));
                op.each_use(|reg| live.insert(reg));
            }
            changed |= live_in[*index].union(&live);
        }
    }
    live_out
}

fn prune(function: &mut Function, live_out: &[RegSet]) -> bool {
    let mut removed = false;
    for (block, live_out) in function.blocks.iter_mut().zip(live_out) {
        let mut live = live_out.clone();
        block.end.each_use(|reg| live.insert(reg));
        let mut keep = vec![true; block.ops.len()];
        for (index, (op, _)) in block.ops.iter().enumerate().rev() {
            if op.pure_result().is_some_and(|dst| !live.contains(dst)) {
                keep[index] = false;
                removed = true;
                continue;
            }
            op.each_def(|reg| live.remove(reg));
            op.each_use(|reg| live.insert(reg));
        }
        let mut keep = keep.into_iter();
        block.ops.retain(|_| keep.next().unwrap_or(true));
    }
    removed
}

/// The reachable blocks in postorder: each after its successors (except along back edges).
pub(super) fn postorder(function: &Function) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; function.blocks.len()];
    let mut stack = vec![(0, function.blocks[0].end.successors())];
    seen[0] = true;
    while let Some((index, successors)) = stack.last_mut() {
        match successors.next() {
            Some(next) if !seen[next] => {
                seen[next] = true;
                stack.push((next, function.blocks[next].end.successors()));
            }
            Some(_) => {}
            None => {
                order.push(*index);
                stack.pop();
            }
        }
    }
    order
}

/// Estimated block frequencies: multiplied by 8 for each enclosing loop, divided by 8 on an
/// unlikely side.
pub(super) fn frequencies(function: &Function) -> Vec<u64> {
    const ONCE: u64 = 8;
    let order = postorder(function);
    let mut position = vec![usize::MAX; function.blocks.len()];
    for (at, index) in order.iter().enumerate() {
        position[*index] = at;
    }
    let mut frequency = vec![ONCE; function.blocks.len()];
    let mut predecessors = vec![Vec::new(); function.blocks.len()];
    for index in &order {
        for next in function.blocks[*index].end.successors() {
            predecessors[next].push(*index);
        }
    }
    for index in &order {
        for next in function.blocks[*index].end.successors() {
            if position[next] >= position[*index] {
                for member in natural_loop(next, *index, &predecessors) {
                    frequency[member] = frequency[member].saturating_mul(8).min(1 << 40);
                }
            }
        }
        if let Some(cold) = unlikely_side(&function.blocks[*index].end) {
            frequency[cold] /= 8;
        }
    }
    frequency
}

/// The unlikely side of a branch, if there is one.
pub(super) fn unlikely_side(end: &End) -> Option<usize> {
    match *end {
        End::Branch { otherwise, likely: Likely::Then, .. } => Some(otherwise),
        End::Branch { then, likely: Likely::Otherwise, .. } => Some(then),
        _ => None,
    }
}

/// The blocks of the natural loop with header `head` and back edge from `tail`.
fn natural_loop(head: usize, tail: usize, predecessors: &[Vec<usize>]) -> Vec<usize> {
    let mut members = vec![head];
    let mut waiting = vec![tail];
    while let Some(index) = waiting.pop() {
        if !members.contains(&index) {
            members.push(index);
            waiting.extend(&predecessors[index]);
        }
    }
    members
}
