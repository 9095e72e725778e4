//! The interference graph: which registers may not share a machine register.
//!
//! In: a machine function with its liveness. Out: a graph that can coalesce registers joined by a
//! move, and be coloured.
//! Guarantees: two registers with an edge never get the same machine register; the result depends
//! only on the input.

use super::liveness::RegSet;
use super::machine::{Function, Op, Reg};

/// The number of allocatable machine registers: `r0` to `r9`.
pub(super) const COLOURS: u32 = 10;

/// The graph. Nodes are registers; coalesced registers share the node that [`Graph::node`] returns.
pub(super) struct Graph {
    nodes: u32,
    words_per_row: usize,
    matrix: Vec<u64>,
    neighbours: Vec<Vec<Reg>>,
    degree: Vec<u32>,
    merged_into: Vec<Reg>,
    /// Pairs joined by a move, the most frequently executed first.
    moves: Vec<(Reg, Reg)>,
}

impl Graph {
    /// Builds the graph; all machine registers interfere with each other.
    pub(super) fn new(function: &Function, live_out: &[RegSet], frequency: &[u64]) -> Graph {
        let nodes = function.regs;
        let words_per_row = (nodes as usize).div_ceil(64);
        let mut graph = Graph {
            nodes,
            words_per_row,
            matrix: vec![0; words_per_row * nodes as usize],
            neighbours: vec![Vec::new(); nodes as usize],
            degree: vec![0; nodes as usize],
            merged_into: (0..nodes).map(Reg).collect(),
            moves: Vec::new(),
        };
        for a in 0..COLOURS {
            for b in 0..a {
                graph.connect(Reg(a), Reg(b));
            }
        }
        let mut moves = Vec::new();
        for ((block, live_out), frequency) in function.blocks.iter().zip(live_out).zip(frequency) {
            let mut live = live_out.clone();
            block.end.each_use(|reg| live.insert(reg));
            for (op, _) in block.ops.iter().rev() {
                // The two sides of a move hold the same value, so the move alone is no
                // interference.
                let copied = match op {
                    Op::Mov { dst, src } if *src != Reg::FRAME => {
                        moves.push((std::cmp::Reverse(*frequency), *dst, *src));
                        Some(*src)
                    }
                    _ => None,
                };
                op.each_def(|def| live.insert(def));
                op.each_def(|def| {
                    for other in live.iter().filter(|other| Some(*other) != copied) {
                        graph.connect(def, other);
                    }
                });
                op.each_def(|def| live.remove(def));
                op.each_use(|reg| live.insert(reg));
            }
        }
        moves.sort_by_key(|(frequency, ..)| *frequency);
        graph.moves = moves.into_iter().map(|(_, dst, src)| (dst, src)).collect();
        graph
    }

    fn cell(&self, a: Reg, b: Reg) -> (usize, u64) {
        (a.0 as usize * self.words_per_row + b.0 as usize / 64, 1 << (b.0 % 64))
    }

    /// Whether there is an edge between two nodes.
    pub(super) fn interferes(&self, a: Reg, b: Reg) -> bool {
        let (word, bit) = self.cell(a, b);
        self.matrix[word] & bit != 0
    }

    fn connect(&mut self, a: Reg, b: Reg) {
        if a == b || self.interferes(a, b) {
            return;
        }
        for (from, to) in [(a, b), (b, a)] {
            let (word, bit) = self.cell(from, to);
            self.matrix[word] |= bit;
            self.neighbours[from.0 as usize].push(to);
            self.degree[from.0 as usize] += 1;
        }
    }

    /// The node that represents a register.
    pub(super) fn node(&self, reg: Reg) -> Reg {
        let mut node = reg;
        while self.merged_into[node.0 as usize] != node {
            node = self.merged_into[node.0 as usize];
        }
        node
    }

    /// Whether a register is a node, not coalesced into another.
    fn is_node(&self, reg: Reg) -> bool {
        self.merged_into[reg.0 as usize] == reg
    }

