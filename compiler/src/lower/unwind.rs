//! The callers of a user function, found by unwind tables.
//!
//! In: the registers with which the thread left user space, and the tables that the runtime keeps
//! in maps (`profiler_model::unwind` has their layouts). Out: a function that writes the frames to
//! a buffer.
//! Guarantee: every frame was found by a rule for the address below it, or by a frame pointer where
//! the code has no rules. A stack that does not reach the function with which its thread began ends
//! with a mark that says why, and is counted.
//!
//! Since 5.17: `bpf_loop`. x86-64 only.
//!
//! Verifier: the searches compute with signs instead of branching. It follows every path through a
//! function, and ten comparisons would be a thousand paths.

mod areas;
mod rare;
mod rows;
mod step;

use step::CACHE_BYTES;

use crate::ir::{
    Addr, Arg, BinOp, BlockId, CmpOp, FunctionId, Helper, Likely, Map, MapId, MapKind, Operand, Role, Size, VReg, Width,
};
use crate::lower::shared::Shared;
use crate::lower::stacks::{EFAULT, FRAMES, WalkState, stack_function};
use crate::lower::storage::{StackMaps, UnwindMaps};
use crate::lower::{Body, ids, maps, prologue};
use crate::object::Loss;
use crate::target::{MemoryOffsets, memory_offsets};
use crate::unwind::{
    END_MARK, ENDS, End, FILE_BYTES, FILE_KEY_BYTES, MAX_FILES, MAX_PROCESSES, MAX_SEGMENTS, PAUSE_BYTES,
    PROCESS_BYTES, REQUEST_BYTES, SEGMENT_WORDS, START_STACK_OFFSET, UNCLAIMED, Unwinding, VERSION_OFFSET,
};

/// The stack reached the function with which its thread began.
const COMPLETE: i64 = 0xff;

/// Offsets in the saved registers (`struct pt_regs`, arch/x86/include/asm/ptrace.h).
const SAVED_BP: i32 = 32;
const SAVED_BX: i32 = 40;
const SAVED_DI: i32 = 112;
const SAVED_IP: i32 = 128;
const SAVED_CS: i32 = 136;
const SAVED_SP: i32 = 152;
/// `__USER32_CS`: the thread runs 32-bit code.
const CODE_OF_32_BITS: i64 = 0x23;

/// Offsets of the addresses that a step gets: the process's mappings or 0, the buffer, the cache,
/// the process's memory.
const FRAME: [i32; 4] = [0, 8, 16, 24];
/// For a visited thread, the offset of the thread.
const FRAME_TASK: i32 = 32;

/// Minimum time between two requests for a process.
const PAUSE_NS: i64 = 50_000_000;

/// Size of the ring buffer of requests: a request takes 24 bytes.
const REQUESTS_BYTES: u32 = 64 << 10;

/// The maps for walking stacks, added on first use.
fn unwind_maps(shared: &mut Shared<'_>) -> UnwindMaps {
    if let Some(known) = shared.unwind_maps {
        return known;
    }
    let cache = shared.bss_aligned(CACHE_BYTES * shared.cpu_slots(), 64);
    let mut map = |name: &str, kind, (key_size_bytes, value_size_bytes): (u32, usize), max_entries| {
        let (name, value_size_bytes) = (name.to_owned(), value_size_bytes as u32);
        // The large ones would take 70 MiB. Programs write only the small one, also in an NMI.
        let no_prealloc = value_size_bytes > PAUSE_BYTES as u32;
        shared.ir.maps.push(Map { name, kind, key_size_bytes, value_size_bytes, max_entries, no_prealloc });
        MapId(shared.ir.maps.len() as u32 - 1)
    };
    let made = UnwindMaps {
        processes: map("unwind_tasks", MapKind::Hash, (4, PROCESS_BYTES), MAX_PROCESSES),
        files: map("unwind_files", MapKind::Hash, (FILE_KEY_BYTES as u32, FILE_BYTES), MAX_FILES),
        rows: map("unwind_rows", MapKind::Hash, (4, SEGMENT_WORDS * 8), MAX_SEGMENTS),
        requests: map("unwind_asked", MapKind::RingBuf, (0, 0), REQUESTS_BYTES),
        pauses: map("unwind_pauses", MapKind::Hash, (4, PAUSE_BYTES), 2 * MAX_PROCESSES),
        cache,
    };
    shared.unwind_maps = Some(made);
    made
}

