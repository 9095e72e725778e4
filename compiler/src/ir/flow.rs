//! The control-flow graph of a function.
//!
//! In: a function whose terminators name existing blocks. Out: block order, predecessors,
//! dominators. Each is computed separately, because passes ask often and most need only the order.
//! Guarantee: blocks that are unreachable from block 0 are in no order and dominate no other block.

use super::visit::Successors;
use super::{BlockId, Function};

/// The reachable blocks in reverse postorder: every block comes before its successors, except along
/// back edges.
#[derive(Debug, Clone)]
pub struct Order {
    /// The blocks in this order; the entry comes first.
    pub blocks: Vec<BlockId>,
    /// For each block its index in the order; `None` for unreachable blocks.
    position: Vec<Option<usize>>,
}

impl Order {
    /// The order of `function`.
    pub fn of(function: &Function) -> Order {
        let blocks = reverse_postorder(function);
        let mut position = vec![None; function.blocks.len()];
        for (at, block) in blocks.iter().enumerate() {
            position[block.0 as usize] = Some(at);
        }
        Order { blocks, position }
    }

    /// Whether the block is reachable from the entry.
    pub fn is_reachable(&self, block: BlockId) -> bool {
        self.position[block.0 as usize].is_some()
    }

    /// Whether there is a back edge. Without one, a dataflow analysis converges after one pass in
    /// this order.
    pub fn has_back_edge(&self, function: &Function) -> bool {
        self.blocks.iter().enumerate().any(|(at, block)| {
            let successors = function.blocks[block.0 as usize].end.successors();
            successors.into_iter().any(|to| self.position[to.0 as usize] <= Some(at))
        })
    }

    /// For each block, its reachable predecessors.
    pub fn predecessors(&self, function: &Function) -> Vec<Vec<BlockId>> {
        let mut predecessors = vec![Vec::new(); function.blocks.len()];
        for from in &self.blocks {
            for to in function.blocks[from.0 as usize].end.successors() {
                predecessors[to.0 as usize].push(*from);
            }
        }
        predecessors
    }
}

/// The dominator relation; valid until a terminator changes.
#[derive(Debug, Clone)]
pub struct Dominators {
    /// For each block, the times at which a walk of the dominator tree enters and leaves it; `None`
    /// for unreachable blocks.
    visits: Vec<Option<(u32, u32)>>,
    order: Vec<BlockId>,
}

impl Dominators {
    /// The dominators of `function`.
    pub fn of(function: &Function) -> Dominators {
        let order = Order::of(function);
        let immediate = dominators(&order, &order.predecessors(function));
        let visits = visits(&order.blocks, &immediate);
        Dominators { visits, order: order.blocks }
    }

    /// Whether every path from the entry to `block` passes through `by`. A block dominates itself.
    pub fn dominates(&self, by: BlockId, block: BlockId) -> bool {
        match (self.visits[by.0 as usize], self.visits[block.0 as usize]) {
            (Some((came, left)), Some((inside, _))) => came <= inside && inside < left,
            _ => by == block,
        }
    }

    /// The reachable blocks in preorder of the dominator tree: each block is followed by all blocks
    /// it dominates.
    pub fn tree(&self) -> Vec<BlockId> {
        let mut blocks = self.order.clone();
        blocks.sort_unstable_by_key(|block| self.visits[block.0 as usize]);
        blocks
    }
}

/// Numbers the dominator tree: the blocks that a block dominates have entry times between its own
/// two times. A dominance query then needs no climb through the tree, whose height grows with the
/// length of the function.
fn visits(order: &[BlockId], dominator: &[Option<BlockId>]) -> Vec<Option<(u32, u32)>> {
    let mut sizes = vec![1u32; dominator.len()];
    for id in order.iter().rev() {
        if let Some(above) = dominator[id.0 as usize] {
            sizes[above.0 as usize] += sizes[id.0 as usize];
        }
    }
    let mut visits: Vec<Option<(u32, u32)>> = vec![None; dominator.len()];
    // For each block, the entry time of its next child. A dominator precedes the blocks it
    // dominates in this order.
    let mut next = vec![0; dominator.len()];
    for id in order {
        let index = id.0 as usize;
        let came = match dominator[index] {
            Some(above) => {
                let came = next[above.0 as usize];
                next[above.0 as usize] += sizes[index];
                came
            }
            None => 0,
        };
        visits[index] = Some((came, came + sizes[index]));
        next[index] = came + 1;
    }
    visits
}