    /// The nodes that share an edge with `node`.
    fn adjacent(&self, node: Reg) -> impl Iterator<Item = Reg> + '_ {
        self.neighbours[node.0 as usize].iter().copied().filter(|other| self.is_node(*other))
    }

    /// Coalesces the two sides of moves wherever the graph provably stays as easy to colour, except
    /// registers in `kept`.
    pub(super) fn coalesce(&mut self, kept: &[Reg]) {
        let mut moves = self.moves.clone();
        moves.retain(|(dst, src)| !kept.contains(dst) && !kept.contains(src));
        let mut changed = true;
        while changed {
            changed = false;
            for (dst, src) in &moves {
                let (dst, src) = (self.node(*dst), self.node(*src));
                // A machine register stays the representative of the registers coalesced into it.
                let (keep, gone) = if src.is_machine() || !dst.is_machine() { (src, dst) } else { (dst, src) };
                if keep != gone && !gone.is_machine() && !self.interferes(keep, gone) && self.is_safe(keep, gone) {
                    self.merge(keep, gone);
                    changed = true;
                }
            }
        }
    }

    fn is_safe(&self, keep: Reg, gone: Reg) -> bool {
        let easy = |other: Reg| !other.is_machine() && self.degree[other.0 as usize] < COLOURS;
        if keep.is_machine() {
            // George's test: each neighbour is no harder to colour than before.
            return self.adjacent(gone).all(|other| easy(other) || self.interferes(other, keep));
        }
        // Briggs' test: fewer significant neighbours than colours.
        let of_gone = self.adjacent(gone).filter(|other| !easy(*other));
        let of_keep = self.adjacent(keep).filter(|other| !easy(*other) && !self.interferes(*other, gone));
        of_gone.chain(of_keep).count() < COLOURS as usize
    }

    fn merge(&mut self, keep: Reg, gone: Reg) {
        self.merged_into[gone.0 as usize] = keep;
        for other in std::mem::take(&mut self.neighbours[gone.0 as usize]) {
            if !self.is_node(other) {
                continue;
            }
            self.degree[other.0 as usize] -= 1;
            self.connect(keep, other);
        }
    }

    /// Assigns every node a machine register, or returns the nodes that got none. `cost` is the
    /// cost of spilling each node.
    pub(super) fn colour(&self, cost: &[u64]) -> Result<Vec<Reg>, Vec<Reg>> {
        let order = self.simplify(cost);
        let mut colours: Vec<Option<Reg>> = (0..self.nodes).map(|n| (n < COLOURS).then_some(Reg(n))).collect();
        let partners = self.partners();
        let mut failed = Vec::new();
        for node in order.into_iter().rev() {
            let mut taken = [false; COLOURS as usize];
            for colour in self.adjacent(node).filter_map(|other| colours[other.0 as usize]) {
                taken[colour.0 as usize] = true;
            }
            let is_free = |colour: Reg| !taken[colour.0 as usize];
            let wanted =
                partners[node.0 as usize].iter().filter_map(|other| colours[other.0 as usize]).find(|c| is_free(*c));
            match wanted.or_else(|| COLOUR_PREFERENCE.into_iter().map(Reg).find(|c| is_free(*c))) {
                Some(colour) => colours[node.0 as usize] = Some(colour),
                None => failed.push(node),
            }
        }
        if !failed.is_empty() {
            return Err(failed);
        }
        Ok((0..self.nodes).map(|reg| colours[self.node(Reg(reg)).0 as usize].unwrap_or(Reg(reg))).collect())
    }

    /// For each node, the nodes at the other end of moves that could not be coalesced.
    fn partners(&self) -> Vec<Vec<Reg>> {
        let mut partners = vec![Vec::new(); self.nodes as usize];
        for (dst, src) in &self.moves {
            let (dst, src) = (self.node(*dst), self.node(*src));
            if dst != src {
                partners[dst.0 as usize].push(src);
                partners[src.0 as usize].push(dst);
            }
        }
        partners
    }

    /// The order in which nodes are removed from the graph: those of low degree first, then the one
    /// with the lowest cost per degree.
    fn simplify(&self, cost: &[u64]) -> Vec<Reg> {
        let mut degree = self.degree.clone();
        let mut gone: Vec<bool> = (0..self.nodes).map(|n| n < Reg::FIRST_VIRTUAL || !self.is_node(Reg(n))).collect();
        let mut left = gone.iter().filter(|gone| !**gone).count();
        let mut easy: Vec<Reg> =
            (0..self.nodes).rev().map(Reg).filter(|n| !gone[n.0 as usize] && degree[n.0 as usize] < COLOURS).collect();
        let mut order = Vec::with_capacity(left);
        while left > 0 {
            let next = match easy.pop() {
                Some(node) if gone[node.0 as usize] => continue,
                Some(node) => node,
                None => self.cheapest(&gone, &degree, cost),
            };
            gone[next.0 as usize] = true;
            left -= 1;
            order.push(next);
            for other in self.adjacent(next) {
                let other_degree = &mut degree[other.0 as usize];
                *other_degree = other_degree.saturating_sub(1);
                if *other_degree == COLOURS - 1 && !gone[other.0 as usize] {
                    easy.push(other);
                }
            }
        }
        order
    }

    fn cheapest(&self, gone: &[bool], degree: &[u32], cost: &[u64]) -> Reg {
        let score = |node: Reg| cost[node.0 as usize].saturating_mul(64) / u64::from(degree[node.0 as usize].max(1));
        let candidates = (0..self.nodes).map(Reg).filter(|node| !gone[node.0 as usize]);
        candidates.min_by_key(|node| score(*node)).unwrap_or(Reg::FRAME)
    }
}

/// Caller-saved registers come first, because the kernel's JIT must save and restore the others.
const COLOUR_PREFERENCE: [u32; COLOURS as usize] = [1, 2, 3, 4, 5, 0, 6, 7, 8, 9];
