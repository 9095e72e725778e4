//! Values of threads: task-local storage.
//!
//! In: a map's name and the size of a value. Out: a map of the kernel's kind, code that reaches the current thread's value, and a
//! program by which the runtime reads all of them.
//! Guarantee: a value is zeros at first; it goes with its thread, and with it what it counted.
//!
//! A value is followed by a word of our own, [`MARK_BYTES`]: the thread's number as scripts see it, and a bit that says that the value
//! was made. The kernel has no key by which user space could ask for all values (a descriptor names a thread only since 6.9), so a
//! program of the iterator of tasks writes them out.
//!
//! The kernel makes a value only where it has memory at once, and refuses to touch the storage while it is at work on it on the
//! same CPU; until 6.2 it refuses to read, too. Both answer with no address, which whoever writes counts as a loss.

use crate::btf::{Btf, Kind};
use crate::ir::build::FunctionBuilder;
use crate::ir::{
    self, Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Map, MapId, MapKind, Role, Section, Size, VReg, WALK_BYTES,
    Width,
};
use crate::lower::loops::FRAME_BYTES;
use crate::lower::{Body, Shared};
use crate::object::{Attach, Loss, MAX_ROUNDS, ThreadMap};
use crate::source::Span;
use crate::typed::{ContextKind, Expr, MapIndex};

/// Behind each value: the thread's number in the low half, 1 in the high one.
pub(super) const MARK_BYTES: u32 = 8;

/// `BPF_LOCAL_STORAGE_GET_F_CREATE`.
const CREATE: i64 = 1;

/// Events that the kernel makes itself, by timers or where they happen.
const PERF_TYPE_SOFTWARE: u32 = 1;

/// `struct bpf_iter__task`: what all iterators have, then the task.
const ITERATOR_META: i32 = 0;
const ITERATOR_TASK: i32 = 8;
const ITERATOR_CONTEXT_BYTES: u32 = 16;

/// `BPF_TASK_ITER_ALL_THREADS`.
const ALL_THREADS: i64 = 1;
/// What walks over tasks inside a program.
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

    /// How the runtime reaches the values of all threads, with a program for it; `span` is what declares the map.
    pub(super) fn thread_reader(&mut self, id: MapId, span: Span) -> ThreadMap {
        let map = self.ir.maps[id.0 as usize].clone();
        let order_offset = self.bss(8);
        let reader = format!("read_{}", map.name);
        self.readers.push(reader_program(id, &map, &reader, order_offset, span));
        ThreadMap { map: map.name, reader, order_offset, value_size_bytes: map.value_size_bytes - MARK_BYTES }
    }
}

