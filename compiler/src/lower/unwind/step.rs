//! One step of a walk: from a function to its caller.
//!
//! In: the state of the walk in a buffer, and the mappings of the process or of the files that it
//! has mapped. Out: a function for `bpf_loop` that adds a frame, or ends the walk and notes why.
//! Guarantee: the stack pointer only grows, except where a signal handler has a stack of its own.

use super::rare::apply_rare;
use super::rows::{Mappings, bits, mapping_of, rule_of};
use super::{COMPLETE, FRAME, FRAME_TASK, areas, frame_at, store};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Operand, Size, VReg, Width};
use crate::lower::Body;
use crate::lower::stacks::{MULTIPLIER, WINDOW, WalkState};
use crate::lower::storage::StackMaps;
use crate::lower::visited::is_visit;
use crate::target::area_offsets;
use crate::unwind::{
    End, INTERRUPTED, RBP_FLAG, RBP_WORDS_BITS, REALIGNED_FLAG, RSP_WORDS_BITS, RULE_BITS, SAVED_BITS, SPECIAL,
    Special, VERSION_OFFSET,
};

/// The cache: for each CPU, two words at a hash of an address. The first has the rest of the
/// address's hash above its rule, the second the version of the mappings. A program that interrupts
/// this one writes there too, so an address and its rule are in one word.
const CACHE_BITS: u32 = 10;
/// An address times an odd number, as far as addresses have bits: different for each.
const HASH_BITS: i64 = 48;
/// What remains after the place in the cache.
const REST_BITS: i64 = HASH_BITS - CACHE_BITS as i64;
/// Size of the cache of a CPU.
pub(super) const CACHE_BYTES: u32 = 16 << CACHE_BITS;

/// Bytes of the stack that are read at once; a power of two.
const WINDOW_BYTES: i64 = 512;
/// The most bytes that a step needs at one place: the saved RBP, the return address, and the words
/// between them.
const READ_BYTES: i64 = 8 << SAVED_BITS;

/// The registers of one step in which it differs from others.
pub(super) struct Step<'a> {
    pub maps: &'a StackMaps,
    pub buffer: VReg,
    /// The address to look up.
    pub at: VReg,
    /// The caller's stack pointer.
    pub cfa: VReg,
    /// Words between the return address and the saved RBP.
    pub slot: VReg,
    /// The thread, if it is another than that in which the program runs.
    pub other: Option<VReg>,
}

/// One step: finds the caller of the last frame. Returns 1 if the stack ends.
pub(super) fn step(cx: &mut Body<'_, '_>, maps: &StackMaps, frame: VReg) {
    let [mappings, buffer, cache, memory] = FRAME.map(|offset| cx.b.load(Addr::reg(frame, offset), Size::B8));
    let [own, by_file, cached, unknown, found, apply_rule] = std::array::from_fn(|_| cx.b.new_block());
    let at = cx.b.load(Addr::reg(buffer, WalkState::AT), Size::B8);
    let (cfa, slot) = (cx.b.copy(0), cx.b.copy(0));
    let other = is_visit(cx).then(|| cx.b.load(Addr::reg(frame, FRAME_TASK), Size::B8));
    let step = Step { maps, buffer, at, cfa, slot, other };
    // What a file's table says is not remembered: no value has the version 0.
    let (rule, version) = (cx.b.new_vreg(), cx.b.copy(0));
    let (address, table) = (cx.b.new_vreg(), cx.b.new_vreg());
    let (entry, rest) = cache_entry(cx, cache, at);
    cx.b.branch(CmpOp::Ne, Width::W64, mappings, 0, own, by_file, Likely::Then);
    cx.b.switch_to(own);
    let current = cx.b.load(Addr::reg(mappings, VERSION_OFFSET as i32), Size::B8);
    let word = cx.b.load(Addr::reg(entry, 0), Size::B8);
    let entry_version = cx.b.load(Addr::reg(entry, 8), Size::B8);
    // The rule, if nothing but the rule differs.
    let difference = cx.b.bin(BinOp::Xor, Width::W64, word, rest);
    let address_differs = cx.b.bin(BinOp::Shr, Width::W64, difference, i64::from(RULE_BITS));
    let version_differs = cx.b.bin(BinOp::Xor, Width::W64, current, entry_version);
    let differs = cx.b.bin(BinOp::Or, Width::W64, address_differs, version_differs);
    cx.b.branch(CmpOp::Eq, Width::W64, differs, 0, cached, unknown, Likely::Then);
    cx.b.switch_to(cached);
    cx.b.assign(rule, difference);
    cx.b.jump(apply_rule);
    cx.b.switch_to(unknown);
    let place = place_of(cx, Mappings::of_process(mappings), at, by_file);
    cx.b.assign(version, current);
    cx.b.assign(address, place.0);
    cx.b.assign(table, place.1);
    cx.b.jump(found);
    // The process has no mappings of its own yet, or none of what it has mapped lately.
    cx.b.switch_to(by_file);
    let place = place_in_file(cx, &step, memory);
    cx.b.assign(address, place.0);
    cx.b.assign(table, place.1);
    cx.b.jump(found);
    cx.b.switch_to(found);
    let looked_up = rule_at(cx, &step, address, table);
    cx.b.assign(rule, looked_up);
    let word = cx.b.bin(BinOp::Or, Width::W64, rest, rule);
    // A program that interrupts this one must not take the new version for that of the old word.
    cx.b.store(Addr::reg(entry, 8), 0, Size::B8);
    cx.b.store(Addr::reg(entry, 0), word, Size::B8);
    cx.b.store(Addr::reg(entry, 8), version, Size::B8);
    cx.b.jump(apply_rule);
    cx.b.switch_to(apply_rule);
    follow(cx, &step, rule);
}

