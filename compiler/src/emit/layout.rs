//! Block order and encoding.
//!
//! In: a machine function over machine registers. Out: instructions with all jump distances
//! resolved.
//! Guarantees: only reachable code is emitted (the verifier rejects unreachable code). Expected
//! paths fall through. A jump that might exceed 16 bits after the kernel's rewrites is an error,
//! never a wrong distance.

use super::Note;
use super::bpf::{self, Insn};
use super::machine::{Block, End, Function, Op, Reg, Right};
use crate::ir::{BinOp, CmpOp, Likely, Size, Width};
use crate::source::Span;

/// The instructions of one function, with their spans and notes.
#[derive(Debug, Clone, Default)]
pub(super) struct Code {
    /// The instructions; an `ld_imm64` takes two elements.
    pub insns: Vec<Insn>,
    /// For each instruction, its span in the script.
    pub spans: Vec<Span>,
    /// For each instruction, the symbol in its immediate.
    pub notes: Vec<Option<Note>>,
}

/// The maximum jump distance in instructions. The offset field has 16 bits. The kernel rejects a
/// program ("cannot be patched due to 16-bit range") if a jump no longer fits after it replaced
/// single instructions with sequences: array lookups, context accesses, pointer arithmetic. Random
/// scripts of 20,000 instructions grew by a factor of 1.5.
const MAX_JUMP_INSNS: u64 = 16_000;

/// Encodes `function`; `None` if a jump is too far.
pub(super) fn encode(function: &Function) -> Option<Code> {
    let order = block_order(function);
    let mut code = Code::default();
    let mut start = vec![0; function.blocks.len()];
    let mut jumps = Vec::new();
    // Return sequences emitted so far: a block that only returns jumps to one of them instead of
    // repeating it.
    let mut exits: Vec<(i32, usize)> = Vec::new();
    for (at, index) in order.iter().enumerate() {
        start[*index] = code.insns.len();
        let next = order.get(at + 1).copied();
        let block = &function.blocks[*index];
        if let (End::Return(value), true) = (block.end, block.ops.is_empty()) {
            let is_entered_from_above = at > 0 && falls_through(function, order[at - 1], *index);
            if let (Some((_, exit)), false) = (exits.iter().find(|(of, _)| *of == value), is_entered_from_above) {
                start[*index] = *exit;
                continue;
            }
        }
        for (op, span) in &block.ops {
            code.op(*op, *span);
        }
        if let End::Return(value) = block.end {
            exits.push((value, code.insns.len()));
        }
        code.end(function, block, next, &mut jumps);
    }
    for (at, target) in jumps {
        let distance = start[target] as i64 - at as i64 - 1;
        code.insns[at].off = i16::try_from(distance).ok().filter(|_| distance.unsigned_abs() <= MAX_JUMP_INSNS)?;
    }
    Some(code)
}

/// Whether the block placed before `index` can continue there.
fn falls_through(function: &Function, before: usize, index: usize) -> bool {
    function.blocks[before].end.successors().any(|next| resolve(function, next) == index)
}

/// The final target of a jump to `index`, after following blocks that only jump.
fn resolve(function: &Function, index: usize) -> usize {
    let mut at = index;
    // Bounded by the number of blocks, because a cycle of empty blocks has no end.
    for _ in 0..function.blocks.len() {
        match &function.blocks[at] {
            Block { ops, end: End::Jump(to), .. } if ops.is_empty() => at = *to,
            _ => return at,
        }
    }
    index
}

/// Orders blocks as traces that fall through; unlikely sides come last.
fn block_order(function: &Function) -> Vec<usize> {
    let mut order = Vec::new();
    let mut placed = vec![false; function.blocks.len()];
    let mut soon = vec![resolve(function, 0)];
    let mut late = std::collections::VecDeque::new();
    while let Some(start) = soon.pop().or_else(|| late.pop_front()) {
        let mut next = Some(start);
        while let Some(index) = next.filter(|index| !placed[*index]) {
            placed[index] = true;
            order.push(index);
            next = match function.blocks[index].end {
                End::Return(_) => None,
                End::Jump(to) => Some(resolve(function, to)),
                End::Branch { then, otherwise, likely, .. } => {
                    let (then, otherwise) = (resolve(function, then), resolve(function, otherwise));
                    let sides = preferred(function, then, otherwise, likely);
                    if sides.rest_is_unlikely {
                        late.push_back(sides.rest);
                    } else {
                        soon.push(sides.rest);
                    }
                    Some(if placed[sides.first] { sides.rest } else { sides.first })
                }
            };
        }
    }
    order
}

struct Sides {
    first: usize,
    rest: usize,
    rest_is_unlikely: bool,
}

/// Chooses the side of a branch that falls through. Without a hint: the side that does not return,
/// else `then`.
fn preferred(function: &Function, then: usize, otherwise: usize, likely: Likely) -> Sides {
    let returns = |index: usize| matches!(function.blocks[index].end, End::Return(_));
    let otherwise_first = match likely {
        Likely::Then => false,
        Likely::Otherwise => true,
        Likely::Unknown => returns(then) && !returns(otherwise),
    };
    let (first, rest) = if otherwise_first { (otherwise, then) } else { (then, otherwise) };
    Sides { first, rest, rest_is_unlikely: likely != Likely::Unknown }
}