fn reverse_postorder(function: &Function) -> Vec<BlockId> {
    let mut seen = vec![false; function.blocks.len()];
    let mut postorder = Vec::with_capacity(function.blocks.len());
    let mut path: Vec<(BlockId, Successors)> = Vec::new();
    let mut next = Some(BlockId(0));
    loop {
        if let Some(block) = next.take() {
            seen[block.0 as usize] = true;
            // The last successor is visited first, so that `then` directly follows its branch in
            // the order.
            path.push((block, function.blocks[block.0 as usize].end.successors()));
        }
        let Some((block, rest)) = path.last_mut() else { break };
        match rest.next_back() {
            Some(successor) if !seen[successor.0 as usize] => next = Some(successor),
            Some(_) => {}
            None => {
                postorder.push(*block);
                path.pop();
            }
        }
    }
    postorder.reverse();
    postorder
}

/// The algorithm of Cooper, Harvey and Kennedy.
fn dominators(order: &Order, predecessors: &[Vec<BlockId>]) -> Vec<Option<BlockId>> {
    // Indexed by position; the entry is its own dominator while the algorithm runs.
    let mut above: Vec<Option<usize>> = vec![None; order.blocks.len()];
    above[0] = Some(0);
    let mut changed = true;
    while changed {
        changed = false;
        for at in 1..order.blocks.len() {
            let known = predecessors[order.blocks[at].0 as usize].iter().filter_map(|p| order.position[p.0 as usize]);
            let joined = known.filter(|p| above[*p].is_some()).reduce(|a, b| meet(&above, a, b));
            if joined != above[at] {
                above[at] = joined;
                changed = true;
            }
        }
    }
    let mut dominator = vec![None; predecessors.len()];
    for at in 1..order.blocks.len() {
        dominator[order.blocks[at].0 as usize] = above[at].map(|p| order.blocks[p]);
    }
    dominator
}

fn meet(above: &[Option<usize>], mut a: usize, mut b: usize) -> usize {
    while a != b {
        let later = if a > b { &mut a } else { &mut b };
        *later = above[*later].unwrap_or(0);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::build::FunctionBuilder;
    use crate::ir::{CmpOp, Likely, Width};
    use crate::source::Span;

    /// 0 -> 1 | 2, 1 -> 3, 2 -> 3, 3 -> 1 | 4, and the unreachable 5 -> 4.
    fn looping() -> Function {
        let mut b = FunctionBuilder::new("f", "s", Span::default());
        let blocks: Vec<BlockId> = (0..5).map(|_| b.new_block()).collect();
        let branch = |b: &mut FunctionBuilder, then, otherwise| {
            let x = b.copy(0);
            b.branch(CmpOp::Eq, Width::W64, x, 0, then, otherwise, Likely::Unknown);
        };
        branch(&mut b, blocks[0], blocks[1]);
        b.switch_to(blocks[0]);
        b.jump(blocks[2]);
        b.switch_to(blocks[1]);
        b.jump(blocks[2]);
        b.switch_to(blocks[2]);
        branch(&mut b, blocks[0], blocks[3]);
        b.switch_to(blocks[3]);
        b.ret(0);
        b.switch_to(blocks[4]);
        b.jump(blocks[3]);
        b.finish()
    }

    #[test]
    fn dominators_of_a_join_and_a_loop() {
        let function = looping();
        let flow = Dominators::of(&function);
        let immediate = [None, Some(0), Some(0), Some(0), Some(3), None];
        assert!(flow.dominates(BlockId(3), BlockId(4)));
        assert!(!flow.dominates(BlockId(1), BlockId(3)));
        // Compares with climbing the tree.
        for by in 0..5 {
            for block in 0..5 {
                let mut above = std::iter::successors(Some(block), |b: &u32| immediate[*b as usize]);
                assert_eq!(flow.dominates(BlockId(by), BlockId(block)), above.any(|b| b == by), "{by} {block}");
            }
        }
        assert!(!Order::of(&function).is_reachable(BlockId(5)));
        assert!(!flow.dominates(BlockId(5), BlockId(4)) && !flow.dominates(BlockId(0), BlockId(5)));
        let tree: Vec<u32> = flow.tree().iter().map(|b| b.0).collect();
        assert_eq!((tree[0], tree.len()), (0, 5));
        assert!(tree.iter().position(|b| *b == 4) > tree.iter().position(|b| *b == 3));
    }

    #[test]
    fn the_order_leaves_out_what_nothing_reaches() {
        let function = looping();
        let order = Order::of(&function);
        let blocks: Vec<u32> = order.blocks.iter().map(|b| b.0).collect();
        assert_eq!(blocks.len(), 5);
        assert_eq!((blocks[0], blocks[4]), (0, 4));
        assert_eq!(order.predecessors(&function)[4], [BlockId(3)]);
        assert!(order.has_back_edge(&function));
    }
}