/// The place of the step's address in the file that is mapped there. Ends the stack if there is
/// none.
fn place_in_file(cx: &mut Body<'_, '_>, step: &Step<'_>, memory: VReg) -> (VReg, VReg) {
    let outside = cx.b.new_block();
    let place = match area_offsets(cx.shared.target) {
        Some(offsets) => {
            let (file, offset) = areas::file_at(cx, step, offsets, memory, outside);
            place_of(cx, Mappings::of_file(file), offset, outside)
        }
        None => {
            cx.b.jump(outside);
            let never = cx.b.new_block();
            cx.b.switch_to(never);
            (cx.b.copy(0), cx.b.copy(0))
        }
    };
    let after = cx.b.new_block();
    cx.b.jump(after);
    cx.b.switch_to(outside);
    outside_code(cx, step);
    cx.b.switch_to(after);
    place
}

/// Adds the frame to which a rule leads, or ends the walk.
fn follow(cx: &mut Body<'_, '_>, step: &Step<'_>, rule: VReg) {
    let [by_pointer, advance] = std::array::from_fn(|_| cx.b.new_block());
    apply(cx, step, rule, (by_pointer, advance));
    cx.b.switch_to(by_pointer);
    by_frame_pointer(cx, step);
    cx.b.switch_to(advance);
    read_caller(cx, step);
}

/// The entry of this CPU's cache for an address, and its first word without the rule.
fn cache_entry(cx: &mut Body<'_, '_>, cache: VReg, at: VReg) -> (VReg, VReg) {
    let mixed = cx.b.bin(BinOp::Mul, Width::W64, at, MULTIPLIER);
    let index = bits(cx, mixed, REST_BITS, (1 << CACHE_BITS) - 1);
    let offset = cx.b.bin(BinOp::Shl, Width::W64, index, 4);
    let entry = cx.b.bin(BinOp::Add, Width::W64, cache, offset);
    let above = cx.b.bin(BinOp::Shl, Width::W64, mixed, 64 - REST_BITS);
    let rest = cx.b.bin(BinOp::Shr, Width::W64, above, 64 - REST_BITS - i64::from(RULE_BITS));
    (entry, rest)
}

