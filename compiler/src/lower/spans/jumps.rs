//! Removes calls that are no longer on the stack: left by `longjmp`, by an exception, or by a
//! return that the kernel does not follow.
//!
//! In: a stack of frames, each with the stack pointer at its entry. Out: code that removes the
//! frames of calls that are gone.
//! Guarantee: the remaining frames are the calls that the thread is in, as far as its stack pointer
//! tells. Each removed frame is counted once.
//!
//! Stacks grow downwards, so the stack pointers of nested calls decrease from frame to frame, and a
//! frame whose stack pointer is below the current one is gone. The kernel decides in the same way
//! which returns it still waits for. Two frames share a stack pointer if a function ends in a jump
//! to another one (a tail call). An entry distinguishes that from a second call at the same place
//! by its return address, which the kernel has then replaced by that of its own code.

use super::nest::{self, FRAMES};
use super::place::{MAX_DEPTH, SpanPlace};
use super::{ledger, values};
use crate::btf::{Btf, Kind};
use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, Size, VReg, Width};
use crate::lower::{Body, prologue};
use crate::object::SpanCounter;
use crate::target::Arch;
use crate::typed::{SpanAction, SpanIndex, SpanStep};

/// Offset of `sp` in `pt_regs`: x86, arm64.
const STACK_POINTER: [i32; 2] = [152, 248];
/// Size of the return address that a call pushes on x86 and a return pops.
const RETURN_ADDRESS_BYTES: i64 = 8;

/// Offsets from a task to the address to which probed functions return: `task_struct.mm`,
/// `mm_struct.uprobes_state.xol_area`, `xol_area.vaddr`.
fn trampoline(btf: &Btf) -> Option<[i64; 3]> {
    let member = |owner, name| btf.find_member(owner, name);
    let find = |name| btf.find(Kind::Struct, name);
    let mm = member(find("task_struct")?, "mm")?;
    let state = member(find("mm_struct")?, "uprobes_state")?;
    let area = member(find("uprobes_state")?, "xol_area")?;
    let address = member(find("xol_area")?, "vaddr")?;
    let offsets = [mm.byte_offset(), state.byte_offset() + area.byte_offset(), address.byte_offset()];
    Some(offsets.map(i64::from))
}

/// The stack pointer of a frame.
pub(super) fn frame_pointer(cx: &mut Body<'_, '_>, place: &SpanPlace, frame: Addr) -> Option<VReg> {
    let offset = place.stack_pointer?;
    Some(cx.b.load(frame.plus(offset), Size::B8))
}

/// The stack pointer at the probe's event.
pub(super) fn stack_pointer(cx: &mut Body<'_, '_>) -> VReg {
    let offset = STACK_POINTER[usize::from(is_arm(cx))];
    let context = cx.b.context();
    cx.b.load(Addr::reg(context, offset), Size::B8)
}

fn is_arm(cx: &Body<'_, '_>) -> bool {
    cx.shared.target.arch() == Arch::Aarch64
}

/// At a return: a bound just above the stack pointer at the entry of the returning call.
pub(super) fn above_return(cx: &mut Body<'_, '_>, pointer: VReg) -> VReg {
    cx.b.bin(BinOp::Add, Width::W64, pointer, i64::from(is_arm(cx)))
}

/// Removes the frames of calls that are gone; yields how many are left.
pub(super) fn settle_calls(
    cx: &mut Body<'_, '_>,
    step: &SpanStep,
    place: &SpanPlace,
    element: VReg,
    pointer: VReg,
) -> VReg {
    let depth = cx.b.load(Addr::reg(element, 0), Size::B8);
    let left = cx.b.copy(depth);
    let (some, gone, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Ne, Width::W64, depth, 0, some, done, Likely::Unknown);
    cx.b.switch_to(some);
    let top = cx.b.bin(BinOp::Sub, Width::W64, depth, 1);
    let frame = nest::frame_at(cx, place, element, top);
    let Some(latest) = frame_pointer(cx, place, frame) else {
        cx.b.jump(done);
        cx.b.switch_to(done);
        return left;
    };
    let lowest = lowest_that_lives(cx, step, pointer, latest);
    cx.b.branch(CmpOp::Ge, Width::W64, latest, lowest, done, gone, Likely::Then);
    cx.b.switch_to(gone);
    search_calls(cx, place, element, (depth, lowest));
    let found = cx.b.load(Addr::reg(element, 0), Size::B8);
    cx.b.assign(left, found);
    count_frames(cx, step.span, element, (found, depth), SpanCounter::Abandoned);
    cx.b.jump(done);
    cx.b.switch_to(done);
    left
}

