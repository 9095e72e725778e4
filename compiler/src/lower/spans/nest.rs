//! Spans of recursive functions: a stack of frames under a key.
//!
//! In: steps of a span with `restart nest`. Out: code.
//! Guarantee: the key contains the current thread, so only one program at a time uses a stack.
//! Starts beyond the maximum depth are dropped, and so are their ends, so the ends of the frames
//! below still meet their own starts. If starts and ends are the entries and returns of functions,
//! an end meets the start of its own call even if other calls were left without an end (see
//! `jumps`).

use super::claim::{self, CREATE};
use super::place::{MAX_DEPTH, SpanPlace};
use super::values::{self, NewStart, Start};
use super::{events, jumps, open};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Size, VReg, Width};
use crate::lower::Body;
use crate::lower::maps::{self, NOEXIST};
use crate::object::{Attach, SpanCounter};
use crate::typed::{SpanAction, SpanStep};

/// Offset of the frames: after the depth.
pub(super) const FRAMES: i32 = 8;

/// The topmost frame of a stack.
struct Topmost {
    /// The number of frames below it.
    below: VReg,
    frame: Addr,
}

pub(super) fn push_frame(cx: &mut Body<'_, '_>, step: &SpanStep) {
    let place = values::place_of(cx, step.span);
    let key = values::key_of_step(cx, step);
    let NewStart { now, word } = events::begin_start(cx, step);
    let (full, deep, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    let element = if place.in_threads { own_frames(cx, &place, full) } else { frames_of(cx, &place, key, full) };
    let pointer = place.stack_pointer.map(|_| jumps::stack_pointer(cx));
    let depth = match pointer {
        Some(pointer) => jumps::settle_calls(cx, step, &place, element, pointer),
        None => cx.b.load(Addr::reg(element, 0), Size::B8),
    };
    let deeper = cx.b.bin(BinOp::Add, Width::W64, depth, 1);
    if pointer.is_none() {
        cx.b.store(Addr::reg(element, 0), deeper, Size::B8);
    }
    let fits = cx.b.new_block();
    cx.b.branch(CmpOp::Lt, Width::W64, depth, i64::from(MAX_DEPTH), fits, deep, Likely::Then);
    cx.b.switch_to(fits);
    let frame = frame_at(cx, &place, element, depth);
    open::write_start(cx, step, &place, frame, now);
    // Dropped calls are recognized by their stack pointers, and need no depth.
    if let (Some(offset), Some(pointer)) = (place.stack_pointer, pointer) {
        cx.b.store(frame.plus(offset), pointer, Size::B8);
        cx.b.store(Addr::reg(element, 0), deeper, Size::B8);
    }
    cx.b.store(frame, word, Size::B8);
    events::count_opened(cx, step, done);
    let refused = if place.in_threads { SpanCounter::DroppedBusy } else { SpanCounter::DroppedFull };
    events::count_failures(cx, step, [(full, refused), (deep, SpanCounter::DroppedDeep)], done);
}

/// The current thread's stack, created if there is none; jumps to `refused` if the kernel
/// cannot create it now.
fn own_frames(cx: &mut Body<'_, '_>, place: &SpanPlace, refused: BlockId) -> VReg {
    let element = claim::in_storage(cx, place, CREATE);
    let there = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, element, 0, there, refused, Likely::Then);
    cx.b.switch_to(there);
    element
}

/// The stack of a key, created if there is none; jumps to `full` if the map is full.
fn frames_of(cx: &mut Body<'_, '_>, place: &SpanPlace, key: Addr, full: BlockId) -> VReg {
    let element = cx.b.new_vreg();
    let (found, miss, got) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    let first = maps::look_up(cx, place.id, key);
    cx.b.branch(CmpOp::Ne, Width::W64, first, 0, found, miss, Likely::Unknown);
    cx.b.switch_to(found);
    cx.b.assign(element, first);
    cx.b.jump(got);
    cx.b.switch_to(miss);
    let size_bytes = cx.shared.ir.maps[place.id.0 as usize].value_size_bytes;
    let zeros = values::zero_bytes(cx, size_bytes);
    maps::update(cx, place.id, key, zeros, NOEXIST);
    let made = maps::look_up(cx, place.id, key);
    let there = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, made, 0, there, full, Likely::Then);
    cx.b.switch_to(there);
    cx.b.assign(element, made);
    cx.b.jump(got);
    cx.b.switch_to(got);
    element
}

pub(super) fn frame_at(cx: &mut Body<'_, '_>, place: &SpanPlace, element: VReg, index: VReg) -> Addr {
    // Verifier: it cannot see that the depth is bounded by construction.
    let index = cx.b.clamp(index, MAX_DEPTH - 1);
    let distance = cx.b.bin(BinOp::Mul, Width::W64, index, i64::from(place.size_bytes));
    let at = cx.b.bin(BinOp::Add, Width::W64, element, distance);
    Addr::reg(at, FRAMES)
}

