//! The rules that few functions have.
//!
//! In: a step's rule, and its state. Out: the caller's stack pointer and the place of the saved
//! RBP, or the end of the stack.
//! Guarantee: a rule whose numbers lead nowhere ends the stack.

use super::rows::bits;
use super::step::{Step, add_frame, end_with, read_user, special};
use super::{COMPLETE, frame_at, store};
use crate::ir::{Addr, BinOp, BlockId, CmpOp, Likely, Size, VReg, Width};
use crate::lower::Body;
use crate::lower::stacks::{WINDOW, WalkState};
use crate::unwind::{
    End, FROM_RBX, RBX_WORDS_BITS, REALIGNED_WORDS_BITS, SAVED_BITS, SAVED_RBX_BITS, SPECIAL, STORED,
    STORED_WORDS_BITS, Special,
};

/// RBX is at most this far above the stack pointer where it leads to the caller: the dynamic linker
/// saves all vector registers in between.
const MAX_RBX_DISTANCE: i64 = 32 << 10;

/// Offsets in the `ucontext` of a signal's frame (arch/x86/include/uapi/asm/sigcontext.h): the
/// first register that is needed, and the bytes up to the end of the last one.
const CONTEXT_BP: i64 = 120;
const CONTEXT_BYTES: i64 = 56;
/// Offsets from there.
const CONTEXT_BX: i32 = 8;
const CONTEXT_SP: i32 = 40;
const CONTEXT_IP: i32 = 48;

/// Applies one of these rules; like [`super::step::apply`] otherwise.
pub(super) fn apply_rare(
    cx: &mut Body<'_, '_>,
    step: &Step<'_>,
    rule: VReg,
    (by_pointer, advance): (BlockId, BlockId),
) {
    let [realigned, more, stored, further, from_rbx, specials] = std::array::from_fn(|_| cx.b.new_block());
    cx.b.branch(CmpOp::Lt, Width::W64, rule, i64::from(STORED), realigned, more, Likely::Unknown);
    cx.b.switch_to(more);
    cx.b.branch(CmpOp::Lt, Width::W64, rule, i64::from(FROM_RBX), stored, further, Likely::Unknown);
    cx.b.switch_to(further);
    cx.b.branch(CmpOp::Lt, Width::W64, rule, i64::from(SPECIAL), from_rbx, specials, Likely::Unknown);
    cx.b.switch_to(realigned);
    realigned_frame(cx, step, rule);
    cx.b.jump(advance);
    cx.b.switch_to(stored);
    stored_frame(cx, step, rule);
    cx.b.jump(advance);
    cx.b.switch_to(from_rbx);
    frame_from_rbx(cx, step, rule);
    cx.b.jump(advance);
    cx.b.switch_to(specials);
    apply_special(cx, step, rule, (by_pointer, advance));
}

/// The caller's stack pointer is stored below RBP, and RBP's old value where it points.
fn realigned_frame(cx: &mut Body<'_, '_>, step: &Step<'_>, rule: VReg) {
    let bp = cx.b.load(Addr::reg(step.buffer, WalkState::BP), Size::B8);
    let words = bits(cx, rule, 0, (1 << REALIGNED_WORDS_BITS) - 1);
    let bytes = cx.b.bin(BinOp::Shl, Width::W64, words, 3);
    let at = cx.b.bin(BinOp::Sub, Width::W64, bp, bytes);
    let copy = read_user(cx, step, at, 8.into());
    let cfa = cx.b.load(Addr::reg(copy, WINDOW), Size::B8);
    cx.b.assign(step.cfa, cfa);
    let copy = read_user(cx, step, bp, 8.into());
    let saved = cx.b.load(Addr::reg(copy, WINDOW), Size::B8);
    store(cx, step.buffer, WalkState::BP, saved);
}

