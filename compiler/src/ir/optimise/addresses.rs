//! Addresses: memory accesses use their base directly.
//!
//! In: accesses through `&slot+4` or `base + 4` in a register. Out: accesses of `[slot+4]` or
//! `[base+4]`. Guarantee: a resolved slot access lies inside its slot and is aligned; other
//! accesses stay as they are.

use super::Definitions;
use crate::ir::{Addr, Arg, Base, BinOp, Function, Inst, Operand, Slot, VReg, Width};

/// Resolves the addresses in every instruction.
pub(super) fn resolve(function: &mut Function, defs: &Definitions) -> bool {
    let Function { blocks, slots, .. } = function;
    let mut changed = false;
    for (inst, _) in blocks.iter_mut().flat_map(|block| &mut block.insts) {
        changed |= resolve_in(inst, defs, slots);
    }
    changed
}

fn resolve_in(inst: &mut Inst, defs: &Definitions, slots: &[Slot]) -> bool {
    let in_addr = |addr: &mut Addr, size_bytes: u32, align_bytes: u32| {
        let Some(direct) = direct(*addr, defs) else { return false };
        let fits = match direct.base {
            Base::Reg(_) => true,
            Base::Slot(slot) => {
                slots.get(slot.0 as usize).is_some_and(|slot| contains(slot, direct.offset, size_bytes, align_bytes))
            }
        };
        if fits {
            *addr = direct;
        }
        fits
    };
    match inst {
        Inst::Load { addr, size, .. } | Inst::Store { addr, size, .. } | Inst::Atomic { addr, size, .. } => {
            in_addr(addr, size.bytes(), size.bytes())
        }
        Inst::Exchange { addr, .. } | Inst::CompareExchange { addr, .. } => in_addr(addr, 8, 8),
        Inst::Zero { addr, size_bytes } => in_addr(addr, *size_bytes, if *size_bytes >= 8 { 8 } else { 1 }),
        Inst::Move { to, from, size_bytes, align_bytes } => {
            in_addr(to, *size_bytes, *align_bytes) | in_addr(from, *size_bytes, *align_bytes)
        }
        Inst::Call { args, .. } => args.iter_mut().fold(false, |c, arg| in_arg(arg, defs) | c),
        Inst::Bin { op: BinOp::Add, width: Width::W64, dst, a: Operand::Reg(base), b } => {
            let Some(sum) = b.imm().and_then(|by| slot_sum(*dst, *base, by, defs, slots)) else {
                return false;
            };
            *inst = sum;
            true
        }
        _ => false,
    }
}

/// The address with one register step removed.
fn direct(addr: Addr, defs: &Definitions) -> Option<Addr> {
    let Base::Reg(reg) = addr.base else { return None };
    let (base, offset) = match *defs.inst(reg)? {
        Inst::SlotAddr { slot, offset, .. } => (Base::Slot(slot), i64::from(offset)),
        Inst::Bin { op: BinOp::Add, width: Width::W64, a: Operand::Reg(base), b, .. } if defs.is_value(base) => {
            (Base::Reg(base), b.imm()?)
        }
        _ => return None,
    };
    // A BPF instruction has a 16-bit offset field.
    let offset = i16::try_from(offset.checked_add(i64::from(addr.offset))?).ok()?;
    Some(Addr { base, offset: i32::from(offset) })
}

fn contains(slot: &Slot, offset: i32, size_bytes: u32, align_bytes: u32) -> bool {
    let end = i64::from(offset) + i64::from(size_bytes);
    offset >= 0
        && end <= i64::from(slot.size_bytes)
        && align_bytes <= slot.align_bytes
        && (offset as u32).is_multiple_of(align_bytes)
}

fn in_arg(arg: &mut Arg, defs: &Definitions) -> bool {
    let Arg::Value(Operand::Reg(reg)) = *arg else { return false };
    let Some(Inst::SlotAddr { slot, offset, .. }) = defs.inst(reg) else { return false };
    *arg = Arg::Slot(*slot, *offset);
    true
}

/// `&slot + by` as a single instruction.
fn slot_sum(dst: VReg, base: VReg, by: i64, defs: &Definitions, slots: &[Slot]) -> Option<Inst> {
    let Inst::SlotAddr { slot, offset, .. } = *defs.inst(base)? else { return None };
    let sum = i32::try_from(i64::from(offset).checked_add(by)?).ok()?;
    let inside = slots.get(slot.0 as usize).is_some_and(|slot| contains(slot, sum, 1, 1));
    inside.then_some(Inst::SlotAddr { dst, slot, offset: sum })
}
