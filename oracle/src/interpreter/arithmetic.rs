//! Arithmetic and comparisons of the BPF VM.
//!
//! In: an operation and its operands. Out: the result.
//! Guarantee: written from the instruction set, independently of `ir::arithmetic`, which the
//! compiler folds constants with.

use profiler_compiler::ir::{BinOp, CmpOp, Width};

/// The result of an arithmetic operation on the BPF VM.
pub(super) fn binary(op: BinOp, width: Width, left: u64, right: u64) -> u64 {
    match width {
        Width::W64 => binary64(op, left, right),
        Width::W32 => u64::from(binary32(op, left as u32, right as u32)),
    }
}

fn binary64(op: BinOp, left: u64, right: u64) -> u64 {
    match op {
        BinOp::Add => left.wrapping_add(right),
        BinOp::Sub => left.wrapping_sub(right),
        BinOp::Mul => left.wrapping_mul(right),
        BinOp::Div => left.checked_div(right).unwrap_or(0),
        BinOp::Mod => left.checked_rem(right).unwrap_or(left),
        BinOp::And => left & right,
        BinOp::Or => left | right,
        BinOp::Xor => left ^ right,
        BinOp::Shl => left.wrapping_shl(right as u32),
        BinOp::Shr => left.wrapping_shr(right as u32),
        BinOp::Sar => (left as i64).wrapping_shr(right as u32) as u64,
    }
}

fn binary32(op: BinOp, left: u32, right: u32) -> u32 {
    match op {
        BinOp::Add => left.wrapping_add(right),
        BinOp::Sub => left.wrapping_sub(right),
        BinOp::Mul => left.wrapping_mul(right),
        BinOp::Div => left.checked_div(right).unwrap_or(0),
        BinOp::Mod => left.checked_rem(right).unwrap_or(left),
        BinOp::And => left & right,
        BinOp::Or => left | right,
        BinOp::Xor => left ^ right,
        BinOp::Shl => left.wrapping_shl(right),
        BinOp::Shr => left.wrapping_shr(right),
        BinOp::Sar => (left as i32).wrapping_shr(right) as u32,
    }
}

/// Whether a comparison holds on the BPF VM.
pub(super) fn compare(op: CmpOp, width: Width, left: u64, right: u64) -> bool {
    let (left, right) = match width {
        Width::W64 => (left, right),
        // Sign extension of both sides preserves the unsigned order too.
        Width::W32 => (i64::from(left as i32) as u64, i64::from(right as i32) as u64),
    };
    match op {
        CmpOp::Eq => left == right,
        CmpOp::Ne => left != right,
        CmpOp::Lt => left < right,
        CmpOp::Le => left <= right,
        CmpOp::Gt => left > right,
        CmpOp::Ge => left >= right,
        CmpOp::SLt => (left as i64) < (right as i64),
        CmpOp::SLe => (left as i64) <= (right as i64),
        CmpOp::SGt => (left as i64) > (right as i64),
        CmpOp::SGe => (left as i64) >= (right as i64),
    }
}
