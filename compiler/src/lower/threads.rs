//! Per-thread values: task-local storage.
//!
//! In: a map's name and the size of a value. Out: a task storage map, code that gets the current
//! thread's value, and a program with which the runtime reads all values.
//! Guarantee: a value starts as zeros. It is freed with its thread, together with what it counted.
//!
//! A value is followed by a mark of our own, `MARK_BYTES`: the thread's number as scripts see it,
//! and a bit that says that the value was initialized. The kernel has no key with which user space
//! could read all values (a descriptor names a thread only since 6.9), so a task iterator program
//! writes them out.
//!
//! The kernel creates a value only if memory is available immediately. While it operates on the
//! storage itself, it refuses access on the same CPU; until 6.2 it refuses reads, too. In both
//! cases the helper returns no address, and a writer counts a loss.

use crate::btf::{Btf, Kind};
use crate::ir::build::FunctionBuilder;
use crate::ir::{
    self, Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Map, MapId, MapKind, Role, Section, Size, VReg, WALK_BYTES,
    Width,
};
use crate::lower::loops::{self, FRAME_BYTES};
use crate::lower::shared::Shared;
use crate::lower::{Body, ids, kernel_functions, visited};
use crate::object::{Attach, Loss, MAX_ROUNDS, ThreadMap};
use crate::source::Span;
use crate::typed::{ContextKind, Expr, MapIndex};

/// Size of the mark after each value: the thread's number in the low half, 1 in the high one.
pub(super) const MARK_BYTES: u32 = 8;

/// `BPF_LOCAL_STORAGE_GET_F_CREATE`.
pub(super) const CREATE: i64 = 1;

/// Software events, which the kernel generates from timers or where they happen.
const PERF_TYPE_SOFTWARE: u32 = 1;

/// `struct bpf_iter__task`: the metadata that all iterators have, then the task.
const ITERATOR_META: i32 = 0;
const ITERATOR_TASK: i32 = 8;
const ITERATOR_CONTEXT_BYTES: u32 = 16;

/// `BPF_TASK_ITER_ALL_THREADS`.
const ALL_THREADS: i64 = 1;
/// The kernel functions that iterate over tasks inside a program.
const WALKERS: [Helper; 3] = [Helper::IterTaskNew, Helper::IterTaskNext, Helper::IterTaskDestroy];

impl Shared<'_> {
    /// A map with a value for each thread.
    pub(super) fn thread_map(&mut self, name: String, value_size_bytes: u32) -> MapId {
        self.ir.maps.push(Map {
            name,
            kind: MapKind::TaskStorage,
            key_size_bytes: 4,
            value_size_bytes: value_size_bytes.next_multiple_of(8) + MARK_BYTES,
            max_entries: 0,
            no_prealloc: true,
        });
        MapId(self.ir.maps.len() as u32 - 1)
    }

    /// How the runtime accesses the values of all threads, with the program for it. `span` is the
    /// map's declaration.
    pub(super) fn thread_reader(&mut self, id: MapId, span: Span) -> ThreadMap {
        let map = self.ir.maps[id.0 as usize].clone();
        let order_offset = self.bss(8);
        let reader = format!("read_{}", map.name);
        self.readers.push(reader_program(id, &map, &reader, order_offset, span));
        ThreadMap { map: map.name, reader, order_offset, value_size_bytes: map.value_size_bytes - MARK_BYTES }
    }
}

/// Writes out the value and the mark of each thread that has one. Removes them instead if the
/// command word is not 0.
fn reader_program(id: MapId, map: &Map, name: &str, order_offset: u32, span: Span) -> ir::Function {
    let mut b = FunctionBuilder::new(name, "iter/task", span);
    b.set_context_size(ITERATOR_CONTEXT_BYTES);
    let (exit, some, has, copy, remove) = (b.new_block(), b.new_block(), b.new_block(), b.new_block(), b.new_block());
    let context = b.context();
    let task = b.load(Addr::reg(context, ITERATOR_TASK), Size::B8);
    // The kernel makes one last call without a task.
    b.branch(CmpOp::Ne, Width::W64, task, 0, some, exit, Likely::Then);
    b.switch_to(some);
    let value = get(&mut b, id, task, 0);
    b.branch(CmpOp::Ne, Width::W64, value, 0, has, exit, Likely::Otherwise);
    b.switch_to(has);
    let order = b.data_addr(Section::Bss, order_offset);
    let order = b.load(Addr::reg(order, 0), Size::B8);
    b.branch(CmpOp::Eq, Width::W64, order, 0, copy, remove, Likely::Then);
    b.switch_to(copy);
    let meta = b.load(Addr::reg(context, ITERATOR_META), Size::B8);
    let sequence = b.load(Addr::reg(meta, 0), Size::B8);
    let size = Arg::Value(i64::from(map.value_size_bytes).into());
    b.call_void(Helper::SeqWrite, &[sequence.into(), value.into(), size]);
    b.jump(exit);
    b.switch_to(remove);
    b.call_void(Helper::TaskStorageDelete, &[Arg::Map(id), task.into()]);
    b.jump(exit);
    b.switch_to(exit);
    b.ret(0);
    b.finish()
}

