//! Instruction selection for memory: loads, stores, clears, copies, atomics.
//!
//! In: an IR instruction that accesses memory. Out: operations appended to the selector's current
//! block.
//! Guarantee: a stack load or store is never wider than the alignment known there, because the
//! verifier is strict about it.

use super::bpf;
use super::machine::{Op, Reg};
use super::select::{Selector, atomic_operation, virtual_reg};
use crate::ir::{Addr, Helper, Inst, Operand, Size};

/// Above this size in bytes, a clear or copy is one helper call instead of a sequence of stores.
const UNROLL_LIMIT_BYTES: u32 = 2048;

/// Selects operations for a memory instruction; other instructions must not be passed.
pub(super) fn inst(selector: &mut Selector<'_>, inst: &Inst) {
    match *inst {
        Inst::Load { dst, addr, size } => {
            let (base, offset) = selector.address(addr);
            selector.push(Op::Load { dst: virtual_reg(dst), base, offset, size });
        }
        Inst::Peek { dst, base, offset, size } => {
            selector.push(Op::Peek { dst: virtual_reg(dst), base: virtual_reg(base), offset, size });
        }
        Inst::Store { addr, src, size } => store(selector, addr, src, size),
        Inst::Zero { addr, size_bytes } => zero(selector, addr, size_bytes),
        Inst::Move { to, from, size_bytes, align_bytes } => copy(selector, to, from, size_bytes, align_bytes),
        Inst::Atomic { op, addr, src, fetch: None, size } => {
            let (base, offset) = selector.address(addr);
            let operation = atomic_operation(op, false);
            selector.push(Op::Atomic { operation, base, offset, src: virtual_reg(src), size });
        }
        Inst::Atomic { op, addr, src, fetch: Some(dst), size } => {
            fetch(selector, atomic_operation(op, true), addr, (virtual_reg(src), virtual_reg(dst)), size);
        }
        Inst::Exchange { dst, addr, src } => {
            fetch(selector, bpf::XCHG, addr, (virtual_reg(src), virtual_reg(dst)), Size::B8);
        }
        Inst::CompareExchange { dst, addr, expected, new } => {
            let (base, offset) = selector.address(addr);
            selector.push(Op::Mov { dst: Reg::machine(0), src: virtual_reg(expected) });
            selector.push(Op::CompareExchange { base, offset, src: virtual_reg(new) });
            selector.push(Op::Mov { dst: virtual_reg(dst), src: Reg::machine(0) });
        }
        _ => {}
    }
}

fn store(selector: &mut Selector<'_>, addr: Addr, src: Operand, size: Size) {
    let (base, offset) = selector.address(addr);
    let value = match src {
        Operand::Reg(src) => {
            return selector.push(Op::Store { base, offset, src: virtual_reg(src), size });
        }
        Operand::Imm(value) => value,
    };
    let imm = match size {
        Size::B1 => Some(i32::from(value as u8)),
        Size::B2 => Some(i32::from(value as u16)),
        Size::B4 => Some(value as i32),
        Size::B8 => i32::try_from(value).ok(),
    };
    if let Some(imm) = imm {
        return selector.push(Op::StoreImm { base, offset, imm, size });
    }
    let src = selector.fresh();
    selector.push(Op::Const { dst: src, value: value as u64 });
    selector.push(Op::Store { base, offset, src, size });
}

/// A fetching atomic overwrites its source register with the old value, so it works on a copy.
fn fetch(selector: &mut Selector<'_>, operation: i32, addr: Addr, (src, dst): (Reg, Reg), size: Size) {
    let (base, offset) = selector.address(addr);
    let exchanged = selector.fresh();
    selector.push(Op::Mov { dst: exchanged, src });
    selector.push(Op::AtomicFetch { operation, base, offset, src: exchanged, size });
    selector.push(Op::Mov { dst, src: exchanged });
}

fn zero(selector: &mut Selector<'_>, addr: Addr, size_bytes: u32) {
    if size_bytes > UNROLL_LIMIT_BYTES {
        // A read from address 0 fails, and a failed read zeroes its destination.
        return read_kernel(selector, addr, None, size_bytes);
    }
    let contract = if size_bytes >= 8 { 8 } else { 1 };
    let align = selector.known_alignment(addr).unwrap_or(contract);
    for (offset, size) in pieces(size_bytes, align) {
        let (base, offset) = selector.address(addr.plus(offset));
        selector.push(Op::StoreImm { base, offset, imm: 0, size });
    }
}

fn copy(selector: &mut Selector<'_>, to: Addr, from: Addr, size_bytes: u32, align_bytes: u32) {
    if size_bytes > UNROLL_LIMIT_BYTES {
        return read_kernel(selector, to, Some(from), size_bytes);
    }
    let align = [to, from].into_iter().filter_map(|addr| selector.known_alignment(addr)).fold(align_bytes, u32::min);
    for (offset, size) in pieces(size_bytes, align) {
        let value = selector.fresh();
        let (base, from_offset) = selector.address(from.plus(offset));
        selector.push(Op::Load { dst: value, base, offset: from_offset, size });
        let (base, to_offset) = selector.address(to.plus(offset));
        selector.push(Op::Store { base, offset: to_offset, src: value, size });
    }
}

fn read_kernel(selector: &mut Selector<'_>, to: Addr, from: Option<Addr>, size_bytes: u32) {
    match from {
        Some(from) => selector.address_of(Reg::machine(3), from),
        None => selector.push(Op::Const { dst: Reg::machine(3), value: 0 }),
    }
    selector.address_of(Reg::machine(1), to);
    selector.push(Op::Const { dst: Reg::machine(2), value: u64::from(size_bytes) });
    selector.push(Op::Call { helper: Helper::ProbeReadKernel, arguments: 3 });
}

/// Splits a range into accesses, widest first, none wider than `align_bytes`.
fn pieces(size_bytes: u32, align_bytes: u32) -> impl Iterator<Item = (i32, Size)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = size_bytes - at;
        let size = [Size::B8, Size::B4, Size::B2, Size::B1]
            .into_iter()
            .find(|size| size.bytes() <= left && size.bytes() <= align_bytes.max(1))?;
        let piece = (at as i32, size);
        at += size.bytes();
        Some(piece)
    })
}