/// The address in its file that `at` has in these mappings, and the word of the file's table. Goes
/// to `outside` if none of them contains it.
fn place_of(cx: &mut Body<'_, '_>, mappings: Mappings, at: VReg, outside: BlockId) -> (VReg, VReg) {
    let known = cx.b.new_block();
    let mapping = mapping_of(cx, mappings, at);
    let [start, end, bias, table] = [0, 8, 16, 24].map(|offset| cx.b.load(Addr::reg(mapping, offset), Size::B8));
    let distance = cx.b.bin(BinOp::Sub, Width::W64, at, start);
    let size = cx.b.bin(BinOp::Sub, Width::W64, end, start);
    cx.b.branch(CmpOp::Lt, Width::W64, distance, size, known, outside, Likely::Then);
    cx.b.switch_to(known);
    (cx.b.bin(BinOp::Sub, Width::W64, at, bias), table)
}

/// The rule for an address of a file with this table.
fn rule_at(cx: &mut Body<'_, '_>, step: &Step<'_>, address: VReg, table: VReg) -> VReg {
    let [by_table, without, done] = std::array::from_fn(|_| cx.b.new_block());
    let rule = cx.b.new_vreg();
    let words = cx.b.bin(BinOp::And, Width::W64, table, 0xffff << 16);
    cx.b.branch(CmpOp::Ne, Width::W64, words, 0, by_table, without, Likely::Then);
    cx.b.switch_to(by_table);
    let found = rule_of(cx, step, address, table);
    cx.b.assign(rule, found);
    cx.b.jump(done);
    cx.b.switch_to(without);
    cx.b.assign(rule, special(Special::None));
    cx.b.jump(done);
    cx.b.switch_to(done);
    rule
}

/// Applies a rule: finds the caller's stack pointer and the place of the saved RBP and goes to
/// `advance`; or goes to `by_pointer` if the address belongs to no function.
fn apply(cx: &mut Body<'_, '_>, step: &Step<'_>, rule: VReg, (by_pointer, advance): (BlockId, BlockId)) {
    let [above_stack, others, in_frame, rare] = std::array::from_fn(|_| cx.b.new_block());
    cx.b.branch(CmpOp::Lt, Width::W64, rule, i64::from(RBP_FLAG), above_stack, others, Likely::Then);
    cx.b.switch_to(others);
    cx.b.branch(CmpOp::Lt, Width::W64, rule, i64::from(RBP_FLAG | REALIGNED_FLAG), in_frame, rare, Likely::Then);
    for (block, register, width) in
        [(above_stack, WalkState::SP, RSP_WORDS_BITS), (in_frame, WalkState::BP, RBP_WORDS_BITS)]
    {
        cx.b.switch_to(block);
        let base = cx.b.load(Addr::reg(step.buffer, register), Size::B8);
        let words = bits(cx, rule, 0, (1 << width) - 1);
        let bytes = cx.b.bin(BinOp::Shl, Width::W64, words, 3);
        let cfa = cx.b.bin(BinOp::Add, Width::W64, base, bytes);
        cx.b.assign(step.cfa, cfa);
        let slot = bits(cx, rule, i64::from(width), (1 << SAVED_BITS) - 1);
        cx.b.assign(step.slot, slot);
        cx.b.jump(advance);
    }
    cx.b.switch_to(rare);
    apply_rare(cx, step, rule, (by_pointer, advance));
}

/// Code without unwind information usually keeps frame pointers: that of just-in-time compilers,
/// and assembly.
fn by_frame_pointer(cx: &mut Body<'_, '_>, step: &Step<'_>) {
    let [some, none, readable, stuck] = std::array::from_fn(|_| cx.b.new_block());
    let bp = cx.b.load(Addr::reg(step.buffer, WalkState::BP), Size::B8);
    let sp = cx.b.load(Addr::reg(step.buffer, WalkState::SP), Size::B8);
    cx.b.branch(CmpOp::Ne, Width::W64, bp, 0, some, none, Likely::Then);
    cx.b.switch_to(none);
    // A chain of frame pointers ends with 0; a single one may be any number.
    let guessed = cx.b.load(Addr::reg(step.buffer, WalkState::GUESSED), Size::B8);
    let whole = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, guessed, 0, whole, stuck, Likely::Then);
    cx.b.switch_to(whole);
    end_with(cx, step, COMPLETE);
    cx.b.switch_to(some);
    let misaligned = bits(cx, bp, 0, 7);
    let is_below = cx.b.set(CmpOp::Lt, Width::W64, bp, sp);
    let wrong = cx.b.bin(BinOp::Or, Width::W64, misaligned, is_below);
    cx.b.branch(CmpOp::Eq, Width::W64, wrong, 0, readable, stuck, Likely::Then);
    cx.b.switch_to(stuck);
    end_with(cx, step, End::NoInformation as i64);
    cx.b.switch_to(readable);
    let copy = read_user(cx, step, bp, 16.into());
    let saved = cx.b.load(Addr::reg(copy, WINDOW), Size::B8);
    let caller = cx.b.load(Addr::reg(copy, WINDOW + 8), Size::B8);
    store(cx, step.buffer, WalkState::BP, saved);
    let above = cx.b.bin(BinOp::Add, Width::W64, bp, 16);
    cx.b.assign(step.cfa, above);
    store(cx, step.buffer, WalkState::GUESSED, 1);
    store(cx, step.buffer, WalkState::BX, 0);
    add_frame(cx, step, caller, 1);
}

