//! Limits the states that the kernel's verifier explores in programs with many branches.
//!
//! In: an optimised program. Out: the same program, with numbers that many branches change or test
//! hidden from the verifier.
//! Guarantee: the program computes the same results. A program with few such branches stays
//! unchanged. No register that an address or a size is computed from is hidden.
//!
//! Verifier: it follows every path until it reaches a state that it has already checked. As soon as
//! its knowledge of a number decides a comparison, states with different numbers are distinct.
//! Twenty branches that each add one of two constants produce a million states; so do twenty that
//! test conditions which are tested again later. A number to which a word loaded from memory was
//! added is unknown to the verifier, so the states become equal.

mod places;

use super::{Addr, Base, BinOp, Function, Inst, Operand, Program, Section, Size, Terminator, VReg, Width};
use crate::source::Span;
use places::Places;

/// Functions with at most this many changes and tests cause a few hundred states at most and stay
/// unchanged.
const MOST_CHANGES: usize = 16;

/// Size of the word in `.bss` that is always 0, which the verifier does not know.
const ZERO_BYTES: u32 = 8;

/// Hides numbers in functions with many branches that change or test them.
pub fn widen(program: &mut Program) {
    let zero = program.bss_size_bytes.next_multiple_of(ZERO_BYTES);
    let mut is_used = false;
    for function in program.functions.iter_mut().chain(&mut program.subprograms) {
        let places = Places::of(function);
        if places.changes > MOST_CHANGES {
            widen_function(function, &places, zero);
            is_used = true;
        }
    }
    if is_used {
        program.bss_size_bytes = zero + ZERO_BYTES;
    }
}

fn widen_function(function: &mut Function, places: &Places, zero: u32) {
    let vregs = &mut function.vregs;
    for block in &mut function.blocks {
        for (inst, span) in std::mem::take(&mut block.insts) {
            let hidden = places.hidden_result(&inst);
            let tied = places.tied_sum(&inst);
            block.insts.push((inst, span));
            if let Some(sum) = tied {
                block.insts.push((untied(sum), span));
            }
            if let Some(place) = hidden {
                block.insts.extend(plus_zero(place, place, zero, span, vregs));
            }
        }
        if let Some(tested) = places.hidden_test(&block.end) {
            let copy = new_vreg(vregs);
            block.insts.extend(plus_zero(copy, tested, zero, block.end_span, vregs));
            block.end.operands_mut(|operand| {
                if *operand == Operand::Reg(tested) {
                    *operand = Operand::Reg(copy);
                }
            });
        }
    }
}

fn new_vreg(vregs: &mut u32) -> VReg {
    *vregs += 1;
    VReg(*vregs - 1)
}

/// `dst = src + 0`, where the 0 is loaded from `.bss`. The verifier links the sum of two registers
/// to neither of them; newer verifiers link the sum of a register and a constant to that register.
fn plus_zero(dst: VReg, src: VReg, zero: u32, span: Span, vregs: &mut u32) -> [(Inst, Span); 3] {
    let (at, word) = (new_vreg(vregs), new_vreg(vregs));
    [
        Inst::DataAddr { dst: at, section: Section::Bss, offset: zero },
        Inst::Load { dst: word, addr: Addr::reg(at, 0), size: Size::B8 },
        Inst::Bin { op: BinOp::Add, width: Width::W64, dst, a: src.into(), b: word.into() },
    ]
    .map(|inst| (inst, span))
}

/// Sets `sum` to itself, so that the verifier drops its link to the register it was computed from.
fn untied(sum: VReg) -> Inst {
    Inst::Bin { op: BinOp::Or, width: Width::W64, dst: sum, a: sum.into(), b: Operand::Imm(0) }
}

impl Places {
    /// The register that an instruction assigns, if the verifier may know more of its value than it
    /// should.
    fn hidden_result(&self, inst: &Inst) -> Option<VReg> {
        let dst = inst.def()?;
        let is_place = |operand: &Operand| matches!(operand, Operand::Reg(reg) if self.is_place(*reg));
        let is_unknown = match inst {
            Inst::Copy { src, .. } => is_place(src),
            Inst::Bin { op: BinOp::Add | BinOp::Sub, width: Width::W64, a, b, .. } => is_place(a) || is_place(b),
            Inst::Load { addr: Addr { base: Base::Slot(slot), .. }, .. } => {
                return self.is_rewritten(*slot).then_some(dst).filter(|dst| self.is_number(*dst));
            }
            Inst::Load { size, .. } => *size == Size::B8,
            _ => false,
        };
        (self.is_place(dst) && !is_unknown).then_some(dst)
    }

    /// The register that a branch tests, if other branches test it too.
    fn hidden_test(&self, end: &Terminator) -> Option<VReg> {
        tested(end).filter(|reg| self.is_tested_again(*reg))
    }
}

/// The register that a branch compares with a constant.
fn tested(end: &Terminator) -> Option<VReg> {
    match end {
        Terminator::Branch { a: Operand::Reg(reg), b: Operand::Imm(_), .. }
        | Terminator::Branch { a: Operand::Imm(_), b: Operand::Reg(reg), .. } => Some(*reg),
        _ => None,
    }
}