/// The lowest stack pointer of a call that the thread is still in.
fn lowest_that_lives(cx: &mut Body<'_, '_>, step: &SpanStep, pointer: VReg, latest: VReg) -> VReg {
    if step.action == SpanAction::End {
        let popped = if is_arm(cx) { 0 } else { RETURN_ADDRESS_BYTES };
        return cx.b.bin(BinOp::Sub, Width::W64, pointer, popped);
    }
    let lowest = cx.b.copy(pointer);
    if step.action != SpanAction::Start {
        return lowest;
    }
    let (same, another, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, latest, pointer, same, another, Likely::Otherwise);
    cx.b.switch_to(same);
    if let Some(offsets) = cx.shared.target.btf().and_then(trampoline) {
        let is_followed = returns_to_trampoline(cx, pointer, offsets);
        cx.b.branch(CmpOp::Ne, Width::W64, is_followed, 0, done, another, Likely::Unknown);
    } else {
        cx.b.jump(another);
    }
    cx.b.switch_to(another);
    let above = cx.b.bin(BinOp::Add, Width::W64, pointer, 1);
    cx.b.assign(lowest, above);
    cx.b.jump(done);
    cx.b.switch_to(done);
    lowest
}

/// Whether the function that is being entered returns to the kernel's return trampoline. On
/// arm64 the address is in a register; there a jump to another function cannot be distinguished
/// from a call.
fn returns_to_trampoline(cx: &mut Body<'_, '_>, pointer: VReg, offsets: [i64; 3]) -> VReg {
    let result = cx.b.copy(0);
    if is_arm(cx) {
        return result;
    }
    let room = cx.memory(8, "return");
    cx.b.store(room, 0, Size::B8);
    let to = cx.address_arg(room);
    let bytes = Arg::Value(RETURN_ADDRESS_BYTES.into());
    cx.b.call_void(Helper::ProbeReadUser, &[to, bytes, pointer.into()]);
    let address = cx.b.load(room, Size::B8);
    let mut at = cx.b.call(Helper::GetCurrentTask, &[]);
    for offset in offsets {
        at = prologue::read_kernel_scalar(cx, at, offset, Size::B8);
    }
    let (known, same, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Ne, Width::W64, at, 0, known, done, Likely::Then);
    cx.b.switch_to(known);
    cx.b.branch(CmpOp::Eq, Width::W64, at, address, same, done, Likely::Unknown);
    cx.b.switch_to(same);
    cx.b.assign(result, 1);
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}

/// Sets the depth to the number of frames whose stack pointers are not below `lowest`, by
/// binary search.
fn search_calls(cx: &mut Body<'_, '_>, place: &SpanPlace, element: VReg, (depth, lowest): (VReg, VReg)) {
    let at_depth = Addr::reg(element, 0);
    cx.b.store(at_depth, 0, Size::B8);
    for shift in (0..=MAX_DEPTH.ilog2()).rev() {
        let (within, lives, next) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        // Verifier: it knows nothing about values from memory, so it does not follow each path
        // of the search.
        let known = cx.b.load(at_depth, Size::B8);
        let more = cx.b.bin(BinOp::Add, Width::W64, known, 1i64 << shift);
        cx.b.branch(CmpOp::Le, Width::W64, more, depth, within, next, Likely::Unknown);
        cx.b.switch_to(within);
        let index = cx.b.bin(BinOp::Sub, Width::W64, more, 1);
        let frame = nest::frame_at(cx, place, element, index);
        let offset = place.stack_pointer.unwrap_or(0);
        let pointer = cx.b.load(frame.plus(offset), Size::B8);
        cx.b.branch(CmpOp::Ge, Width::W64, pointer, lowest, lives, next, Likely::Unknown);
        cx.b.switch_to(lives);
        cx.b.store(at_depth, more, Size::B8);
        cx.b.jump(next);
        cx.b.switch_to(next);
    }
}

/// Counts the frames from one depth to another, and subtracts them from their stages.
pub(super) fn count_frames(
    cx: &mut Body<'_, '_>,
    span: SpanIndex,
    element: VReg,
    (from, to): (VReg, VReg),
    counter: SpanCounter,
) {
    let ledger = ledger::ledger_of(cx, span);
    let count = cx.b.bin(BinOp::Sub, Width::W64, to, from);
    ledger::add_to_ledger(cx, ledger.atomic, Addr::reg(ledger.base, counter as i32 * 8), count);
    if ledger.stages == 0 {
        return;
    }
    let place = values::place_of(cx, span);
    for index in 0..i64::from(MAX_DEPTH) {
        let (above, below, next) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Le, Width::W64, from, index, above, next, Likely::Unknown);
        cx.b.switch_to(above);
        cx.b.branch(CmpOp::Gt, Width::W64, to, index, below, next, Likely::Unknown);
        cx.b.switch_to(below);
        let frame = Addr::reg(element, FRAMES).plus(index as i32 * place.size_bytes as i32);
        let word = cx.b.load(frame, Size::B8);
        ledger::count_out_of(cx, ledger, word);
        cx.b.jump(next);
        cx.b.switch_to(next);
    }
}
