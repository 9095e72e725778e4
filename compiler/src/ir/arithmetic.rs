//! The semantics of arithmetic operations and comparisons on numbers.
//!
//! In: operand values. Out: the 64-bit result. The evaluator and constant folding share this
//! definition.
//! Guarantees: wrapping, x/0 = 0, x%0 = x, shift counts masked to the width, 32-bit results
//! zero-extended.

use super::{BinOp, CmpOp, Size, Width};

/// The result of `a op b` in that width.
pub fn bin(op: BinOp, width: Width, a: u64, b: u64) -> u64 {
    match width {
        Width::W64 => bin64(op, a, b),
        Width::W32 => u64::from(bin32(op, a as u32, b as u32)),
    }
}

fn bin64(op: BinOp, a: u64, b: u64) -> u64 {
    match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div => a.checked_div(b).unwrap_or(0),
        BinOp::Mod => a.checked_rem(b).unwrap_or(a),
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => a.wrapping_shl(b as u32),
        BinOp::Shr => a.wrapping_shr(b as u32),
        BinOp::Sar => (a as i64).wrapping_shr(b as u32) as u64,
    }
}

fn bin32(op: BinOp, a: u32, b: u32) -> u32 {
    match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div => a.checked_div(b).unwrap_or(0),
        BinOp::Mod => a.checked_rem(b).unwrap_or(a),
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => a.wrapping_shl(b),
        BinOp::Shr => a.wrapping_shr(b),
        BinOp::Sar => (a as i32).wrapping_shr(b) as u32,
    }
}

/// Whether `a op b` holds in that width.
pub fn compare(op: CmpOp, width: Width, a: u64, b: u64) -> bool {
    let (a, b, signed_a, signed_b) = match width {
        Width::W64 => (a, b, a as i64, b as i64),
        Width::W32 => (a & 0xffff_ffff, b & 0xffff_ffff, i64::from(a as i32), i64::from(b as i32)),
    };
    match op {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Lt => a < b,
        CmpOp::Le => a <= b,
        CmpOp::Gt => a > b,
        CmpOp::Ge => a >= b,
        CmpOp::SLt => signed_a < signed_b,
        CmpOp::SLe => signed_a <= signed_b,
        CmpOp::SGt => signed_a > signed_b,
        CmpOp::SGe => signed_a >= signed_b,
    }
}

/// The low `size` bytes of `value`, sign- or zero-extended.
pub fn extend(value: u64, size: Size, signed: bool) -> u64 {
    match (size, signed) {
        (Size::B1, false) => u64::from(value as u8),
        (Size::B2, false) => u64::from(value as u16),
        (Size::B4, false) => u64::from(value as u32),
        (Size::B1, true) => value as i8 as u64,
        (Size::B2, true) => value as i16 as u64,
        (Size::B4, true) => value as i32 as u64,
        (Size::B8, _) => value,
    }
}

/// The low `size` bytes of `value` in reversed order, zero-extended.
pub fn swap(value: u64, size: Size) -> u64 {
    match size {
        Size::B1 => u64::from(value as u8),
        Size::B2 => u64::from((value as u16).swap_bytes()),
        Size::B4 => u64::from((value as u32).swap_bytes()),
        Size::B8 => value.swap_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUS_ONE: u64 = u64::MAX;

    #[test]
    fn division_by_zero_is_defined() {
        assert_eq!(bin(BinOp::Div, Width::W64, 7, 0), 0);
        assert_eq!(bin(BinOp::Mod, Width::W64, 7, 0), 7);
        assert_eq!(bin(BinOp::Mod, Width::W32, MINUS_ONE, 1 << 32), 0xffff_ffff);
    }

    #[test]
    fn narrow_results_are_zero_extended() {
        assert_eq!(bin(BinOp::Add, Width::W32, 0xffff_ffff, 2), 1);
        assert_eq!(bin(BinOp::Sar, Width::W32, 0x8000_0000, 4), 0xf800_0000);
        assert_eq!(bin(BinOp::Sub, Width::W32, 0, 1), 0xffff_ffff);
    }

    #[test]
    fn shift_counts_are_masked() {
        assert_eq!(bin(BinOp::Shl, Width::W64, 1, 65), 2);
        assert_eq!(bin(BinOp::Shl, Width::W32, 1, 33), 2);
        assert_eq!(bin(BinOp::Sar, Width::W64, MINUS_ONE, 63), MINUS_ONE);
        assert_eq!(bin(BinOp::Shr, Width::W64, MINUS_ONE, 63), 1);
    }

    #[test]
    fn comparisons_look_at_their_width_and_sign() {
        assert!(compare(CmpOp::Eq, Width::W32, 1 << 32, 0));
        assert!(compare(CmpOp::Ne, Width::W64, 1 << 32, 0));
        assert!(compare(CmpOp::SLt, Width::W32, 0xffff_ffff, 0));
        assert!(compare(CmpOp::Gt, Width::W32, 0xffff_ffff, 0));
        assert!(compare(CmpOp::SLt, Width::W64, MINUS_ONE, 0));
    }

    #[test]
    fn extending_and_swapping_keep_the_low_bytes() {
        assert_eq!(extend(0x1ff, Size::B1, true), MINUS_ONE);
        assert_eq!(extend(0x1ff, Size::B1, false), 0xff);
        assert_eq!(extend(0x8000_0000, Size::B4, true), 0xffff_ffff_8000_0000);
        assert_eq!(swap(0x1_1234, Size::B2), 0x3412);
        assert_eq!(swap(0x0102_0304, Size::B4), 0x0403_0201);
    }
}
