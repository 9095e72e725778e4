//! The buffers in which stacks are captured, and the map that stores them once each.
//!
//! In: frames in a buffer. Out: the number of the stack.
//! Guarantee: a buffer belongs to one run of a program at a time, and is zero after its frames.

use super::{EEXIST, EFAULT, made_once};
use crate::ir::build::FunctionBuilder;
use crate::ir::{
    Addr, Arg, BinOp, BlockId, CmpOp, Function, FunctionId, Helper, Inst, Likely, Role, Size, VReg, Width,
};
use crate::lower::storage::{StackFunctions, StackMaps};
use crate::lower::{Body, maps};
use crate::object::{IN_OVERFLOW, Loss};

/// `BPF_NOEXIST`.
const NO_EXIST: i64 = 1;

/// Bytes that a loop over frames handles per iteration.
const STRIDE_BYTES: u32 = 64;

/// Buffers per CPU, a power of two: for programs that can be preempted and those that interrupt
/// them.
const BUFFERS: u32 = 4;
/// Offset in a buffer of the word that says whether it is in use.
const TAKEN: i32 = 0;
/// Offset of the key.
const KEY: i32 = 8;
/// Offset of the stack's number, or an error.
pub(super) const NUMBER: i32 = 16;
/// Offset of the copy of a part of the stack.
pub(in crate::lower) const WINDOW: i32 = 128;
/// Offset of the frames.
pub(in crate::lower) const FRAMES: i32 = WINDOW + 576;

/// The state of a walk, as offsets in a buffer.
pub(in crate::lower) struct WalkState;

impl WalkState {
    /// The size of the frames in bytes, or an error; the stack's number is not known before.
    pub(in crate::lower) const BYTES: i32 = NUMBER;
    /// The address to look up, and the stack pointer and RBP with which the function there runs.
    pub(in crate::lower) const AT: i32 = 24;
    pub(in crate::lower) const SP: i32 = 32;
    pub(in crate::lower) const BP: i32 = 40;
    /// Frames found so far.
    pub(in crate::lower) const COUNT: i32 = 48;
    /// How the stack ended.
    pub(in crate::lower) const END: i32 = 56;
    /// Whether a frame pointer led to the last frame.
    pub(in crate::lower) const GUESSED: i32 = 64;
    /// The address of which the buffer has a copy; 0 if there is none.
    pub(in crate::lower) const COPIED: i32 = 72;
    /// RBX with which the function runs; 0 if it is not known.
    pub(in crate::lower) const BX: i32 = 88;
    /// RDI at the event.
    pub(in crate::lower) const DI: i32 = 96;
}

/// 2^64 divided by the golden ratio, odd: each bit of a frame changes about half of the bits above
/// it.
pub(in crate::lower) const MULTIPLIER: i64 = 0x9e37_79b9_7f4a_7c15_u64 as i64;

/// Space for the frames: whole strides, with zeros after the last frame.
pub(super) fn capacity_bytes(limit: u8) -> u32 {
    (u32::from(limit) * 8).next_multiple_of(STRIDE_BYTES)
}

fn buffer_bytes(limit: u8) -> u32 {
    FRAMES as u32 + capacity_bytes(limit)
}

pub(super) fn cpu_bytes(limit: u8) -> u32 {
    buffer_bytes(limit) * BUFFERS
}

/// Sets the frames to zero, as the next stack expects the space.
pub(super) fn clear_frames(cx: &mut Body<'_, '_>, maps: &StackMaps, buffer: VReg, used_bytes: VReg) {
    each_stride(cx, maps.limit, used_bytes, |cx, at| {
        let here = cx.b.bin(BinOp::Add, Width::W64, buffer, at);
        cx.b.zero(Addr::reg(here, FRAMES), STRIDE_BYTES);
    });
}

