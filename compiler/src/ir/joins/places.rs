//! Finds the registers and stack objects that a function's branches change and test.
//!
//! In: a function. Out: the registers that hold arbitrary numbers and are assigned several times;
//! the stack objects that are written in several blocks; the numbers that several branches test;
//! the sums whose tests tell the verifier about the number they were computed from. Guarantee:
//! except for such sums, no address or size is computed from a register in the result, because the
//! verifier must keep what it knows of those.

use std::collections::BTreeSet;

use super::tested;
use crate::ir::{Addr, Arg, BinOp, BlockId, Function, Helper, Inst, Operand, Section, Size, SlotId, VReg, Width};

/// What is changed and tested, by register and by stack object.
#[derive(Debug)]
pub(super) struct Places {
    numbers: Vec<bool>,
    assigned: Vec<usize>,
    tests: Vec<usize>,
    rewritten: Vec<bool>,
    /// For each register, the tests of all registers that differ from it by a constant.
    tied_tests: Vec<usize>,
    /// The total of these assignments, stores, tests and sums.
    pub changes: usize,
}

impl Places {
    /// Examines a function.
    pub(super) fn of(function: &Function) -> Places {
        let count = function.vregs as usize;
        let (mut assigned, mut tests) = (vec![0; count], vec![0; count]);
        let mut writers: Vec<BTreeSet<BlockId>> = vec![BTreeSet::new(); function.slots.len()];
        for (index, block) in function.blocks.iter().enumerate() {
            for (inst, _) in &block.insts {
                if let Some(dst) = inst.def() {
                    assigned[dst.0 as usize] += 1;
                }
                if let Some(slot) = written_slot(inst) {
                    writers[slot.0 as usize].insert(BlockId(index as u32));
                }
            }
            if let Some(reg) = tested(&block.end) {
                tests[reg.0 as usize] += 1;
            }
        }
        let rewritten = writers.iter().map(|blocks| blocks.len() > 1).collect();
        let tied_tests = tied_tests(function, &assigned, &tests);
        let mut places = Places { numbers: numbers(function), assigned, tests, rewritten, tied_tests, changes: 0 };
        let several = |counts: &[usize], places: &Places| -> usize {
            let numbers = counts.iter().zip(&places.numbers);
            numbers.filter(|(count, is_number)| **is_number && **count > 1).map(|(count, _)| count).sum()
        };
        let stores: usize = writers.iter().map(BTreeSet::len).filter(|blocks| *blocks > 1).sum();
        let insts = function.blocks.iter().flat_map(|block| &block.insts);
        let sums = insts.filter(|(inst, _)| places.tied_sum(inst).is_some()).count();
        places.changes = several(&places.assigned, &places) + several(&places.tests, &places) + stores + sums;
        places
    }

    /// Whether a register holds a number and is assigned several times.
    pub(super) fn is_place(&self, reg: VReg) -> bool {
        self.is_number(reg) && self.assigned[reg.0 as usize] > 1
    }

    /// Whether the verifier need not know anything about a register.
    pub(super) fn is_number(&self, reg: VReg) -> bool {
        self.numbers[reg.0 as usize]
    }

    /// Whether several branches test a register.
    pub(super) fn is_tested_again(&self, reg: VReg) -> bool {
        self.is_number(reg) && self.tests[reg.0 as usize] > 1
    }

    /// The result of adding a constant to a register, if branches test both this result and related
    /// registers.
    pub(super) fn tied_sum(&self, inst: &Inst) -> Option<VReg> {
        let Inst::Bin { op: BinOp::Add, width: Width::W64, dst, a: Operand::Reg(_), b: Operand::Imm(_) } = inst else {
            return None;
        };
        let at = dst.0 as usize;
        (self.assigned[at] == 1 && self.tests[at] > 0 && self.tied_tests[at] > self.tests[at]).then_some(*dst)
    }

    /// Whether a stack object is written in several blocks.
    pub(super) fn is_rewritten(&self, slot: SlotId) -> bool {
        self.rewritten[slot.0 as usize]
    }
}

/// For each register, the number of tests of all registers that equal the same root register or
/// differ from it by a constant.
fn tied_tests(function: &Function, assigned: &[usize], tests: &[usize]) -> Vec<usize> {
    let mut root: Vec<usize> = (0..tests.len()).collect();
    for (inst, _) in function.blocks.iter().flat_map(|block| &block.insts) {
        let (dst, from) = match inst {
            Inst::Copy { dst, src: Operand::Reg(from) } => (dst, from),
            Inst::Bin { op: BinOp::Add, width: Width::W64, dst, a: Operand::Reg(from), b: Operand::Imm(_) } => {
                (dst, from)
            }
            _ => continue,
        };
        if assigned[dst.0 as usize] == 1 && assigned[from.0 as usize] == 1 {
            root[dst.0 as usize] = from.0 as usize;
        }
    }
    let root_of = |reg: usize| {
        std::iter::successors(Some(reg), |at| Some(root[*at]).filter(|next| next != at))
            .take(root.len())
            .last()
            .unwrap_or(reg)
    };
    let mut of_root = vec![0; tests.len()];
    (0..tests.len()).for_each(|reg| of_root[root_of(reg)] += tests[reg]);
    (0..tests.len()).map(|reg| of_root[root_of(reg)]).collect()
}

