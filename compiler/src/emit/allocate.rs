//! Register allocation by graph colouring.
//!
//! In: a machine function over virtual registers. Out: the same function over `r0` to `r9`. Values
//! that got no register are in 8-byte aligned stack slots, so the verifier keeps the type of a
//! spilled pointer.
//! Guarantee: every read sees the value that the virtual register had.

use super::graph::Graph;
use super::liveness::{self, RegSet};
use super::machine::{Function, Op, Reg};
use super::spill::spill;

/// Limit of spilling rounds. Each round makes the remaining live ranges shorter, so a few suffice;
/// reaching the limit is a bug.
const ROUND_LIMIT: usize = 64;

/// Assigns machine registers. `None` when the function cannot be coloured, which does not happen to
/// functions within the stack limit.
pub(super) fn allocate(function: &mut Function) -> Option<()> {
    let mut reloads = RegSet::new(0);
    for _ in 0..ROUND_LIMIT {
        let live_out = liveness::prune_and_analyse(function);
        let frequency = liveness::frequencies(function);
        let mut graph = Graph::new(function, &live_out, &frequency);
        graph.coalesce(&function.kept);
        let costs = spill_costs(function, &graph, &frequency, &reloads);
        match graph.colour(&costs) {
            Ok(colours) => {
                assign(function, &colours);
                return Some(());
            }
            Err(failed) => {
                let first_reload = function.regs;
                spill(function, &graph, &failed);
                let mut grown = RegSet::new(function.regs);
                reloads.iter().chain((first_reload..function.regs).map(Reg)).for_each(|reg| grown.insert(reg));
                reloads = grown;
            }
        }
    }
    None
}

/// The cost of keeping each node in memory: its reads and writes, weighted by block frequency.
fn spill_costs(function: &Function, graph: &Graph, frequency: &[u64], reloads: &RegSet) -> Vec<u64> {
    let mut costs = vec![0_u64; function.regs as usize];
    let mut add = |reg: Reg, cost: u64| {
        let node = graph.node(reg).0 as usize;
        costs[node] = costs[node].saturating_add(cost);
    };
    for (block, frequency) in function.blocks.iter().zip(frequency) {
        for (op, _) in &block.ops {
            op.each_use(|reg| add(reg, *frequency));
            // A constant is rematerialised where it is read, so its definitions cost nothing when
            // it is spilled.
            if op.constant_result().is_none() {
                op.each_def(|reg| add(reg, *frequency));
            }
        }
        block.end.each_use(|reg| add(reg, *frequency));
    }
    for reg in reloads.iter().chain(function.kept.iter().copied()) {
        costs[graph.node(reg).0 as usize] = u64::MAX / 64;
    }
    costs
}

/// Replaces registers with their machine registers and drops moves from a register to itself.
fn assign(function: &mut Function, colours: &[Reg]) {
    for block in &mut function.blocks {
        for (op, _) in &mut block.ops {
            op.replace(|reg, _| colours[reg.0 as usize]);
        }
        block.ops.retain(|(op, _)| !matches!(op, Op::Mov { dst, src } if dst == src));
        block.end.replace_uses(|reg| colours[reg.0 as usize]);
    }
}