/// Writes out the value and the mark of each thread that has one; or removes it, where the order's word is not 0.
fn reader_program(id: MapId, map: &Map, name: &str, order_offset: u32, span: Span) -> ir::Function {
    let mut b = FunctionBuilder::new(name, "iter/task", span);
    b.set_context_size(ITERATOR_CONTEXT_BYTES);
    let (exit, some, has, copy, remove) = (b.new_block(), b.new_block(), b.new_block(), b.new_block(), b.new_block());
    let context = b.context();
    let task = b.load(Addr::reg(context, ITERATOR_TASK), Size::B8);
    // The kernel calls once more at the end, without a task.
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

impl Body<'_, '_> {
    /// The thread that the program is about: the current one; in an iterator of tasks, the one that it is at.
    fn thread(&mut self) -> VReg {
        if self.probe().context.kind != ContextKind::Iterator {
            // Since 5.11: a task pointer with its type.
            return self.b.call(Helper::GetCurrentTaskBtf, &[]);
        }
        let context = self.b.context();
        let task = self.b.load(Addr::reg(context, ITERATOR_TASK), Size::B8);
        // Verifier: each load of it may be 0 for all that it knows.
        let (some, exit) = (self.b.new_block(), self.exit);
        self.b.branch(CmpOp::Ne, Width::W64, task, 0, some, exit, Likely::Then);
        self.b.switch_to(some);
        task
    }

    /// Its number as scripts see it.
    fn thread_number(&mut self, task: VReg) -> VReg {
        if self.probe().context.kind != ContextKind::Iterator {
            let ids = self.process_ids();
            return self.b.extend(ids, Size::B4, false);
        }
        let btf = self.shared.target.btf();
        let member = |btf: &Btf| Some(btf.find_member(btf.find(Kind::Struct, "task_struct")?, "pid")?.byte_offset());
        let offset = btf.and_then(member).unwrap_or(0);
        self.b.load(Addr::reg(task, offset as i32), Size::B4)
    }

    /// The address of the current thread's value; 0 where it has none.
    pub(super) fn thread_value(&mut self, id: MapId) -> VReg {
        let task = self.thread();
        get(&mut self.b, id, task, 0)
    }

    /// The same, made of zeros where it has none; 0 where the kernel cannot make it. `known` is what an earlier look yielded.
    pub(super) fn thread_value_or_new(&mut self, id: MapId, known: Option<VReg>) -> VReg {
        let result = self.b.new_vreg();
        let (old, new, made, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block(), self.b.new_block());
        let found = known.unwrap_or_else(|| self.thread_value(id));
        self.b.branch(CmpOp::Ne, Width::W64, found, 0, old, new, Likely::Then);
        self.b.switch_to(old);
        self.b.assign(result, found);
        self.b.jump(done);
        self.b.switch_to(new);
        let task = self.thread();
        let flags = if self.may_allocate() { CREATE } else { 0 };
        let created = get(&mut self.b, id, task, flags);
        self.b.assign(result, created);
        self.b.branch(CmpOp::Ne, Width::W64, created, 0, made, done, Likely::Then);
        self.b.switch_to(made);
        let mark_at = self.shared.ir.maps[id.0 as usize].value_size_bytes - MARK_BYTES;
        let thread = self.thread_number(task);
        let mark = self.b.bin(BinOp::Or, Width::W64, thread, 1i64 << 32);
        self.b.store(Addr::reg(created, mark_at as i32), mark, Size::B8);
        self.b.jump(done);
        self.b.switch_to(done);
        result
    }

    /// The address of the current thread's value of a map of the script, or 0; it may have been looked up before.
    pub(super) fn thread_value_once(&mut self, map: MapIndex, id: MapId, key: Option<&Expr>) -> VReg {
        if let Some(found) = self.known_lookup(map, key) {
            return found;
        }
        let found = self.thread_value(id);
        self.remember_lookup(map, key, found);
        found
    }

    /// The same, made of zeros where there is none; goes to `full`, counted, where it cannot be made.
    pub(super) fn thread_value_for(&mut self, map: MapIndex, id: MapId, key: Option<&Expr>, full: BlockId) -> VReg {
        let known = self.known_lookup(map, key);
        self.forget_lookups(map);
        let found = self.thread_value_or_new(id, known);
        let (got, refused) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Ne, Width::W64, found, 0, got, refused, Likely::Then);
        self.b.switch_to(refused);
        self.count_loss(Loss::MapFull { map: map.0 });
        self.b.jump(full);
        self.b.switch_to(got);
        self.remember_lookup(map, key, found);
        found
    }

    /// Whether the kernel may make a value here. Until 6.4 it asks an allocator that must not be interrupted, which the interrupts
    /// of processor events and of breakpoints do.
    fn may_allocate(&self) -> bool {
        let interrupts_all = match self.probe().attach {
            Attach::PerfEvent { kind, .. } => kind != PERF_TYPE_SOFTWARE,
            Attach::Watchpoint { .. } => true,
            _ => false,
        };
        !interrupts_all || self.shared.target.kernel() >= (6, 4)
    }

    /// Removes the current thread's value; yields 0, or an error in the low 32 bits where there was none.
    pub(super) fn thread_delete(&mut self, id: MapId) -> VReg {
        let task = self.thread();
        self.b.call(Helper::TaskStorageDelete, &[Arg::Map(id), task.into()])
    }

    /// Runs code for the value of each thread that has one. `round` gets the addresses of the thread's number and of the value, and ends the
    /// round.
    pub(super) fn for_threads(&mut self, id: MapId, word: &str, round: impl FnOnce(&mut Self, VReg, VReg)) {
        self.know_walkers();
        let mark_at = self.shared.ir.maps[id.0 as usize].value_size_bytes - MARK_BYTES;
        let repeated = self.subprogram(Role::Iteration, word, |cx, given| {
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
            // The idle threads have no number, and neither has what is being made at this moment.
            let thread = cx.b.load(Addr::reg(value, mark_at as i32), Size::B4);
            cx.b.branch(CmpOp::Ne, Width::W64, thread, 0, known, next, Likely::Then);
            cx.b.switch_to(next);
            cx.b.ret(0);
            cx.b.switch_to(known);
            // The low half comes first on all machines that we know.
            let number = cx.b.bin(BinOp::Add, Width::W64, value, i64::from(mark_at));
            round(cx, number, value);
        });
        self.run(
            repeated,
            |cx| {
                // Verifier: what walks is on the stack, at a place that it knows, so the frame is one of its own.
                let slot = cx.b.slot(FRAME_BYTES + WALK_BYTES, 8, "walk");
                cx.fill_frame(slot);
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

    /// How many threads have a value.
    pub(super) fn count_threads(&mut self, id: MapId) -> VReg {
        let room = self.scratch_room(8);
        let at = self.scratch_at(room);
        self.b.store(at, 0, Size::B8);
        self.for_threads(id, "threads", |cx, _, _| {
            let at = cx.scratch_at(room);
            let count = cx.b.load(at, Size::B8);
            let more = cx.b.bin(BinOp::Add, Width::W64, count, 1);
            cx.b.store(at, more, Size::B8);
            cx.b.ret(0);
        });
        let at = self.scratch_at(room);
        self.b.load(at, Size::B8)
    }

    /// The numbers of the functions that walk.
    fn know_walkers(&mut self) {
        if let Some(btf) = self.shared.target.btf()
            && self.shared.ir.kernel_functions.is_empty()
        {
            let number = |helper: Helper| Some((helper, btf.find(Kind::Function, helper.kernel_function()?)?.0));
            let known = WALKERS.into_iter().filter_map(number);
            self.shared.ir.kernel_functions = known.collect();
        }
    }
}
