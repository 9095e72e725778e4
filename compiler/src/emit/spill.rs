//! Spills values from registers to the stack.
//!
//! In: a machine function and the nodes of its interference graph that got no register.
//! Out: the function with a reload before each of their reads and a store after each of their
//! writes.
//! Guarantees: the new registers live for one operation; constants and addresses are
//! rematerialised, not stored.

use super::graph::Graph;
use super::machine::{Function, Op, Reg, Role};
use crate::ir::Size;
use crate::source::Span;

/// Where the value of a spilled register is.
#[derive(Clone, Copy)]
enum Home {
    Stack(i16),
    Constant(Op),
}

/// The value that a node is assigned.
#[derive(Clone, Copy)]
enum Value {
    Unset,
    Constant(Op),
    Varies,
}

/// Spills the nodes in `failed`.
pub(super) fn spill(function: &mut Function, graph: &Graph, failed: &[Reg]) {
    let values = values(function, graph);
    let mut homes = vec![None; function.regs as usize];
    let mut slots = Vec::new();
    for node in failed {
        homes[node.0 as usize] = Some(match values[node.0 as usize] {
            Value::Constant(op) => Home::Constant(op),
            _ => Home::Stack(stack_slot(function, graph, &mut slots, *node)),
        });
    }
    let homes: Vec<Option<Home>> = (0..function.regs).map(|reg| homes[graph.node(Reg(reg)).0 as usize]).collect();
    for index in 0..function.blocks.len() {
        let ops = std::mem::take(&mut function.blocks[index].ops);
        let mut rewriter = Rewriter {
            function,
            homes: &homes,
            out: Vec::with_capacity(ops.len() * 2),
            reloads: Vec::new(),
            recent: None,
        };
        for (op, span) in ops {
            rewriter.op(op, span);
        }
        rewriter.end(index);
        function.blocks[index].ops = rewriter.out;
    }
}

/// For each node, the constant that every assignment to it sets, if there is one.
fn values(function: &Function, graph: &Graph) -> Vec<Value> {
    let mut values = vec![Value::Unset; function.regs as usize];
    for (op, _) in function.blocks.iter().flat_map(|block| &block.ops) {
        if matches!(op, Op::Mov { dst, src } if graph.node(*dst) == graph.node(*src)) {
            continue;
        }
        op.each_def(|def| {
            let value = &mut values[graph.node(def).0 as usize];
            *value = match (*value, op.constant_result()) {
                (Value::Unset, Some(_)) => Value::Constant(*op),
                (Value::Constant(known), Some(_)) if with_result(known, def) == *op => Value::Constant(known),
                _ => Value::Varies,
            };
        });
    }
    values
}

/// The operation with a different result register.
fn with_result(mut op: Op, dst: Reg) -> Op {
    op.replace(|_, _| dst);
    op
}

/// A stack slot for `node`: the offset, shared with nodes of this round that do not interfere with
/// it.
fn stack_slot(function: &mut Function, graph: &Graph, slots: &mut Vec<(i16, Vec<Reg>)>, node: Reg) -> i16 {
    if let Some((offset, nodes)) = slots.iter_mut().find(|(_, nodes)| nodes.iter().all(|n| !graph.interferes(*n, node)))
    {
        nodes.push(node);
        return *offset;
    }
    function.frame_bytes += 8;
    // A frame beyond 16 bits is rejected for its size, so the truncated offset is never used.
    let offset = (function.frame_bytes as i32).wrapping_neg() as i16;
    slots.push((offset, vec![node]));
    offset
}

struct Rewriter<'a> {
    function: &'a mut Function,
    homes: &'a [Option<Home>],
    out: Vec<(Op, Span)>,
    /// Spilled registers of the current operation, with their short-lived replacement.
    reloads: Vec<(Reg, Reg)>,
    /// A spilled register, and a register that holds the same value right after the previous
    /// operation.
    recent: Option<(Reg, Reg)>,
}

impl Rewriter<'_> {
    fn home(&self, reg: Reg) -> Option<Home> {
        self.homes.get(reg.0 as usize).copied().flatten()
    }

    fn op(&mut self, op: Op, span: Span) {
        if op.constant_result().is_some_and(|dst| matches!(self.home(dst), Some(Home::Constant(_)))) {
            return;
        }
        let recent = self.recent.take();
        self.reloads.clear();
        // A value that the previous operation left in a register needs no reload, unless this
        // operation writes it.
        if let Some((reg, holder)) = recent {
            let mut is_written = false;
            op.each_def(|def| is_written |= def == reg);
            if !is_written {
                self.reloads.push((reg, holder));
            }
        }
        match op {
            Op::Mov { dst, src } => self.copy(dst, src, span),
            _ => self.general(op, span),
        }
    }

    /// A move to or from memory is a single store or load.
    fn copy(&mut self, dst: Reg, src: Reg, span: Span) {
        match (self.home(dst), self.home(src)) {
            (None, Some(home)) if self.reloads.is_empty() => {
                self.out.push((reload(home, dst), span));
                self.recent = Some((src, dst));
            }
            (Some(Home::Stack(offset)), None) => {
                self.out.push((store(offset, src), span));
                self.recent = Some((dst, src));
            }
            (Some(Home::Stack(to)), Some(Home::Stack(from))) if to == from => {}
            (Some(Home::Constant(_)), _) => {}
            _ => self.general(Op::Mov { dst, src }, span),
        }
    }

    fn general(&mut self, mut op: Op, span: Span) {
        let forwarded = self.reloads.len();
        let mut stores = Vec::new();
        op.replace(|reg, role| {
            let Some(home) = self.home(reg) else { return reg };
            let replacement = self.replacement(reg, home, role != Role::Write, span);
            if let (true, Home::Stack(offset)) = (role != Role::Read, home) {
                stores.push((store(offset, replacement), span));
            }
            replacement
        });
        self.recent = self.reloads.get(forwarded..).and_then(<[_]>::last).copied();
        self.out.push((op, span));
        self.out.append(&mut stores);
    }

    fn end(&mut self, index: usize) {
        self.reloads.clear();
        self.reloads.extend(self.recent);
        let span = self.function.blocks[index].end_span;
        let mut end = self.function.blocks[index].end;
        end.replace_uses(|reg| self.home(reg).map_or(reg, |home| self.replacement(reg, home, true, span)));
        self.function.blocks[index].end = end;
    }

    /// The register that replaces `reg` in the current operation, reloaded if the operation reads
    /// it.
    fn replacement(&mut self, reg: Reg, home: Home, is_read: bool, span: Span) -> Reg {
        if let Some((_, replacement)) = self.reloads.iter().find(|(of, _)| *of == reg) {
            return *replacement;
        }
        let replacement = self.function.fresh();
        self.reloads.push((reg, replacement));
        if is_read {
            self.out.push((reload(home, replacement), span));
        }
        replacement
    }
}

fn reload(home: Home, dst: Reg) -> Op {
    match home {
        Home::Stack(offset) => Op::Load { dst, base: Reg::FRAME, offset, size: Size::B8 },
        Home::Constant(op) => with_result(op, dst),
    }
}

fn store(offset: i16, src: Reg) -> Op {
    Op::Store { base: Reg::FRAME, offset, src, size: Size::B8 }
}
