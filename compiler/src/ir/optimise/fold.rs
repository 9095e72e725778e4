//! Constant folding, algebraic identities, strength reduction.
//!
//! In: instructions with known operands. Out: `dst = constant`, `dst = operand`, or a cheaper
//! operation.
//! Guarantee: constants become the right operand, narrowed to the operation's width; a 32-bit
//! result stays zero-extended.

use super::Definitions;
use crate::ir::arithmetic;
use crate::ir::{BinOp, Function, Inst, Operand, Size, VReg, Width};

/// Replaces each instruction with a simpler equivalent.
pub(super) fn fold(function: &mut Function, defs: &Definitions) -> bool {
    let mut changed = false;
    for (inst, _) in function.blocks.iter_mut().flat_map(|block| &mut block.insts) {
        if let Some(simpler) = simpler(inst, defs)
            && simpler != *inst
        {
            *inst = simpler;
            changed = true;
        }
    }
    changed
}

fn simpler(inst: &Inst, defs: &Definitions) -> Option<Inst> {
    match *inst {
        Inst::Bin { op, width, dst, a, b } => Some(simpler_bin(op, width, dst, (a, b), defs)),
        Inst::Extend { dst, src, size, signed } => simpler_extend(dst, src, size, signed, defs),
        Inst::Swap { dst, src, size } => {
            let value = constant(src, defs)?;
            Some(Inst::Copy { dst, src: Operand::Imm(arithmetic::swap(value, size) as i64) })
        }
        _ => None,
    }
}

/// The constant that a register holds, if its only assignment is a constant.
fn constant(reg: VReg, defs: &Definitions) -> Option<u64> {
    match defs.inst(reg)? {
        Inst::Copy { src, .. } => src.imm().map(|value| value as u64),
        _ => None,
    }
}

fn simpler_bin(op: BinOp, width: Width, dst: VReg, (a, b): (Operand, Operand), defs: &Definitions) -> Inst {
    let (op, a, b) = canonical(op, width, a, b);
    match (a, b) {
        (Operand::Imm(x), Operand::Imm(y)) => {
            let value = arithmetic::bin(op, width, x as u64, y as u64);
            Inst::Copy { dst, src: Operand::Imm(value as i64) }
        }
        (Operand::Reg(x), Operand::Imm(y)) => with_constant(op, width, dst, x, y)
            .or_else(|| reassociated(op, width, dst, (x, y), defs))
            .unwrap_or(Inst::Bin { op, width, dst, a, b }),
        (Operand::Imm(0), _) if zero_on_the_left_stays(op) => Inst::Copy { dst, src: Operand::Imm(0) },
        (Operand::Reg(x), Operand::Reg(y)) if x == y => match op {
            BinOp::Sub | BinOp::Xor => Inst::Copy { dst, src: Operand::Imm(0) },
            BinOp::And | BinOp::Or => unchanged(width, dst, x),
            _ => Inst::Bin { op, width, dst, a, b },
        },
        _ => Inst::Bin { op, width, dst, a, b },
    }
}

/// Canonical form: the constant of a commutative operation is on the right, subtraction of a
/// constant becomes addition, shift counts are masked.
fn canonical(op: BinOp, width: Width, a: Operand, b: Operand) -> (BinOp, Operand, Operand) {
    let commutes = matches!(op, BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor);
    let (a, b) = if commutes && a.imm().is_some() { (b, a) } else { (a, b) };
    let (op, b) = match (op, b) {
        (BinOp::Sub, Operand::Imm(value)) => (BinOp::Add, Operand::Imm(value.wrapping_neg())),
        (BinOp::Shl | BinOp::Shr | BinOp::Sar, Operand::Imm(count)) => {
            let most = if width == Width::W32 { 31 } else { 63 };
            (op, Operand::Imm(count & most))
        }
        _ => (op, b),
    };
    let narrow = |operand| match operand {
        Operand::Imm(value) if width == Width::W32 => Operand::Imm(i64::from(value as i32)),
        _ => operand,
    };
    (op, narrow(a), narrow(b))
}

fn zero_on_the_left_stays(op: BinOp) -> bool {
    matches!(op, BinOp::Div | BinOp::Mod | BinOp::Shl | BinOp::Shr | BinOp::Sar)
}