/// The address of a task's value, or 0.
fn get(b: &mut FunctionBuilder, id: MapId, task: VReg, flags: i64) -> VReg {
    b.call(Helper::TaskStorageGet, &[Arg::Map(id), task.into(), Arg::Value(0.into()), Arg::Value(flags.into())])
}

/// The task that the program is about: the current one, or the one that a task iterator is at.
pub fn task(cx: &mut Body<'_, '_>) -> VReg {
    if cx.probe.context.kind != ContextKind::Iterator {
        // Since 5.11: a typed task pointer.
        return cx.b.call(Helper::GetCurrentTaskBtf, &[]);
    }
    let context = cx.b.context();
    let task = cx.b.load(Addr::reg(context, ITERATOR_TASK), Size::B8);
    // Verifier: it assumes that each load of the pointer may be 0.
    let (some, exit) = (cx.b.new_block(), cx.function.exit);
    cx.b.branch(CmpOp::Ne, Width::W64, task, 0, some, exit, Likely::Then);
    cx.b.switch_to(some);
    task
}

/// The thread's number as scripts see it.
fn number(cx: &mut Body<'_, '_>, task: VReg) -> VReg {
    if cx.probe.context.kind != ContextKind::Iterator || visited::is_visit(cx) {
        let ids = ids::namespaced(cx);
        return cx.b.extend(ids, Size::B4, false);
    }
    let btf = cx.shared.target.btf();
    let member = |btf: &Btf| Some(btf.find_member(btf.find(Kind::Struct, "task_struct")?, "pid")?.byte_offset());
    let offset = btf.and_then(member).unwrap_or(0);
    cx.b.load(Addr::reg(task, offset as i32), Size::B4)
}

/// The address of the current thread's value; 0 if it has none.
fn value(cx: &mut Body<'_, '_>, id: MapId) -> VReg {
    let task = task(cx);
    get(&mut cx.b, id, task, 0)
}

/// The same, created as zeros if missing; 0 if the kernel cannot create it. `known` is the
/// result of an earlier look-up.
fn value_or_new(cx: &mut Body<'_, '_>, id: MapId, known: Option<VReg>) -> VReg {
    let result = cx.b.new_vreg();
    let (old, new, made, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    let found = known.unwrap_or_else(|| value(cx, id));
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, old, new, Likely::Then);
    cx.b.switch_to(old);
    cx.b.assign(result, found);
    cx.b.jump(done);
    cx.b.switch_to(new);
    let task = task(cx);
    let flags = if may_allocate(cx) { CREATE } else { 0 };
    let created = get(&mut cx.b, id, task, flags);
    cx.b.assign(result, created);
    cx.b.branch(CmpOp::Ne, Width::W64, created, 0, made, done, Likely::Then);
    cx.b.switch_to(made);
    let mark_at = cx.shared.ir.maps[id.0 as usize].value_size_bytes - MARK_BYTES;
    let thread = number(cx, task);
    let mark = cx.b.bin(BinOp::Or, Width::W64, thread, 1i64 << 32);
    cx.b.store(Addr::reg(created, mark_at as i32), mark, Size::B8);
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}

/// The address of the current thread's value of a script map, or 0; reuses an earlier look-up.
pub(super) fn value_once(cx: &mut Body<'_, '_>, map: MapIndex, id: MapId, key: Option<&Expr>) -> VReg {
    if let Some(found) = cx.function.lookups.known(map, key) {
        return found;
    }
    let found = value(cx, id);
    cx.function.lookups.remember(cx.shared.catalogue, map, key, found);
    found
}