fn number(reg: Reg) -> u8 {
    reg.0 as u8
}

impl Code {
    fn push(&mut self, insn: Insn, span: Span, note: Option<Note>) {
        self.insns.push(insn);
        self.spans.push(span);
        self.notes.push(note);
    }

    fn pair(&mut self, pair: [Insn; 2], span: Span, note: Option<Note>) {
        self.push(pair[0], span, note);
        self.push(pair[1], span, None);
    }

    fn op(&mut self, op: Op, span: Span) {
        let insn = match op {
            Op::Mov { dst, src } => Insn::mov(Width::W64, number(dst), number(src)),
            Op::Mov32 { dst, src } => Insn::mov(Width::W32, number(dst), number(src)),
            Op::Const { dst, value } => match (i32::try_from(value as i64), u32::try_from(value)) {
                (Ok(imm), _) => Insn::mov_imm(Width::W64, number(dst), imm),
                (_, Ok(imm)) => Insn::mov_imm(Width::W32, number(dst), imm as i32),
                _ => return self.pair(Insn::load_imm64(number(dst), value), span, None),
            },
            Op::MapAddr { dst, map } => {
                return self.pair(Insn::load_imm64(number(dst), 0), span, Some(Note::Map(map)));
            }
            Op::FunctionAddr { dst, function } => {
                return self.pair(Insn::load_imm64(number(dst), 0), span, Some(Note::Function(function)));
            }
            Op::DataAddr { dst, section, offset } => {
                let pair = Insn::load_imm64(number(dst), u64::from(offset));
                return self.pair(pair, span, Some(Note::Data(section, offset)));
            }
            Op::FrameAddr { dst, offset } => {
                self.push(Insn::mov(Width::W64, number(dst), number(Reg::FRAME)), span, None);
                Insn::alu_imm(BinOp::Add, Width::W64, number(dst), i32::from(offset))
            }
            Op::Alu { op, width, dst, src } => Insn::alu(op, width, number(dst), number(src)),
            Op::AluImm { op, width, dst, imm } => Insn::alu_imm(op, width, number(dst), imm),
            Op::Swap { dst, size } => Insn::to_big_endian(number(dst), size),
            Op::Load { dst, base, offset, size } => Insn::load(size, number(dst), number(base), offset),
            Op::Peek { dst, base, offset, size } => {
                return self.push(Insn::load(size, number(dst), number(base), offset), span, Some(Note::Peek));
            }
            Op::Store { base, offset, src, size } => Insn::store(size, number(base), offset, number(src)),
            Op::StoreImm { base, offset, imm, size } => Insn::store_imm(size, number(base), offset, imm),
            Op::Atomic { operation, base, offset, src, size }
            | Op::AtomicFetch { operation, base, offset, src, size } => {
                Insn::atomic(operation, size, number(base), offset, number(src))
            }
            Op::CompareExchange { base, offset, src } => {
                Insn::atomic(bpf::CMPXCHG, Size::B8, number(base), offset, number(src))
            }
            Op::CallFunction { function, .. } => {
                return self.push(Insn::call_function(function.0), span, Some(Note::Call(function)));
            }
            Op::Call { helper, .. } => {
                return self.push(Insn::call(helper as u32), span, Some(Note::Helper(helper)));
            }
        };
        self.push(insn, span, None);
    }

    fn end(&mut self, function: &Function, block: &Block, next: Option<usize>, jumps: &mut Vec<(usize, usize)>) {
        let span = block.end_span;
        match block.end {
            End::Return(value) => {
                self.push(Insn::mov_imm(Width::W64, 0, value), span, None);
                self.push(Insn::exit(), span, None);
            }
            End::Jump(to) => self.jump(resolve(function, to), span, next, jumps),
            End::Branch { op, width, left, right, then, otherwise, .. } => {
                let (then, otherwise) = (resolve(function, then), resolve(function, otherwise));
                if then == otherwise {
                    return self.jump(then, span, next, jumps);
                }
                let (op, target, rest) =
                    if next == Some(then) { (op.negated(), otherwise, then) } else { (op, then, otherwise) };
                jumps.push((self.insns.len(), target));
                self.push(branch(op, width, left, right), span, None);
                self.jump(rest, span, next, jumps);
            }
        }
    }

    fn jump(&mut self, to: usize, span: Span, next: Option<usize>, jumps: &mut Vec<(usize, usize)>) {
        if next != Some(to) {
            jumps.push((self.insns.len(), to));
            self.push(Insn::jump(), span, None);
        }
    }
}

fn branch(op: CmpOp, width: Width, left: Reg, right: Right) -> Insn {
    match right {
        Right::Reg(right) => Insn::branch(op, width, number(left), number(right)),
        Right::Imm(imm) => Insn::branch_imm(op, width, number(left), imm),
    }
}
