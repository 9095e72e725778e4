//! Stack objects: forwards stores to loads and removes dead stores.
//!
//! In: any function. Out: loads of a slot that follow a store to the same bytes in their block
//! become copies; writes to slots that are never read are removed. Guarantee: slots whose address
//! is in a register stay unchanged, because any instruction may access them.

use super::Definitions;
use crate::ir::arithmetic;
use crate::ir::{Addr, Arg, Base, Block, Function, Inst, Operand, Size, SlotId, VReg};

/// Forwards stores to loads and removes stores to slots that are never read.
pub(super) fn forward(function: &mut Function, defs: &Definitions) -> bool {
    let use_of = uses_of_slots(function);
    let mut changed = false;
    for block in &mut function.blocks {
        changed |= forward_in(block, &use_of, defs);
        let before = block.insts.len();
        block.insts.retain(|(inst, _)| match written_slot(inst) {
            Some(slot) => use_of[slot.0 as usize].is_read,
            None => true,
        });
        changed |= block.insts.len() != before;
    }
    changed
}

/// How a function uses a slot.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// Its bytes may be read.
    is_read: bool,
    /// Its address is in a register.
    escapes: bool,
}

fn uses_of_slots(function: &Function) -> Vec<Use> {
    let mut uses = vec![Use::default(); function.slots.len()];
    for (inst, _) in function.blocks.iter().flat_map(|block| &block.insts) {
        let read = match inst {
            Inst::Load { addr, .. }
            | Inst::Move { from: addr, .. }
            | Inst::Atomic { addr, .. }
            | Inst::Exchange { addr, .. }
            | Inst::CompareExchange { addr, .. } => slot_of(*addr),
            Inst::SlotAddr { slot, .. } => {
                uses[slot.0 as usize].escapes = true;
                Some(*slot)
            }
            _ => None,
        };
        for slot in read.into_iter().chain(slot_args(inst)) {
            uses[slot.0 as usize].is_read = true;
        }
    }
    uses
}

fn slot_of(addr: Addr) -> Option<SlotId> {
    match addr.base {
        Base::Slot(slot) => Some(slot),
        Base::Reg(_) => None,
    }
}

fn slot_args(inst: &Inst) -> Vec<SlotId> {
    let args = match inst {
        Inst::Call { args, .. } => args.as_slice(),
        _ => &[],
    };
    let slot = |arg: &Arg| match arg {
        Arg::Slot(slot, _) => Some(*slot),
        _ => None,
    };
    args.iter().filter_map(slot).collect()
}

/// The slot that an instruction writes, if that is its only effect.
fn written_slot(inst: &Inst) -> Option<SlotId> {
    match inst {
        Inst::Store { addr, .. } | Inst::Zero { addr, .. } | Inst::Move { to: addr, .. } => slot_of(*addr),
        _ => None,
    }
}

/// A stored value whose bytes in a slot are known.
struct Known {
    addr: Addr,
    size: Size,
    value: Operand,
}

fn forward_in(block: &mut Block, use_of: &[Use], defs: &Definitions) -> bool {
    let mut known: Vec<Known> = Vec::new();
    let mut changed = false;
    for (inst, _) in &mut block.insts {
        match *inst {
            Inst::Load { dst, addr, size } => {
                let found = known.iter().find(|k| k.addr == addr && k.size == size);
                if let Some(known) = found {
                    *inst = loaded(dst, known.value, size);
                    changed = true;
                }
            }
            Inst::Store { addr, src, size } => {
                forget(&mut known, addr, size.bytes());
                let stays = slot_of(addr).is_some_and(|slot| !use_of[slot.0 as usize].escapes);
                if stays && defs.is_constant(src) {
                    known.push(Known { addr, size, value: src });
                }
            }
            Inst::Zero { addr, size_bytes } | Inst::Move { to: addr, size_bytes, .. } => {
                forget(&mut known, addr, size_bytes);
            }
            Inst::Atomic { addr, size, .. } => forget(&mut known, addr, size.bytes()),
            Inst::Exchange { addr, .. } | Inst::CompareExchange { addr, .. } => {
                forget(&mut known, addr, 8);
            }
            Inst::Call { .. } => {
                let given = slot_args(inst);
                known.retain(|known| slot_of(known.addr).is_none_or(|slot| !given.contains(&slot)));
            }
            _ => {}
        }
    }
    changed
}

/// Drops the known values that overlap a write.
fn forget(known: &mut Vec<Known>, addr: Addr, size_bytes: u32) {
    known.retain(|k| {
        let (start, end) = (i64::from(addr.offset), i64::from(addr.offset) + i64::from(size_bytes));
        let (known_start, known_end) = (i64::from(k.addr.offset), i64::from(k.addr.offset) + i64::from(k.size.bytes()));
        k.addr.base != addr.base || end <= known_start || known_end <= start
    });
}

/// `dst` = the value that a load of the stored bytes yields.
fn loaded(dst: VReg, value: Operand, size: Size) -> Inst {
    match value {
        Operand::Reg(src) if size == Size::B8 => Inst::Copy { dst, src: src.into() },
        Operand::Reg(src) => Inst::Extend { dst, src, size, signed: false },
        Operand::Imm(value) => {
            let value = arithmetic::extend(value as u64, size, false) as i64;
            Inst::Copy { dst, src: Operand::Imm(value) }
        }
    }
}