/// Emits `lower` as code that runs with a buffer of its own: it gets the buffer's index and
/// address. If no buffer is free, the code does not run, and a stack is counted as lost.
pub(super) fn in_buffer(cx: &mut Body<'_, '_>, maps: &StackMaps, lower: impl FnOnce(&mut Body<'_, '_>, VReg, VReg)) {
    let claim = stack_functions(cx, maps).claim;
    let [free, done] = std::array::from_fn(|_| cx.b.new_block());
    let index = cx.b.call(Helper::RunApart, &[Arg::Function(claim), Arg::Value(0.into()), Arg::Value(0.into())]);
    cx.b.branch(CmpOp::Lt, Width::W64, index, i64::from(BUFFERS), free, done, Likely::Then);
    cx.b.switch_to(free);
    let buffer = buffer_at(cx, maps, index);
    lower(cx, index, buffer);
    let (zero, old) = (cx.b.copy(0), cx.b.new_vreg());
    cx.b.inst(Inst::Exchange { dst: old, addr: Addr::reg(buffer, TAKEN), src: zero });
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// The address of a buffer of this CPU, by index.
pub(in crate::lower) fn buffer_at(cx: &mut Body<'_, '_>, maps: &StackMaps, index: VReg) -> VReg {
    let own = cx.cpu_copy(maps.buffers, cpu_bytes(maps.limit));
    let within = cx.b.bin(BinOp::And, Width::W64, index, i64::from(BUFFERS - 1));
    let distance = cx.b.bin(BinOp::Mul, Width::W64, within, i64::from(buffer_bytes(maps.limit)));
    cx.b.bin(BinOp::Add, Width::W64, own, distance)
}

/// The functions that acquire a buffer and store what is in it.
pub(super) fn stack_functions(cx: &mut Body<'_, '_>, maps: &StackMaps) -> StackFunctions {
    made_once(
        cx,
        maps,
        |maps| &mut maps.functions,
        |cx, maps| StackFunctions {
            claim: stack_function(cx, "claim", Role::Apart, maps, |cx, _| claim_buffer(cx, maps)),
            keep: stack_function(cx, "keep", Role::Apart, maps, |cx, given| keep_buffer(cx, maps, given)),
        },
    )
}

/// Adds a function for stacks of up to `limit` frames.
pub(in crate::lower) fn stack_function(
    cx: &mut Body<'_, '_>,
    word: &str,
    role: Role,
    maps: &StackMaps,
    lower: impl FnOnce(&mut Body, &[VReg]),
) -> FunctionId {
    let span = cx.b.span();
    let mut body = Body::new(&mut *cx.shared, cx.index);
    body.b = FunctionBuilder::subprogram(format!("{word}_stack_{}", maps.limit), role, span);
    let given: Vec<VReg> = (0..role.parameters()).map(|index| body.b.parameter(index)).collect();
    lower(&mut body, &given);
    let function: Function = body.b.finish();
    cx.shared.ir.subprograms.push(function);
    FunctionId(cx.shared.ir.subprograms.len() as u32 - 1)
}

fn claim_buffer(cx: &mut Body<'_, '_>, maps: &StackMaps) {
    let own = cx.cpu_copy(maps.buffers, cpu_bytes(maps.limit));
    for index in 0..BUFFERS {
        let (got, refused) = (cx.b.new_block(), cx.b.new_block());
        let taken = Addr::reg(own, (index * buffer_bytes(maps.limit)) as i32 + TAKEN);
        let (one, old) = (cx.b.copy(1), cx.b.new_vreg());
        cx.b.inst(Inst::Exchange { dst: old, addr: taken, src: one });
        cx.b.branch(CmpOp::Eq, Width::W64, old, 0, got, refused, Likely::Then);
        cx.b.switch_to(got);
        cx.b.ret(index as i32);
        cx.b.switch_to(refused);
    }
    cx.count_loss(Loss::Stacks);
    cx.b.ret(BUFFERS as i32);
}

fn keep_buffer(cx: &mut Body<'_, '_>, maps: &StackMaps, given: &[VReg]) {
    let [some, none, lost, end] = std::array::from_fn(|_| cx.b.new_block());
    let (buffer, used_bytes) = (buffer_at(cx, maps, given[0]), given[1]);
    cx.b.branch(CmpOp::SGt, Width::W64, used_bytes, 0, some, none, Likely::Then);
    cx.b.switch_to(some);
    let number = hash_of(cx, maps, buffer, used_bytes);
    cx.b.store(Addr::reg(buffer, KEY), number, Size::B8);
    find_frames(cx, maps, (buffer, used_bytes), lost);
    cx.b.store(Addr::reg(buffer, NUMBER), number, Size::B8);
    cx.b.jump(end);
    cx.b.switch_to(none);
    cx.b.store(Addr::reg(buffer, NUMBER), EFAULT, Size::B8);
    cx.b.ret(0);
    cx.b.switch_to(lost);
    cx.b.store(Addr::reg(buffer, NUMBER), EEXIST, Size::B8);
    cx.count_loss(Loss::Stacks);
    cx.b.jump(end);
    cx.b.switch_to(end);
    clear_frames(cx, maps, buffer, used_bytes);
    cx.b.ret(0);
}

/// A number computed from the frames.
fn hash_of(cx: &mut Body<'_, '_>, maps: &StackMaps, buffer: VReg, used_bytes: VReg) -> VReg {
    let hash = cx.b.copy(MULTIPLIER);
    each_stride(cx, maps.limit, used_bytes, |cx, at| {
        let here = cx.b.bin(BinOp::Add, Width::W64, buffer, at);
        // Products that do not wait for each other, each with an odd number of its own.
        let mut all = hash;
        for word in 0..STRIDE_BYTES as i32 / 8 {
            let frame = cx.b.load(Addr::reg(here, FRAMES + word * 8), Size::B8);
            let own = MULTIPLIER.wrapping_mul(MULTIPLIER.rotate_left(8 * word as u32) | 1);
            let product = cx.b.bin(BinOp::Mul, Width::W64, frame, own);
            all = cx.b.bin(BinOp::Add, Width::W64, all, product);
        }
        let spread = cx.b.bin(BinOp::Mul, Width::W64, all, MULTIPLIER);
        let high = cx.b.bin(BinOp::Shr, Width::W64, spread, 32);
        let folded = cx.b.bin(BinOp::Xor, Width::W64, spread, high);
        cx.b.assign(hash, folded);
    });
    let short = cx.b.bin(BinOp::Shr, Width::W64, hash, 3);
    cx.b.bin(BinOp::Or, Width::W64, short, IN_OVERFLOW)
}

/// Finds the entry with the buffer's key, or inserts it. Jumps to `lost` if that fails or the
/// entry's frames differ.
fn find_frames(cx: &mut Body<'_, '_>, maps: &StackMaps, (buffer, used_bytes): (VReg, VReg), lost: BlockId) {
    let frames = cx.b.bin(BinOp::Add, Width::W64, buffer, i64::from(FRAMES));
    let [found, absent, refused, again, kept] = std::array::from_fn(|_| cx.b.new_block());
    let key = Addr::reg(buffer, KEY);
    let element = maps::look_up(cx, maps.overflow, key);
    cx.b.branch(CmpOp::Ne, Width::W64, element, 0, found, absent, Likely::Then);
    cx.b.switch_to(absent);
    let key_arg = cx.address_arg(key);
    let args = [Arg::Map(maps.overflow), key_arg, frames.into(), Arg::Value(NO_EXIST.into())];
    let failed = cx.b.call(Helper::MapUpdateElem, &args);
    cx.b.branch(CmpOp::Eq, Width::W64, failed, 0, kept, refused, Likely::Then);
    cx.b.switch_to(refused);
    cx.b.branch(CmpOp::Eq, Width::W64, failed, EEXIST, again, lost, Likely::Otherwise);
    // Another CPU inserted it first.
    cx.b.switch_to(again);
    let other = maps::look_up(cx, maps.overflow, key);
    cx.b.assign(element, other);
    cx.b.branch(CmpOp::Ne, Width::W64, element, 0, found, lost, Likely::Then);
    cx.b.switch_to(found);
    let difference = cx.b.copy(0);
    // The word after the last frame, too: the other stack may go on there.
    let compared_bytes = cx.b.bin(BinOp::Add, Width::W64, used_bytes, 8);
    each_stride(cx, maps.limit, compared_bytes, |cx, at| {
        let here = cx.b.bin(BinOp::Add, Width::W64, frames, at);
        let there = cx.b.bin(BinOp::Add, Width::W64, element, at);
        for offset in (0..STRIDE_BYTES as i32).step_by(8) {
            let frame = cx.b.load(Addr::reg(here, offset), Size::B8);
            let kept = cx.b.load(Addr::reg(there, offset), Size::B8);
            let differs = cx.b.bin(BinOp::Xor, Width::W64, frame, kept);
            let all = cx.b.bin(BinOp::Or, Width::W64, difference, differs);
            cx.b.assign(difference, all);
        }
    });
    cx.b.branch(CmpOp::Eq, Width::W64, difference, 0, kept, lost, Likely::Then);
    cx.b.switch_to(kept);
}

/// Emits `round` as the body of a loop over the offsets of the strides that have any of the first
/// `used_bytes`, and of at least one.
///
/// Verifier: it follows the loop iteration by iteration, and an exit from each of them. It finds
/// the states at the exits equal, because the offset is not used after the loop.
fn each_stride(cx: &mut Body<'_, '_>, limit: u8, used_bytes: VReg, round: impl FnOnce(&mut Body<'_, '_>, VReg)) {
    let at = cx.b.copy(0);
    let (head, more, end) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.jump(head);
    cx.b.switch_to(head);
    round(cx, at);
    let further = cx.b.bin(BinOp::Add, Width::W64, at, i64::from(STRIDE_BYTES));
    cx.b.assign(at, further);
    cx.b.branch(CmpOp::Lt, Width::W64, at, i64::from(capacity_bytes(limit)), more, end, Likely::Then);
    cx.b.switch_to(more);
    cx.b.branch(CmpOp::Lt, Width::W64, at, used_bytes, head, end, Likely::Unknown);
    cx.b.switch_to(end);
}