/// The names of these maps, if they are used.
pub(super) fn names(shared: &Shared<'_>) -> Option<Unwinding> {
    let name = |id: MapId| shared.ir.maps[id.0 as usize].name.clone();
    shared.unwind_maps.map(|maps| Unwinding {
        processes: name(maps.processes),
        files: name(maps.files),
        rows: name(maps.rows),
        requests: name(maps.requests),
        pauses: name(maps.pauses),
    })
}

/// Adds the function that walks a stack: it takes the index of a buffer, writes the frames to it,
/// and their size in bytes to [`WalkState::BYTES`].
pub(super) fn walk_function(cx: &mut Body<'_, '_>, maps: &StackMaps) -> FunctionId {
    let step = stack_function(cx, "step", Role::Iteration, maps, |cx, given| step::step(cx, maps, given[1]));
    stack_function(cx, "walk", Role::Apart, maps, |cx, given| walk(cx, maps, step, given[0]))
}

/// Adds the function that makes a step for a visited thread.
pub(super) fn visit_function(cx: &mut Body<'_, '_>, maps: &StackMaps) -> FunctionId {
    stack_function(cx, "visit", Role::Iteration, maps, |cx, given| step::step(cx, maps, given[1]))
}

/// Whose stack is walked.
#[derive(Debug, Clone, Copy)]
struct Walked {
    /// The thread, as a typed pointer.
    task: VReg,
    /// Whether it is another than that in which the program runs.
    is_other: bool,
}

fn walk(cx: &mut Body<'_, '_>, maps: &StackMaps, step: FunctionId, index: VReg) {
    let buffer = super::stacks::buffer_at(cx, maps, index);
    let task = cx.b.call(Helper::GetCurrentTaskBtf, &[]);
    walk_into(cx, (maps, step), buffer, Walked { task, is_other: false });
    cx.b.ret(0);
}

/// Walks the stack of the visited thread into a buffer.
///
/// Verifier: a function that it checks apart takes no pointer to a thread, so this is part of the
/// program.
pub(super) fn walk_visited(cx: &mut Body<'_, '_>, maps: &StackMaps, buffer: VReg) {
    let step = super::stacks::visit_function(cx, maps);
    let task = super::visited::task(cx);
    walk_into(cx, (maps, step), buffer, Walked { task, is_other: true });
}