/// Reads the return address below the caller's stack pointer, and the saved RBP in the same read.
fn read_caller(cx: &mut Body<'_, '_>, step: &Step<'_>) {
    let [further, stuck, saved, unsaved] = std::array::from_fn(|_| cx.b.new_block());
    let sp = cx.b.load(Addr::reg(step.buffer, WalkState::SP), Size::B8);
    cx.b.branch(CmpOp::Gt, Width::W64, step.cfa, sp, further, stuck, Likely::Then);
    cx.b.switch_to(stuck);
    end_with(cx, step, End::NoInformation as i64);
    cx.b.switch_to(further);
    // Verifier: it does not know the bounds of a register that is assigned in several places.
    let slot = bits(cx, step.slot, 0, (1 << SAVED_BITS) - 1);
    let slot_bytes = cx.b.bin(BinOp::Shl, Width::W64, slot, 3);
    let bytes = cx.b.bin(BinOp::Add, Width::W64, slot_bytes, 8);
    let from = cx.b.bin(BinOp::Sub, Width::W64, step.cfa, bytes);
    let copy = read_user(cx, step, from, bytes.into());
    // The lowest word is the saved RBP, and the highest the return address.
    let above = cx.b.bin(BinOp::Add, Width::W64, copy, slot_bytes);
    let caller = cx.b.load(Addr::reg(above, WINDOW), Size::B8);
    store(cx, step.buffer, WalkState::GUESSED, 0);
    store(cx, step.buffer, WalkState::BX, 0);
    cx.b.branch(CmpOp::Ne, Width::W64, slot, 0, saved, unsaved, Likely::Unknown);
    cx.b.switch_to(saved);
    let bp = cx.b.load(Addr::reg(copy, WINDOW), Size::B8);
    store(cx, step.buffer, WalkState::BP, bp);
    cx.b.jump(unsaved);
    cx.b.switch_to(unsaved);
    add_frame(cx, step, caller, 1);
}

/// Adds a frame and ends the step. The address to look up is `back` bytes before it: a call may be
/// the last instruction of its function.
pub(super) fn add_frame(cx: &mut Body<'_, '_>, step: &Step<'_>, caller: VReg, back: i64) {
    let [some, none, full, more] = std::array::from_fn(|_| cx.b.new_block());
    cx.b.branch(CmpOp::Ne, Width::W64, caller, 0, some, none, Likely::Then);
    cx.b.switch_to(none);
    end_with(cx, step, COMPLETE);
    cx.b.switch_to(some);
    store(cx, step.buffer, WalkState::SP, step.cfa);
    let at = cx.b.bin(BinOp::Sub, Width::W64, caller, back);
    store(cx, step.buffer, WalkState::AT, at);
    let count = cx.b.load(Addr::reg(step.buffer, WalkState::COUNT), Size::B8);
    let to = frame_at(cx, step.maps, step.buffer, count);
    let entry = if back == 0 { cx.b.bin(BinOp::Or, Width::W64, caller, INTERRUPTED as i64) } else { caller };
    cx.b.store(to, entry, Size::B8);
    let counted = cx.b.bin(BinOp::Add, Width::W64, count, 1);
    store(cx, step.buffer, WalkState::COUNT, counted);
    cx.b.branch(CmpOp::Lt, Width::W64, counted, i64::from(step.maps.limit), more, full, Likely::Then);
    cx.b.switch_to(full);
    end_with(cx, step, End::Depth as i64);
    cx.b.switch_to(more);
    cx.b.ret(0);
}