/// The frame of a stage's call, on top of the key's stack. Jumps to `absent` if there is none,
/// or if it was dropped. An end pops it.
fn top_frame(cx: &mut Body<'_, '_>, step: &SpanStep, place: &SpanPlace, key: Addr, absent: BlockId) -> Topmost {
    let pops = step.action == SpanAction::End;
    let element = if place.in_threads { claim::in_storage(cx, place, 0) } else { maps::look_up(cx, place.id, key) };
    let found = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, element, 0, found, absent, Likely::Then);
    cx.b.switch_to(found);
    let is_call = pops || matches!(cx.probe.attach, Attach::Uprobe { .. });
    let pointer = place.stack_pointer.filter(|_| is_call).map(|_| jumps::stack_pointer(cx));
    let depth = match pointer {
        Some(pointer) => jumps::settle_calls(cx, step, place, element, pointer),
        None => cx.b.load(Addr::reg(element, 0), Size::B8),
    };
    let some = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, depth, 0, some, absent, Likely::Then);
    cx.b.switch_to(some);
    let below = cx.b.bin(BinOp::Sub, Width::W64, depth, 1);
    if let (Some(pointer), true) = (pointer, pops) {
        let frame = frame_at(cx, place, element, below);
        own_call(cx, place, frame, pointer, absent);
    }
    if pops {
        cx.b.store(Addr::reg(element, 0), below, Size::B8);
    }
    let held = cx.b.new_block();
    cx.b.branch(CmpOp::Le, Width::W64, depth, i64::from(MAX_DEPTH), held, absent, Likely::Then);
    cx.b.switch_to(held);
    let frame = frame_at(cx, place, element, below);
    Topmost { below, frame }
}

/// Continues if the frame is that of the returning call; jumps to `absent` if that call has no
/// frame.
fn own_call(cx: &mut Body<'_, '_>, place: &SpanPlace, frame: Addr, pointer: VReg, absent: BlockId) {
    if let Some(entered) = jumps::frame_pointer(cx, place, frame) {
        let above = jumps::above_return(cx, pointer);
        let own = cx.b.new_block();
        cx.b.branch(CmpOp::Lt, Width::W64, entered, above, own, absent, Likely::Then);
        cx.b.switch_to(own);
    }
}

pub(super) fn pop_frame(cx: &mut Body<'_, '_>, step: &SpanStep) {
    let place = values::place_of(cx, step.span);
    let key = values::key_of_step(cx, step);
    let now = values::needs_time(&step.values).then(|| values::now(cx));
    let (absent, done) = (cx.b.new_block(), cx.b.new_block());
    let Topmost { below, frame } = top_frame(cx, step, &place, key, absent);
    let word = cx.b.load(frame, Size::B8);
    values::take_values(cx, step.span, &step.values, Start { at: frame, word }, now);
    if !place.in_threads {
        let (last, go_on) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Eq, Width::W64, below, 0, last, go_on, Likely::Unknown);
        cx.b.switch_to(last);
        // If the kernel refuses to delete an empty stack, it is equivalent to none.
        let arg = cx.address_arg(key);
        cx.b.call_void(Helper::MapDeleteElem, &[Arg::Map(place.id), arg]);
        cx.b.jump(go_on);
        cx.b.switch_to(go_on);
    }
    events::count_matched(cx, step, word, done);
    events::count_failures(cx, step, [(absent, SpanCounter::Unmatched)], done);
}

pub(super) fn mark_frame(cx: &mut Body<'_, '_>, step: &SpanStep, stage: u8) {
    let place = values::place_of(cx, step.span);
    let key = values::key_of_step(cx, step);
    let now = (values::needs_time(&step.values) || place.last.is_some()).then(|| values::now(cx));
    let (absent, done) = (cx.b.new_block(), cx.b.new_block());
    values::evaluate_keeps(cx, step, false);
    let Topmost { frame, .. } = top_frame(cx, step, &place, key, absent);
    let word = cx.b.load(frame, Size::B8);
    values::take_values(cx, step.span, &step.values, Start { at: frame, word }, now);
    values::evaluate_keeps(cx, step, true);
    if let (Some(offset), Some(now)) = (place.last, now) {
        cx.b.store(frame.plus(offset), now, Size::B8);
    }
    values::store_keeps(cx, step, frame);
    let new = claim::word_in_stage(cx, word, i64::from(stage));
    cx.b.store(frame, new, Size::B8);
    events::count_passed(cx, step, word, stage, done);
    events::count_failures(cx, step, [(absent, SpanCounter::UnmatchedMarks)], done);
}