fn written_slot(inst: &Inst) -> Option<SlotId> {
    match inst {
        Inst::Store { addr, .. } | Inst::Zero { addr, .. } | Inst::Move { to: addr, .. } => addr.base.slot(),
        _ => None,
    }
}

/// The registers that hold numbers about which the verifier need not know anything.
fn numbers(function: &Function) -> Vec<bool> {
    let count = function.vregs as usize;
    let needed = needed(function);
    let (mut is_address, mut is_typed) = (vec![false; count], vec![false; count]);
    let insts = || function.blocks.iter().flat_map(|block| &block.insts).map(|(inst, _)| inst);
    let mut changed = true;
    while changed {
        changed = false;
        for inst in insts() {
            let Some(dst) = inst.def() else { continue };
            let (address, typed) = (yields_address(inst, &is_address), yields_typed(inst, &is_typed));
            changed |= address && !std::mem::replace(&mut is_address[dst.0 as usize], address);
            changed |= typed && !std::mem::replace(&mut is_typed[dst.0 as usize], typed);
        }
    }
    (0..count).map(|reg| !needed[reg] && !is_address[reg] && !is_typed[reg]).collect()
}

fn yields_address(inst: &Inst, is_address: &[bool]) -> bool {
    let of = |operand: &Operand| matches!(operand, Operand::Reg(reg) if is_address[reg.0 as usize]);
    match inst {
        Inst::Copy { src, .. } => of(src),
        Inst::Bin { op: BinOp::Add | BinOp::Sub, a, b, .. } => of(a) || of(b),
        Inst::Context { .. } | Inst::Parameter { .. } | Inst::SlotAddr { .. } | Inst::DataAddr { .. } => true,
        Inst::Call { helper, .. } => helper.yields_address(),
        _ => false,
    }
}

/// Whether the verifier knows the result's type from where it was loaded. A value loaded from the
/// context or through an address found there, or an 8-byte field of a kernel structure, may be a
/// pointer, and the verifier allows no arithmetic on it before it was compared with 0. Results of
/// arithmetic on it count as numbers. Read-only data is the same on all paths, so tests of it add
/// no states, and the code that such tests make dead is removed.
fn yields_typed(inst: &Inst, is_typed: &[bool]) -> bool {
    match inst {
        Inst::Context { .. }
        | Inst::DataAddr { section: Section::Rodata, .. }
        | Inst::Peek { size: Size::B8, .. }
        | Inst::Call { helper: Helper::GetCurrentTaskBtf | Helper::TaskPtRegs | Helper::RdonlyCast, .. } => true,
        Inst::Copy { src: Operand::Reg(from), .. } => is_typed[from.0 as usize],
        Inst::Load { addr, .. } => addr.base.reg().is_some_and(|base| is_typed[base.0 as usize]),
        _ => false,
    }
}

/// The registers that addresses and arguments are computed from.
fn needed(function: &Function) -> Vec<bool> {
    let mut needed = vec![false; function.vregs as usize];
    let insts = || function.blocks.iter().flat_map(|block| &block.insts).map(|(inst, _)| inst);
    insts().flat_map(of_known_use).for_each(|reg| needed[reg.0 as usize] = true);
    let mut changed = true;
    while changed {
        changed = false;
        for inst in insts() {
            if !inst.def().is_some_and(|dst| needed[dst.0 as usize]) {
                continue;
            }
            let sources: &[Operand] = match inst {
                Inst::Copy { src, .. } => &[*src],
                // Masking gives a bound, whatever the masked value is.
                Inst::Bin { op: BinOp::And, b: Operand::Imm(_), .. } => &[],
                Inst::Bin { a, b, .. } => &[*a, *b],
                _ => &[],
            };
            for reg in sources.iter().filter_map(|operand| operand.reg()) {
                changed |= !std::mem::replace(&mut needed[reg.0 as usize], true);
            }
        }
    }
    needed
}

/// The registers that an instruction uses as an address or as a call argument.
fn of_known_use(inst: &Inst) -> Vec<VReg> {
    let bases = |addrs: &[Addr]| addrs.iter().filter_map(|addr| addr.base.reg()).collect();
    match inst {
        Inst::Load { addr, .. }
        | Inst::Store { addr, .. }
        | Inst::Zero { addr, .. }
        | Inst::Atomic { addr, .. }
        | Inst::Exchange { addr, .. }
        | Inst::CompareExchange { addr, .. } => bases(&[*addr]),
        Inst::Move { to, from, .. } => bases(&[*to, *from]),
        // The source of a probe read may be an address that the verifier knows.
        Inst::Call { args, .. } => {
            args.iter().filter_map(|arg| if let Arg::Value(value) = arg { value.reg() } else { None }).collect()
        }
        _ => Vec::new(),
    }
}