/// A word below the caller's stack pointer is stored above RSP.
fn stored_frame(cx: &mut Body<'_, '_>, step: &Step<'_>, rule: VReg) {
    let sp = cx.b.load(Addr::reg(step.buffer, WalkState::SP), Size::B8);
    let words = bits(cx, rule, 0, (1 << STORED_WORDS_BITS) - 1);
    let bytes = cx.b.bin(BinOp::Shl, Width::W64, words, 3);
    let at = cx.b.bin(BinOp::Add, Width::W64, sp, bytes);
    let copy = read_user(cx, step, at, 8.into());
    let below = cx.b.load(Addr::reg(copy, WINDOW), Size::B8);
    let cfa = cx.b.bin(BinOp::Add, Width::W64, below, 8);
    cx.b.assign(step.cfa, cfa);
    let slot = bits(cx, rule, i64::from(STORED_WORDS_BITS), (1 << SAVED_BITS) - 1);
    cx.b.assign(step.slot, slot);
}

/// RBX leads to the caller's stack pointer. The function that this one called has saved it, except
/// at the event itself and where a signal came.
fn frame_from_rbx(cx: &mut Body<'_, '_>, step: &Step<'_>, rule: VReg) {
    let [saved, read, known, near, unsupported] = std::array::from_fn(|_| cx.b.new_block());
    let sp = cx.b.load(Addr::reg(step.buffer, WalkState::SP), Size::B8);
    let bx = cx.b.new_vreg();
    let current = cx.b.load(Addr::reg(step.buffer, WalkState::BX), Size::B8);
    cx.b.assign(bx, current);
    cx.b.branch(CmpOp::Ne, Width::W64, current, 0, known, saved, Likely::Unknown);
    cx.b.switch_to(saved);
    let words = bits(cx, rule, i64::from(RBX_WORDS_BITS), (1 << SAVED_RBX_BITS) - 1);
    cx.b.branch(CmpOp::Ne, Width::W64, words, 0, read, unsupported, Likely::Then);
    cx.b.switch_to(read);
    let bytes = cx.b.bin(BinOp::Shl, Width::W64, words, 3);
    let at = cx.b.bin(BinOp::Sub, Width::W64, sp, bytes);
    let copy = read_user(cx, step, at, 8.into());
    let value = cx.b.load(Addr::reg(copy, WINDOW), Size::B8);
    cx.b.assign(bx, value);
    cx.b.jump(known);
    cx.b.switch_to(known);
    let distance = cx.b.bin(BinOp::Sub, Width::W64, bx, sp);
    cx.b.branch(CmpOp::Lt, Width::W64, distance, MAX_RBX_DISTANCE, near, unsupported, Likely::Then);
    cx.b.switch_to(unsupported);
    end_with(cx, step, End::Unsupported as i64);
    cx.b.switch_to(near);
    let words = bits(cx, rule, 0, (1 << RBX_WORDS_BITS) - 1);
    let bytes = cx.b.bin(BinOp::Shl, Width::W64, words, 3);
    let cfa = cx.b.bin(BinOp::Add, Width::W64, bx, bytes);
    cx.b.assign(step.cfa, cfa);
    cx.b.assign(step.slot, 0);
}

