//! Comparisons: folds known ones, and looks through comparisons of comparison results.
//!
//! In: `Set` instructions and branches. Out: constants, jumps, and branches that compare directly.
//! Guarantee: a comparison is repeated only where its operands still have the same values.

use super::Definitions;
use crate::ir::arithmetic;
use crate::ir::{Block, CmpOp, Function, Inst, Operand, Terminator, VReg, Width};

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Comparison {
    op: CmpOp,
    width: Width,
    a: Operand,
    b: Operand,
}

/// The simplified form of a comparison.
enum Simpler {
    Known(bool),
    Is(Comparison),
}

/// Simplifies every comparison.
pub(super) fn simplify(function: &mut Function, defs: &Definitions) -> bool {
    let mut changed = false;
    for (index, block) in function.blocks.iter_mut().enumerate() {
        for at in 0..block.insts.len() {
            changed |= simplify_set(block, (index, at), defs);
        }
        changed |= simplify_branch(block, index, defs);
    }
    changed
}

fn simplify_set(block: &mut Block, site: (usize, usize), defs: &Definitions) -> bool {
    let Inst::Set { op, width, dst, a, b } = block.insts[site.1].0 else { return false };
    let place = ComparisonSite { block, site, defs };
    let simpler = match simpler(Comparison { op, width, a, b }, &place) {
        Simpler::Known(holds) => Inst::Copy { dst, src: Operand::Imm(i64::from(holds)) },
        Simpler::Is(Comparison { op: CmpOp::Ne, a: Operand::Reg(x), b: Operand::Imm(0), .. }) if place.is_bool(x) => {
            Inst::Copy { dst, src: x.into() }
        }
        Simpler::Is(Comparison { op, width, a, b }) => Inst::Set { op, width, dst, a, b },
    };
    let changed = simpler != block.insts[site.1].0;
    block.insts[site.1].0 = simpler;
    changed
}

fn simplify_branch(block: &mut Block, index: usize, defs: &Definitions) -> bool {
    let Terminator::Branch { op, width, a, b, then, otherwise, likely } = block.end else {
        return false;
    };
    let place = ComparisonSite { block, site: (index, block.insts.len()), defs };
    let simpler = match simpler(Comparison { op, width, a, b }, &place) {
        _ if then == otherwise => Terminator::Jump(then),
        Simpler::Known(true) => Terminator::Jump(then),
        Simpler::Known(false) => Terminator::Jump(otherwise),
        Simpler::Is(Comparison { op, width, a, b }) => Terminator::Branch { op, width, a, b, then, otherwise, likely },
    };
    let changed = simpler != block.end;
    block.end = simpler;
    changed
}

fn simpler(comparison: Comparison, place: &ComparisonSite) -> Simpler {
    let mut comparison = canonical(comparison);
    // The chain is as long as the source's; each step goes to an earlier comparison.
    while let Some(inner) = place.inner(comparison) {
        comparison = canonical(inner);
    }
    let Comparison { op, width, a, b } = comparison;
    match (op, a, b) {
        (_, Operand::Imm(x), Operand::Imm(y)) => Simpler::Known(arithmetic::compare(op, width, x as u64, y as u64)),
        (_, Operand::Reg(x), Operand::Reg(y)) if x == y => Simpler::Known(arithmetic::compare(op, width, 0, 0)),
        (CmpOp::Lt, _, Operand::Imm(0)) => Simpler::Known(false),
        (CmpOp::Ge, _, Operand::Imm(0)) => Simpler::Known(true),
        (CmpOp::Gt, _, Operand::Imm(0)) => Simpler::Is(Comparison { op: CmpOp::Ne, ..comparison }),
        (CmpOp::Le, _, Operand::Imm(0)) => Simpler::Is(Comparison { op: CmpOp::Eq, ..comparison }),
        _ => Simpler::Is(comparison),
    }
}

/// Canonical form: a constant is on the right, narrowed to the operation's width.
fn canonical(comparison: Comparison) -> Comparison {
    let Comparison { mut op, width, mut a, mut b } = comparison;
    if a.imm().is_some() && b.reg().is_some() {
        (op, a, b) = (swapped(op), b, a);
    }
    let narrow = |operand| match operand {
        Operand::Imm(value) if width == Width::W32 => Operand::Imm(i64::from(value as i32)),
        _ => operand,
    };
    Comparison { op, width, a: narrow(a), b: narrow(b) }
}

/// The equivalent comparison with its operands exchanged.
fn swapped(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Eq | CmpOp::Ne => op,
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        CmpOp::SLt => CmpOp::SGt,
        CmpOp::SLe => CmpOp::SGe,
        CmpOp::SGt => CmpOp::SLt,
        CmpOp::SGe => CmpOp::SLe,
    }
}

/// The location of a comparison.
struct ComparisonSite<'a> {
    block: &'a Block,
    site: (usize, usize),
    defs: &'a Definitions,
}

impl ComparisonSite<'_> {
    /// The comparison whose result `comparison` tests, negated if necessary.
    fn inner(&self, comparison: Comparison) -> Option<Comparison> {
        let reg = comparison.a.reg()?;
        let holds = match (comparison.op, comparison.b.imm()?) {
            (CmpOp::Ne | CmpOp::Gt, 0) | (CmpOp::Eq, 1) => true,
            (CmpOp::Eq, 0) | (CmpOp::Ne | CmpOp::Lt, 1) => false,
            _ => return None,
        };
        let Inst::Set { op, width, a, b, .. } = *self.defs.inst(reg)? else { return None };
        let made = self.defs.site(reg)?;
        let op = if holds { op } else { op.negated() };
        let same = self.is_unchanged(a, made) && self.is_unchanged(b, made);
        same.then_some(Comparison { op, width, a, b })
    }

    /// Whether an operand still has the value here that it had at an earlier instruction.
    fn is_unchanged(&self, operand: Operand, since: (usize, usize)) -> bool {
        let Operand::Reg(reg) = operand else { return true };
        let (block, at) = self.site;
        if self.defs.is_value(reg) {
            return true;
        }
        block == since.0
            && since.1 < at
            && self.block.insts[since.1 + 1..at].iter().all(|(inst, _)| inst.def() != Some(reg))
    }

    fn is_bool(&self, reg: VReg) -> bool {
        matches!(self.defs.inst(reg), Some(Inst::Set { .. }))
    }
}