/// The last frame is in no known code. If a frame pointer led to it, it is no frame.
fn outside_code(cx: &mut Body<'_, '_>, step: &Step<'_>) {
    let [guessed, unknown] = std::array::from_fn(|_| cx.b.new_block());
    let flag = cx.b.load(Addr::reg(step.buffer, WalkState::GUESSED), Size::B8);
    cx.b.branch(CmpOp::Ne, Width::W64, flag, 0, guessed, unknown, Likely::Unknown);
    cx.b.switch_to(unknown);
    end_with(cx, step, End::NoTable as i64);
    cx.b.switch_to(guessed);
    let count = cx.b.load(Addr::reg(step.buffer, WalkState::COUNT), Size::B8);
    let fewer = cx.b.bin(BinOp::Sub, Width::W64, count, 1);
    store(cx, step.buffer, WalkState::COUNT, fewer);
    end_with(cx, step, End::NoInformation as i64);
}

/// Notes how the stack ended, and ends the loop.
pub(super) fn end_with(cx: &mut Body<'_, '_>, step: &Step<'_>, end: i64) {
    store(cx, step.buffer, WalkState::END, end);
    cx.b.ret(1);
}

/// The address of a copy of the thread's memory, with at least `bytes`, up to [`READ_BYTES`]. Ends
/// the stack if that cannot be read.
///
/// A read costs 85 ns, mostly however few bytes it has, so it takes several frames at once.
pub(super) fn read_user(cx: &mut Body<'_, '_>, step: &Step<'_>, from: VReg, bytes: Operand) -> VReg {
    let [inside, outside, whole, short, unreadable, done] = std::array::from_fn(|_| cx.b.new_block());
    let offset = cx.b.new_vreg();
    let copied = cx.b.load(Addr::reg(step.buffer, WalkState::COPIED), Size::B8);
    let distance = cx.b.bin(BinOp::Sub, Width::W64, from, copied);
    cx.b.assign(offset, distance);
    cx.b.branch(CmpOp::Le, Width::W64, distance, WINDOW_BYTES - READ_BYTES, inside, outside, Likely::Then);
    cx.b.switch_to(inside);
    cx.b.jump(done);
    cx.b.switch_to(outside);
    cx.b.assign(offset, 0);
    let window = cx.b.bin(BinOp::Add, Width::W64, step.buffer, i64::from(WINDOW));
    let read = |cx: &mut Body<'_, '_>, bytes: Operand| {
        let what = [window.into(), Arg::Value(bytes), Arg::Value(from.into())];
        match step.other {
            None => cx.b.call(Helper::ProbeReadUser, &what),
            Some(task) => {
                let [to, bytes, from] = what;
                let flags = Arg::Value(0.into());
                cx.b.call(Helper::CopyFromUserTask, &[to, bytes, from, Arg::Value(task.into()), flags])
            }
        }
    };
    let failed = read(cx, WINDOW_BYTES.into());
    cx.b.branch(CmpOp::Eq, Width::W64, failed, 0, whole, short, Likely::Then);
    cx.b.switch_to(whole);
    store(cx, step.buffer, WalkState::COPIED, from);
    cx.b.jump(done);
    cx.b.switch_to(short);
    // At the end of a stack there may be no more than this.
    store(cx, step.buffer, WalkState::COPIED, 0);
    let failed = read(cx, bytes);
    cx.b.branch(CmpOp::Eq, Width::W64, failed, 0, done, unreadable, Likely::Then);
    cx.b.switch_to(unreadable);
    end_with(cx, step, End::Unreadable as i64);
    cx.b.switch_to(done);
    // Verifier: with the bytes of a read, the bound is the end of the window.
    let within = cx.b.bin(BinOp::And, Width::W64, offset, WINDOW_BYTES - 1);
    cx.b.bin(BinOp::Add, Width::W64, step.buffer, within)
}

pub(super) fn special(rule: Special) -> i64 {
    i64::from(SPECIAL) + rule as i64
}
