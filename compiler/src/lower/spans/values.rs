//! What stages of a span keep and what their handlers read.
//!
//! In: a step, a start. Out: code that reads keys and times, fills the handlers' variables, stores
//! what is kept, and runs handlers.
//! Guarantee: a variable that a start cannot fill reads as zero.

use super::place::SpanPlace;
use super::word::{STAGE_BITS, STARTED};
use crate::ir::{Addr, BinOp, CmpOp, Likely, Section, Size, VReg, Width};
use crate::lower::{Body, Value, variables};
use crate::typed::{SpanIndex, SpanStep, SpanValues, Stmt, VarIndex};

/// A start in memory that no other program may write now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub at: Addr,
    /// Its word, as it was read.
    pub word: VReg,
}

/// A start that is about to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewStart {
    pub now: VReg,
    pub word: VReg,
}

pub(super) fn place_of(cx: &Body<'_, '_>, span: SpanIndex) -> SpanPlace {
    cx.shared.span_places[span.0].clone()
}

/// The address of the key, which is in a variable.
pub(super) fn key_of_step(cx: &mut Body<'_, '_>, step: &SpanStep) -> Addr {
    key_in(cx, step.key)
}

pub(super) fn key_in(cx: &mut Body<'_, '_>, var: VarIndex) -> Addr {
    match variables::address(cx, var) {
        Some(addr) => addr,
        None => cx.memory(8, "key"),
    }
}

pub(super) fn now(cx: &mut Body<'_, '_>) -> VReg {
    cx.b.call(crate::ir::Helper::KtimeGetBootNs, &[])
}

/// Runs the handlers of an event, one after another; `return` leaves only the current one.
pub(super) fn run_handlers(cx: &mut Body<'_, '_>, handlers: &[Vec<Stmt>]) {
    for handler in handlers {
        let done = cx.b.new_block();
        let exit = std::mem::replace(&mut cx.function.exit, done);
        let in_handler = std::mem::replace(&mut cx.function.in_handler, true);
        cx.conditionally(|cx| cx.stmts(handler));
        cx.function.exit = exit;
        cx.function.in_handler = in_handler;
        cx.b.jump(done);
        cx.b.switch_to(done);
    }
}

/// Copies a start's values to the variables that handlers read. No other program may write the
/// start now.
pub(super) fn take_values(
    cx: &mut Body<'_, '_>,
    span: SpanIndex,
    values: &SpanValues,
    start: Start,
    now: Option<VReg>,
) {
    let Start { at: start, word } = start;
    let place = place_of(cx, span);
    if let (Some(var), Some(now)) = (values.elapsed, now) {
        let began = cx.b.bin(BinOp::Shr, Width::W64, word, STAGE_BITS);
        let elapsed = time_since(cx, began, now);
        variables::write(cx, var, elapsed.into());
    }
    if let (Some(var), Some(now)) = (values.lap, now) {
        let last = match place.last {
            Some(offset) => cx.b.load(start.plus(offset), Size::B8),
            None => cx.b.bin(BinOp::Shr, Width::W64, word, STAGE_BITS),
        };
        let lap = time_since(cx, last, now);
        variables::write(cx, var, lap.into());
    }
    for (stored, var) in &values.kept {
        match stored {
            None => variables::clear(cx, *var),
            Some(field) => var_from(cx, *var, start.plus(place.fields[*field])),
        }
    }
}

/// The time between two moments. If CPUs race for a key, a start can be younger than the
/// program's clock reading: then the time is 0.
pub(super) fn time_since(cx: &mut Body<'_, '_>, began: VReg, now: VReg) -> VReg {
    let passed = cx.b.copy(0);
    let (some, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Gt, Width::W64, now, began, some, done, Likely::Then);
    cx.b.switch_to(some);
    let difference = cx.b.bin(BinOp::Sub, Width::W64, now, began);
    cx.b.assign(passed, difference);
    cx.b.jump(done);
    cx.b.switch_to(done);
    passed
}

/// Zeroes these variables for a start that has just begun.
pub(super) fn zero_values(cx: &mut Body<'_, '_>, values: &SpanValues) {
    let kept = values.kept.iter().map(|(_, var)| *var);
    for var in values.elapsed.into_iter().chain(values.lap).chain(kept).collect::<Vec<_>>() {
        variables::clear(cx, var);
    }
}

/// Whether handlers read a time.
pub(super) fn needs_time(values: &SpanValues) -> bool {
    values.elapsed.is_some() || values.lap.is_some()
}

/// Evaluates what a stage keeps: either the values that read the span, or the others.
pub(super) fn evaluate_keeps(cx: &mut Body<'_, '_>, step: &SpanStep, reads_span: bool) {
    for keep in step.keeps.iter().filter(|keep| keep.reads_span == reads_span) {
        variables::assign(cx, keep.var, &keep.value);
    }
}

/// Stores what a stage keeps for later stages.
pub(super) fn store_keeps(cx: &mut Body<'_, '_>, step: &SpanStep, start: Addr) {
    let place = place_of(cx, step.span);
    for keep in &step.keeps {
        if let Some(field) = keep.stored {
            var_to(cx, keep.var, start.plus(place.fields[field]));
        }
    }
}

pub(super) fn var_to(cx: &mut Body<'_, '_>, var: VarIndex, to: Addr) {
    let ty = cx.probe.vars[var.0].ty.clone();
    let value = variables::read(cx, var);
    cx.store(value, &ty, to);
}

pub(super) fn var_from(cx: &mut Body<'_, '_>, var: VarIndex, from: Addr) {
    let ty = cx.probe.vars[var.0].ty.clone();
    match variables::address(cx, var) {
        Some(to) => {
            let size_bytes = cx.layout(&ty).size_bytes;
            cx.copy(to, from, size_bytes);
        }
        None => {
            if let Value::Scalar(value) = cx.load_as(from, &ty) {
                variables::write(cx, var, value);
            }
        }
    }
}

/// Zero bytes in read-only data.
pub(super) fn zero_bytes(cx: &mut Body<'_, '_>, size_bytes: u32) -> Addr {
    let offset = cx.shared.zeros(size_bytes);
    Addr::reg(cx.b.data_addr(Section::Rodata, offset), 0)
}

/// The word of a start at this time.
pub(super) fn started_word(cx: &mut Body<'_, '_>, now: VReg) -> VReg {
    let time = cx.b.bin(BinOp::Shl, Width::W64, now, STAGE_BITS);
    cx.b.bin(BinOp::Or, Width::W64, time, STARTED)
}