fn walk_into(cx: &mut Body<'_, '_>, (maps, step): (&StackMaps, FunctionId), buffer: VReg, walked: Walked) {
    let [user, none, finish, done] = std::array::from_fn(|_| cx.b.new_block());
    // `check` asks for such stacks only where the offsets are known.
    let Some(offsets) = memory_offsets(cx.shared.target) else {
        cx.b.jump(done);
        return cx.b.switch_to(done);
    };
    let (memory, identity) = memory_identity(cx, offsets, walked);
    cx.b.branch(CmpOp::Ne, Width::W64, memory, 0, user, none, Likely::Then);
    cx.b.switch_to(none);
    store(cx, buffer, WalkState::BYTES, EFAULT);
    cx.b.jump(done);
    cx.b.switch_to(user);
    take_registers(cx, buffer, walked.task, finish);
    if maps.limit > 1 {
        let process = process_key(cx);
        let start_stack = (memory, offsets.start_stack);
        find_callers(cx, maps, &Found { step, buffer, process, identity, start_stack, walked }, finish);
    } else {
        cx.b.jump(finish);
    }
    cx.b.switch_to(finish);
    end_stack(cx, maps, buffer, identity);
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// The address of the thread's memory, 0 for a kernel thread; and a number that also changes if
/// that memory is replaced by `exec` at the same address.
fn memory_identity(cx: &mut Body<'_, '_>, offsets: MemoryOffsets, walked: Walked) -> (VReg, VReg) {
    let task = if walked.is_other { walked.task } else { cx.b.call(Helper::GetCurrentTask, &[]) };
    let memory = prologue::read_kernel_scalar(cx, task, offsets.memory.into(), Size::B8);
    let executed = prologue::read_kernel_scalar(cx, task, offsets.executed.into(), Size::B4);
    // The address is a multiple of 64, and such structures are larger than 1024 bytes.
    let identity = cx.b.bin(BinOp::Add, Width::W64, memory, executed);
    (memory, identity)
}

/// Stores the registers with which the thread left user space, with the first frame. Goes to
/// `finish` if they are those of 32-bit code.
fn take_registers(cx: &mut Body<'_, '_>, buffer: VReg, task: VReg, finish: BlockId) {
    let registers = cx.b.call(Helper::TaskPtRegs, &[Arg::Value(task.into())]);
    let [ip, sp, bp, bx, di, code] = [SAVED_IP, SAVED_SP, SAVED_BP, SAVED_BX, SAVED_DI, SAVED_CS]
        .map(|offset| cx.b.load(Addr::reg(registers, offset), Size::B8));
    store(cx, buffer, WalkState::AT, ip);
    store(cx, buffer, WalkState::SP, sp);
    store(cx, buffer, WalkState::BP, bp);
    store(cx, buffer, WalkState::BX, bx);
    store(cx, buffer, WalkState::DI, di);
    store(cx, buffer, FRAMES, ip);
    store(cx, buffer, WalkState::COUNT, 1);
    store(cx, buffer, WalkState::GUESSED, 0);
    store(cx, buffer, WalkState::COPIED, 0);
    store(cx, buffer, WalkState::END, End::Unsupported as i64);
    let wide = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, code, CODE_OF_32_BITS, wide, finish, Likely::Then);
    cx.b.switch_to(wide);
    store(cx, buffer, WalkState::END, End::Depth as i64);
}

/// The process id as a key, in the profiler's pid namespace.
fn process_key(cx: &mut Body<'_, '_>) -> Addr {
    let both = ids::namespaced(cx);
    let process = cx.b.bin(BinOp::Shr, Width::W64, both, 32);
    let key = cx.memory(8, "process");
    cx.b.store(key, process, Size::B8);
    key
}

/// What the walk of a stack starts with.
struct Found {
    step: FunctionId,
    buffer: VReg,
    process: Addr,
    identity: VReg,
    /// The memory, and the offset in it of the start of the stack.
    start_stack: (VReg, u32),
    walked: Walked,
}

