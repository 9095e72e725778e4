//! The counters of a span that must balance.
//!
//! In: an outcome of a stage. Out: code that counts it in this CPU's ledger.
//! Guarantee: no count is lost to an interrupt.

use super::values;
use super::word::STAGE_MASK;
use crate::ir::{Addr, BinOp, Operand, Size, VReg, Width};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::SpanIndex;

/// This CPU's counters, in a program that changes a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ledger {
    pub base: VReg,
    pub atomic: bool,
    /// Number of stages with their own counters.
    pub stages: u32,
}

pub(super) fn ledger_of(cx: &mut Body<'_, '_>, span: SpanIndex) -> Ledger {
    let place = values::place_of(cx, span);
    let base = cx.cpu_copy(place.counters, place.stride_bytes);
    let atomic = cx.shared.facts.span_writers.get(span.0).is_none_or(crate::lower::storage::Writers::need_atomics);
    let stages = cx.shared.program.spans[span.0].stages.len() as u32;
    Ledger { base, atomic, stages: if stages > 1 { stages } else { 0 } }
}

pub(super) fn count_span(cx: &mut Body<'_, '_>, ledger: Ledger, counter: SpanCounter) {
    add_to_ledger(cx, ledger.atomic, Addr::reg(ledger.base, counter as i32 * 8), 1);
}

/// Adds `by` to the count of a known stage.
pub(super) fn count_stage(cx: &mut Body<'_, '_>, ledger: Ledger, stage: i64, by: i64) {
    if ledger.stages > 0 {
        let at = (SpanCounter::COUNT as i64 + stage - 1) * 8;
        add_to_ledger(cx, ledger.atomic, Addr::reg(ledger.base, at as i32), by);
    }
}

/// Subtracts a span from the count of the stage in its word.
pub(super) fn count_out_of(cx: &mut Body<'_, '_>, ledger: Ledger, word: VReg) {
    if ledger.stages == 0 {
        return;
    }
    let stage = cx.b.bin(BinOp::And, Width::W64, word, STAGE_MASK);
    let index = cx.b.bin(BinOp::Sub, Width::W64, stage, 1);
    // Verifier: it cannot see that the stage is bounded by construction.
    let index = cx.b.clamp(index, ledger.stages - 1);
    let distance = cx.b.bin(BinOp::Mul, Width::W64, index, 8);
    let at = cx.b.bin(BinOp::Add, Width::W64, ledger.base, distance);
    add_to_ledger(cx, ledger.atomic, Addr::reg(at, SpanCounter::COUNT as i32 * 8), -1);
}

pub(super) fn add_to_ledger(cx: &mut Body<'_, '_>, atomic: bool, addr: Addr, by: impl Into<Operand>) {
    let by = by.into();
    if atomic {
        let by = cx.b.copy(by);
        cx.b.atomic_add(addr, by, Size::B8);
    } else {
        let old = cx.b.load(addr, Size::B8);
        let new = cx.b.bin(BinOp::Add, Width::W64, old, by);
        cx.b.store(addr, new, Size::B8);
    }
}