/// A simpler form of `x op y` for a constant y, if there is one.
fn with_constant(op: BinOp, width: Width, dst: VReg, x: VReg, y: i64) -> Option<Inst> {
    let unsigned = match width {
        Width::W64 => y as u64,
        Width::W32 => u64::from(y as u32),
    };
    let bits = i64::from(unsigned.trailing_zeros());
    let power = unsigned.is_power_of_two();
    let value = |value| Some(Inst::Copy { dst, src: Operand::Imm(value) });
    let bin = |op, b| Some(Inst::Bin { op, width, dst, a: x.into(), b: Operand::Imm(b) });
    match (op, y) {
        (BinOp::Mul | BinOp::And | BinOp::Div, 0) | (BinOp::Mod, 1) => value(0),
        (BinOp::Or, -1) => value(unsigned_ones(width)),
        _ if y == neutral(op) => Some(unchanged(width, dst, x)),
        (BinOp::Mul, _) if power => bin(BinOp::Shl, bits),
        (BinOp::Div, _) if power => bin(BinOp::Shr, bits),
        (BinOp::Mod, _) if power => bin(BinOp::And, (unsigned - 1) as i64),
        _ => None,
    }
}

/// The neutral right operand.
fn neutral(op: BinOp) -> i64 {
    match op {
        BinOp::Mul | BinOp::Div => 1,
        BinOp::And => -1,
        // x % 0 = x.
        _ => 0,
    }
}

fn unsigned_ones(width: Width) -> i64 {
    match width {
        Width::W64 => -1,
        Width::W32 => i64::from(u32::MAX),
    }
}

/// `x` as a result of the given width.
fn unchanged(width: Width, dst: VReg, x: VReg) -> Inst {
    match width {
        Width::W64 => Inst::Copy { dst, src: x.into() },
        Width::W32 => Inst::Extend { dst, src: x, size: Size::B4, signed: false },
    }
}

/// `(z op c) op y` as `z op (c op y)`.
///
/// Verifier: done only when nothing else reads `z op c`, because a comparison may bound that
/// register.
fn reassociated(op: BinOp, width: Width, dst: VReg, (x, y): (VReg, i64), defs: &Definitions) -> Option<Inst> {
    if !matches!(op, BinOp::Add | BinOp::And | BinOp::Or | BinOp::Xor) || defs.uses(x) != 1 {
        return None;
    }
    match *defs.inst(x)? {
        Inst::Bin { op: inner, width: of, a: a @ Operand::Reg(_), b: Operand::Imm(c), .. }
            if inner == op && of == width && defs.is_constant(a) =>
        {
            let both = arithmetic::bin(op, Width::W64, c as u64, y as u64) as i64;
            Some(Inst::Bin { op, width, dst, a, b: Operand::Imm(both) })
        }
        _ => None,
    }
}

fn simpler_extend(dst: VReg, src: VReg, size: Size, signed: bool, defs: &Definitions) -> Option<Inst> {
    if size == Size::B8 {
        return Some(Inst::Copy { dst, src: src.into() });
    }
    if let Some(value) = constant(src, defs) {
        let value = arithmetic::extend(value, size, signed);
        return Some(Inst::Copy { dst, src: Operand::Imm(value as i64) });
    }
    match *defs.inst(src)? {
        // The low bytes are the same before and after.
        Inst::Extend { src: inner, size: kept, .. } if size <= kept && defs.is_value(inner) => {
            Some(Inst::Extend { dst, src: inner, size, signed })
        }
        ref inst if !signed && most_bytes(inst) <= size => Some(Inst::Copy { dst, src: src.into() }),
        _ => None,
    }
}

/// The size in bytes that a result can occupy; higher bytes are zero.
fn most_bytes(inst: &Inst) -> Size {
    match inst {
        Inst::Load { size, .. }
        | Inst::Peek { size, .. }
        | Inst::Extend { size, signed: false, .. }
        | Inst::Swap { size, .. } => *size,
        Inst::Bin { width: Width::W32, .. } => Size::B4,
        Inst::Set { .. } => Size::B1,
        _ => Size::B8,
    }
}