/// Runs the steps, by the process's mappings if they are known; then goes to `finish`.
fn find_callers(cx: &mut Body<'_, '_>, maps: &StackMaps, found: &Found, finish: BlockId) {
    let &Found { buffer, process, identity, start_stack: (memory, offset), .. } = found;
    let [some, current, unknown, replaced] = std::array::from_fn(|_| cx.b.new_block());
    let UnwindMaps { processes, .. } = unwind_maps(cx.shared);
    let mappings = maps::look_up(cx, processes, process);
    cx.b.branch(CmpOp::Ne, Width::W64, mappings, 0, some, unknown, Likely::Then);
    cx.b.switch_to(some);
    let known = cx.b.load(Addr::reg(mappings, 0), Size::B8);
    let [other, unclaimed, claimed] = std::array::from_fn(|_| cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, known, identity, current, other, Likely::Then);
    cx.b.switch_to(other);
    cx.b.branch(CmpOp::Eq, Width::W64, known, UNCLAIMED as i64, unclaimed, unknown, Likely::Unknown);
    cx.b.switch_to(unclaimed);
    let start_stack = prologue::read_kernel_scalar(cx, memory, offset.into(), Size::B8);
    let prepared = cx.b.load(Addr::reg(mappings, START_STACK_OFFSET as i32), Size::B8);
    cx.b.branch(CmpOp::Eq, Width::W64, start_stack, prepared, claimed, unknown, Likely::Then);
    cx.b.switch_to(claimed);
    cx.b.store(Addr::reg(mappings, 0), identity, Size::B8);
    request(cx, identity);
    cx.b.jump(current);
    cx.b.switch_to(current);
    let version = cx.b.load(Addr::reg(mappings, VERSION_OFFSET as i32), Size::B8);
    run_steps(cx, maps, found, mappings.into());
    // The runtime may have replaced the value meanwhile, and the kernel may have used its memory
    // again.
    let later = cx.b.load(Addr::reg(mappings, VERSION_OFFSET as i32), Size::B8);
    cx.b.branch(CmpOp::Eq, Width::W64, later, version, finish, replaced, Likely::Then);
    cx.b.switch_to(unknown);
    // A process that goes on needs mappings of its own, which are found faster.
    request(cx, identity);
    run_steps(cx, maps, found, 0.into());
    cx.b.jump(finish);
    cx.b.switch_to(replaced);
    store(cx, buffer, WalkState::COUNT, 1);
    store(cx, buffer, WalkState::END, End::NoTable as i64);
    cx.b.jump(finish);
}

/// Runs the steps of a walk with these mappings of the process, or 0.
fn run_steps(cx: &mut Body<'_, '_>, maps: &StackMaps, found: &Found, mappings: Operand) {
    let &Found { step, buffer, start_stack: (memory, _), walked, .. } = found;
    let cache = unwind_maps(cx.shared).cache;
    let cache = cx.cpu_copy(cache, CACHE_BYTES);
    let frame = cx.b.slot(if walked.is_other { 40 } else { 32 }, 8, "walk");
    for (offset, word) in FRAME.into_iter().zip([mappings, buffer.into(), cache.into(), memory.into()]) {
        cx.b.store(Addr::slot(frame, offset), word, Size::B8);
    }
    if walked.is_other {
        cx.b.store(Addr::slot(frame, FRAME_TASK), walked.task, Size::B8);
    }
    let rounds = Arg::Value((i64::from(maps.limit) - 1).into());
    cx.b.call_void(Helper::Loop, &[rounds, Arg::Function(step), Arg::Slot(frame, 0), Arg::Value(0.into())]);
}

/// Marks and counts the end of a stack, and writes its size.
fn end_stack(cx: &mut Body<'_, '_>, maps: &StackMaps, buffer: VReg, identity: VReg) {
    let [early, done] = std::array::from_fn(|_| cx.b.new_block());
    let end = cx.b.load(Addr::reg(buffer, WalkState::END), Size::B8);
    let count = cx.b.load(Addr::reg(buffer, WalkState::COUNT), Size::B8);
    let reached = cx.b.set(CmpOp::Eq, Width::W64, end, COMPLETE);
    let full = cx.b.set(CmpOp::Eq, Width::W64, end, End::Depth as i64);
    let whole = cx.b.bin(BinOp::Or, Width::W64, reached, full);
    cx.b.branch(CmpOp::Eq, Width::W64, whole, 0, early, done, Likely::Otherwise);
    cx.b.switch_to(early);
    let mark = cx.b.bin(BinOp::Or, Width::W64, end, END_MARK as i64);
    let to = frame_at(cx, maps, buffer, count);
    cx.b.store(to, mark, Size::B8);
    let more = cx.b.bin(BinOp::Add, Width::W64, count, 1);
    cx.b.assign(count, more);
    count_end(cx, end);
    request(cx, identity);
    cx.b.jump(done);
    cx.b.switch_to(done);
    let bytes = cx.b.bin(BinOp::Shl, Width::W64, count, 3);
    store(cx, buffer, WalkState::BYTES, bytes);
}

