//! The bytes of an aggregation for one key.
//!
//! In: their address and how they may be updated concurrently. Out: code that changes them.
//! Guarantee: no update is lost to another CPU or to an interrupt.

use crate::ir::{Addr, BinOp, CmpOp, Inst, Likely, Operand, Size, VReg, Width};
use crate::lower::Body;

/// An aggregation's bytes for a key.
#[derive(Debug, Clone)]
pub struct AggregateSlot {
    /// Address of the first byte.
    pub addr: Addr,
    /// Whether another program or CPU may update the same bytes concurrently.
    pub atomic: bool,
    /// Whether the values are signed.
    pub signed: bool,
    /// The constant arguments of the aggregation.
    pub params: Vec<i64>,
    pub size_bytes: u32,
    /// The value's bucket, for aggregations that compute it before the look-up.
    pub bucket: Option<VReg>,
}

impl AggregateSlot {
    /// The `index`-th constant; 0 if there are fewer.
    pub fn param(&self, index: usize) -> i64 {
        self.params.get(index).copied().unwrap_or(0)
    }

    /// The same slot, starting at a later byte.
    #[must_use]
    pub fn plus(&self, offset_bytes: i32) -> AggregateSlot {
        AggregateSlot { addr: self.addr.plus(offset_bytes), ..self.clone() }
    }

    /// Adds to 8 bytes of an aggregation.
    pub fn add(&self, cx: &mut Body<'_, '_>, offset: i32, value: Operand) {
        let addr = self.addr.plus(offset);
        if self.atomic {
            let value = cx.b.copy(value);
            cx.b.atomic_add(addr, value, Size::B8);
        } else {
            let old = cx.b.load(addr, Size::B8);
            let new = cx.b.bin(BinOp::Add, Width::W64, old, value);
            cx.b.store(addr, new, Size::B8);
        }
    }

    /// Raises 8 bytes of an aggregation to at least this number (unsigned).
    pub fn raise(&self, cx: &mut Body<'_, '_>, value: VReg) {
        /// Each failed attempt means that another CPU raised it, which happens less and less often.
        const TRIES: u32 = 8;
        let done = cx.b.new_block();
        for _ in 0..if self.atomic { TRIES } else { 1 } {
            let old = cx.b.load(self.addr, Size::B8);
            let raise = cx.b.new_block();
            cx.b.branch(CmpOp::Gt, Width::W64, value, old, raise, done, Likely::Unknown);
            cx.b.switch_to(raise);
            if !self.atomic {
                cx.b.store(self.addr, value, Size::B8);
                break;
            }
            let (seen, again) = (cx.b.new_vreg(), cx.b.new_block());
            cx.b.inst(Inst::CompareExchange { dst: seen, addr: self.addr, expected: old, new: value });
            cx.branch(CmpOp::Eq, seen, old, done, again);
            cx.b.switch_to(again);
        }
        cx.b.jump(done);
        cx.b.switch_to(done);
    }

    /// Adds 1 to the `index`-th of an aggregation's `len` `u64` counters.
    pub fn bump(&self, cx: &mut Body<'_, '_>, index: VReg, len: u32) {
        // Verifier: it cannot see that the index is bounded by construction.
        let index = cx.b.clamp(index, len - 1);
        let distance = cx.b.bin(BinOp::Shl, Width::W64, index, 3);
        let base = cx.address(self.addr);
        let at = cx.b.bin(BinOp::Add, Width::W64, base, distance);
        let bucket = AggregateSlot { addr: Addr::reg(at, 0), ..self.clone() };
        bucket.add(cx, 0, Operand::Imm(1));
    }
}