/// The same, created as zeros if missing. If it cannot be created, counts a loss and jumps to
/// `full`.
pub(super) fn value_for(cx: &mut Body<'_, '_>, map: MapIndex, id: MapId, key: Option<&Expr>, full: BlockId) -> VReg {
    let known = cx.function.lookups.known(map, key);
    cx.function.lookups.forget(map);
    let found = value_or_new(cx, id, known);
    let (got, refused) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, got, refused, Likely::Then);
    cx.b.switch_to(refused);
    cx.count_loss(Loss::MapFull { map: map.0 });
    cx.b.jump(full);
    cx.b.switch_to(got);
    cx.function.lookups.remember(cx.shared.catalogue, map, key, found);
    found
}

/// Whether the kernel may create a value here. Until 6.4 it uses an allocator that must not be
/// interrupted; the interrupts of processor events and of breakpoints do interrupt it.
fn may_allocate(cx: &Body<'_, '_>) -> bool {
    let interrupts_all = match cx.probe.attach {
        Attach::PerfEvent { kind, .. } => kind != PERF_TYPE_SOFTWARE,
        Attach::Watchpoint { .. } => true,
        _ => false,
    };
    !interrupts_all || cx.shared.target.kernel() >= (6, 4)
}

/// Removes the current thread's value. Yields 0, or an error in the low 32 bits if there was
/// none.
pub(super) fn delete(cx: &mut Body<'_, '_>, id: MapId) -> VReg {
    let task = task(cx);
    cx.b.call(Helper::TaskStorageDelete, &[Arg::Map(id), task.into()])
}

/// Runs code for each thread that has a value. `round` gets the addresses of the thread's
/// number and of the value, and ends the iteration.
pub(super) fn for_each(
    cx: &mut Body<'_, '_>,
    id: MapId,
    word: &str,
    round: impl FnOnce(&mut Body<'_, '_>, VReg, VReg),
) {
    kernel_functions::know(cx, &WALKERS);
    let mark_at = cx.shared.ir.maps[id.0 as usize].value_size_bytes - MARK_BYTES;
    let repeated = loops::subprogram(cx, Role::Iteration, word, |cx, given| {
        let walk = cx.b.bin(BinOp::Add, Width::W64, given[1], i64::from(FRAME_BYTES));
        let task = cx.b.call(Helper::IterTaskNext, &[walk.into()]);
        let (some, last) = (cx.b.new_block(), cx.b.new_block());
        let (has, known, next) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Ne, Width::W64, task, 0, some, last, Likely::Then);
        cx.b.switch_to(last);
        cx.b.ret(1);
        cx.b.switch_to(some);
        let value = get(&mut cx.b, id, task, 0);
        cx.b.branch(CmpOp::Ne, Width::W64, value, 0, has, next, Likely::Otherwise);
        cx.b.switch_to(has);
        // Idle threads have no number, nor do values that are being created at this moment.
        let thread = cx.b.load(Addr::reg(value, mark_at as i32), Size::B4);
        cx.b.branch(CmpOp::Ne, Width::W64, thread, 0, known, next, Likely::Then);
        cx.b.switch_to(next);
        cx.b.ret(0);
        cx.b.switch_to(known);
        // On all supported machines the low half comes first.
        let number = cx.b.bin(BinOp::Add, Width::W64, value, i64::from(mark_at));
        round(cx, number, value);
    });
    loops::run(
        cx,
        repeated,
        |cx| {
            // Verifier: the iterator must be on the stack at a known offset, so it has a frame
            // of its own.
            let slot = cx.b.slot(FRAME_BYTES + WALK_BYTES, 8, "walk");
            loops::fill_frame(cx, slot);
            let walk = Arg::Slot(slot, FRAME_BYTES as i32);
            let (none, all) = (Arg::Value(0.into()), Arg::Value(ALL_THREADS.into()));
            cx.b.call_void(Helper::IterTaskNew, &[walk, none, all]);
            let rounds = Arg::Value(i64::from(MAX_ROUNDS).into());
            cx.b.call_void(Helper::Loop, &[rounds, Arg::Function(repeated.function), slot.into(), none]);
            cx.b.call_void(Helper::IterTaskDestroy, &[walk]);
        },
        true,
    );
}

/// The number of threads that have a value.
pub(super) fn count(cx: &mut Body<'_, '_>, id: MapId) -> VReg {
    let room = cx.scratch_room(8);
    let at = cx.scratch_at(room);
    cx.b.store(at, 0, Size::B8);
    for_each(cx, id, "threads", |cx, _, _| {
        let at = cx.scratch_at(room);
        let count = cx.b.load(at, Size::B8);
        let more = cx.b.bin(BinOp::Add, Width::W64, count, 1);
        cx.b.store(at, more, Size::B8);
        cx.b.ret(0);
    });
    let at = cx.scratch_at(room);
    cx.b.load(at, Size::B8)
}