/// Increments the counter of this end.
fn count_end(cx: &mut Body<'_, '_>, end: VReg) {
    let counted = cx.b.new_block();
    for this in ENDS {
        let [same, other] = std::array::from_fn(|_| cx.b.new_block());
        cx.b.branch(CmpOp::Eq, Width::W64, end, this as i64, same, other, Likely::Unknown);
        cx.b.switch_to(same);
        cx.count_loss(Loss::Callers { end: this });
        cx.b.jump(counted);
        cx.b.switch_to(other);
    }
    cx.b.jump(counted);
    cx.b.switch_to(counted);
}

/// Asks the runtime to read the mappings of the process, unless it was asked a moment ago.
fn request(cx: &mut Body<'_, '_>, identity: VReg) {
    let UnwindMaps { requests, pauses, .. } = unwind_maps(cx.shared);
    let [named, known, absent, ask, write, done] = std::array::from_fn(|_| cx.b.new_block());
    let key = process_key(cx);
    let process = cx.b.load(key, Size::B8);
    cx.b.branch(CmpOp::Ne, Width::W64, process, 0, named, done, Likely::Then);
    cx.b.switch_to(named);
    let now = cx.b.call(Helper::KtimeGetNs, &[]);
    let next = cx.b.bin(BinOp::Add, Width::W64, now, PAUSE_NS);
    let pause = maps::look_up(cx, pauses, key);
    cx.b.branch(CmpOp::Ne, Width::W64, pause, 0, known, absent, Likely::Then);
    cx.b.switch_to(known);
    let [over, same] = std::array::from_fn(|_| cx.b.new_block());
    let paused = cx.b.load(Addr::reg(pause, 8), Size::B8);
    cx.b.branch(CmpOp::Eq, Width::W64, paused, identity, same, over, Likely::Then);
    cx.b.switch_to(same);
    let until = cx.b.load(Addr::reg(pause, 0), Size::B8);
    cx.b.branch(CmpOp::Le, Width::W64, until, now, over, done, Likely::Unknown);
    cx.b.switch_to(over);
    cx.b.store(Addr::reg(pause, 0), next, Size::B8);
    cx.b.store(Addr::reg(pause, 8), identity, Size::B8);
    cx.b.jump(ask);
    cx.b.switch_to(absent);
    let value = cx.memory(PAUSE_BYTES as u32, "pause");
    cx.b.store(value, next, Size::B8);
    cx.b.store(value.plus(8), identity, Size::B8);
    let refused = maps::update(cx, pauses, key, value, 0);
    cx.b.branch(CmpOp::Eq, Width::W32, refused, 0, ask, done, Likely::Then);
    cx.b.switch_to(ask);
    let reserve = [Arg::Map(requests), Arg::Value(i64::from(REQUEST_BYTES).into()), Arg::Value(0.into())];
    let record = cx.b.call(Helper::RingbufReserve, &reserve);
    cx.b.branch(CmpOp::Ne, Width::W64, record, 0, write, done, Likely::Then);
    cx.b.switch_to(write);
    cx.b.store(Addr::reg(record, 0), process, Size::B8);
    cx.b.store(Addr::reg(record, 8), identity, Size::B8);
    cx.b.call_void(Helper::RingbufSubmit, &[Arg::Value(record.into()), Arg::Value(0.into())]);
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// The place of a frame by its number.
pub(super) fn frame_at(cx: &mut Body<'_, '_>, maps: &StackMaps, buffer: VReg, number: VReg) -> Addr {
    let within = cx.b.clamp(number, u32::from(maps.limit) - 1);
    let bytes = cx.b.bin(BinOp::Shl, Width::W64, within, 3);
    let to = cx.b.bin(BinOp::Add, Width::W64, buffer, bytes);
    Addr::reg(to, FRAMES)
}

pub(super) fn store(cx: &mut Body<'_, '_>, buffer: VReg, offset: i32, value: impl Into<Operand>) {
    cx.b.store(Addr::reg(buffer, offset), value, Size::B8);
}