fn apply_special(cx: &mut Body<'_, '_>, step: &Step<'_>, rule: VReg, (by_pointer, advance): (BlockId, BlockId)) {
    let [some, outermost, inner, signal, others, in_rdi, more, begun, linkage, tables, unsupported] =
        std::array::from_fn(|_| cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, rule, special(Special::None), by_pointer, some, Likely::Unknown);
    cx.b.switch_to(some);
    cx.b.branch(CmpOp::Eq, Width::W64, rule, special(Special::Outermost), outermost, inner, Likely::Then);
    cx.b.switch_to(outermost);
    end_with(cx, step, COMPLETE);
    cx.b.switch_to(inner);
    cx.b.branch(CmpOp::Eq, Width::W64, rule, special(Special::Signal), signal, others, Likely::Unknown);
    cx.b.switch_to(signal);
    after_signal(cx, step);
    cx.b.switch_to(others);
    cx.b.branch(CmpOp::Eq, Width::W64, rule, special(Special::InRdi), in_rdi, more, Likely::Unknown);
    cx.b.switch_to(in_rdi);
    return_in_rdi(cx, step);
    cx.b.switch_to(more);
    cx.b.branch(CmpOp::Eq, Width::W64, rule, special(Special::Begun), begun, linkage, Likely::Unknown);
    cx.b.switch_to(begun);
    let count = cx.b.load(Addr::reg(step.buffer, WalkState::COUNT), Size::B8);
    let fewer = cx.b.bin(BinOp::Sub, Width::W64, count, 1);
    store(cx, step.buffer, WalkState::COUNT, fewer);
    let last = frame_at(cx, step.maps, step.buffer, fewer);
    cx.b.store(last, 0, Size::B8);
    end_with(cx, step, COMPLETE);
    cx.b.switch_to(linkage);
    cx.b.branch(CmpOp::Ge, Width::W64, rule, special(Special::Plt9), tables, unsupported, Likely::Then);
    cx.b.switch_to(unsupported);
    end_with(cx, step, End::Unsupported as i64);
    cx.b.switch_to(tables);
    // After the second instruction of an entry, the stack has one word more.
    let from = cx.b.bin(BinOp::Sub, Width::W64, rule, special(Special::Plt9) - 9);
    let within = bits(cx, step.at, 0, 15);
    let is_pushed = cx.b.set(CmpOp::Ge, Width::W64, within, from);
    let bytes = cx.b.bin(BinOp::Shl, Width::W64, is_pushed, 3);
    let sp = cx.b.load(Addr::reg(step.buffer, WalkState::SP), Size::B8);
    let above = cx.b.bin(BinOp::Add, Width::W64, sp, bytes);
    let cfa = cx.b.bin(BinOp::Add, Width::W64, above, 8);
    cx.b.assign(step.cfa, cfa);
    cx.b.jump(advance);
}

/// The return address is in RDI, which is known at the event itself only.
fn return_in_rdi(cx: &mut Body<'_, '_>, step: &Step<'_>) {
    let [known, unsupported] = std::array::from_fn(|_| cx.b.new_block());
    let count = cx.b.load(Addr::reg(step.buffer, WalkState::COUNT), Size::B8);
    cx.b.branch(CmpOp::Eq, Width::W64, count, 1, known, unsupported, Likely::Then);
    cx.b.switch_to(unsupported);
    end_with(cx, step, End::Unsupported as i64);
    cx.b.switch_to(known);
    let sp = cx.b.load(Addr::reg(step.buffer, WalkState::SP), Size::B8);
    cx.b.assign(step.cfa, sp);
    let caller = cx.b.load(Addr::reg(step.buffer, WalkState::DI), Size::B8);
    add_frame(cx, step, caller, 1);
}

/// The interrupted code is the caller of a signal handler; its registers are in the `ucontext`, and
/// its address is that of an instruction that has not run.
fn after_signal(cx: &mut Body<'_, '_>, step: &Step<'_>) {
    let sp = cx.b.load(Addr::reg(step.buffer, WalkState::SP), Size::B8);
    let from = cx.b.bin(BinOp::Add, Width::W64, sp, CONTEXT_BP);
    let copy = read_user(cx, step, from, CONTEXT_BYTES.into());
    let [bp, bx, sp, ip] =
        [0, CONTEXT_BX, CONTEXT_SP, CONTEXT_IP].map(|offset| cx.b.load(Addr::reg(copy, WINDOW + offset), Size::B8));
    store(cx, step.buffer, WalkState::BP, bp);
    store(cx, step.buffer, WalkState::BX, bx);
    cx.b.assign(step.cfa, sp);
    add_frame(cx, step, ip, 0);
}
