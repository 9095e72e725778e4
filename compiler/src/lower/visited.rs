//! What a visited thread is and does.
//!
//! In: a program that runs for each thread in turn, in profiler's own. Out: code that reads the
//! visited thread: its numbers, its name, its state.
//! Guarantee: the states are those of the recipe `wall/threads`, with its names, and `throttled`,
//! which is part of "runnable" there.
//!
//! The thread is not stopped, so what is read of it is from slightly different moments.

use crate::btf::{Btf, Kind};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Section, Size, VReg, Width};
use crate::lower::prologue::{self, ITERATOR_OBJECT, read_kernel_scalar};
use crate::lower::{Body, Value, table};
use crate::object::Attach;
use crate::syscalls;
use crate::target::{Arch, Target};
use crate::types::Type;

/// Capacity of the name of a state; longer than every name, and a power of two.
pub const STATE_BYTES: u32 = 16;

/// The names of the states, by number.
const NAMES: [&str; 13] = [
    "running",
    "runnable",
    "throttled",
    "lock",
    "disk",
    "network",
    "poll",
    "pipe",
    "sleep",
    "fault",
    "child",
    "stopped",
    "other",
];

/// The states by their index in [`NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Runnable,
    Throttled,
    Lock,
    Disk,
    Network,
    Poll,
    Pipe,
    Sleep,
    Fault,
    Child,
    Stopped,
    Other,
}

/// System calls that do not say by themselves what they block on: it is in the mode of the file
/// that is the first argument.
const OF_FILES: i64 = 13;
/// System calls that wait for a disk while they are uninterruptible.
const OF_DISKS: i64 = 14;

/// What the system calls block on, by the names of their tracepoints.
const CALLS: [(i64, &[&str]); 7] = [
    (State::Lock as i64, &["futex", "futex_waitv", "futex_wait", "semop", "semtimedop", "flock", "fcntl"]),
    (
        State::Poll as i64,
        &["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6", "io_uring_enter"],
    ),
    (
        State::Network as i64,
        &[
            "connect", "accept", "accept4", "sendto", "recvfrom", "sendmsg", "recvmsg", "shutdown", "recvmmsg",
            "sendmmsg",
        ],
    ),
    (State::Sleep as i64, &["nanosleep", "clock_nanosleep"]),
    (State::Child as i64, &["wait4", "waitid"]),
    (
        OF_FILES,
        &[
            "read",
            "write",
            "pread64",
            "pwrite64",
            "readv",
            "writev",
            "sendfile64",
            "splice",
            "tee",
            "sync_file_range",
            "vmsplice",
            "preadv",
            "pwritev",
            "preadv2",
            "pwritev2",
        ],
    ),
    (OF_DISKS, &["fsync", "fdatasync", "sync", "syncfs", "open", "openat"]),
];

/// The priorities of the fair class begin here: `MAX_RT_PRIO`.
const FIRST_FAIR: i64 = 100;
/// Flags of a task: `PF_KTHREAD`.
const KERNEL_THREAD: i64 = 0x20_0000;
/// Bits of a task's state: `TASK_UNINTERRUPTIBLE`; `__TASK_STOPPED` and `__TASK_TRACED`;
/// `TASK_WAKING` and `TASK_NEW`.
const UNINTERRUPTIBLE: i64 = 2;
const STOPPED: i64 = 4 | 8;
const BEGINS: i64 = 0x200 | 0x800;
/// `TS_COMPAT` in `thread_info.status`: a 32-bit system call, whose numbers are others.
const COMPAT: i64 = 2;
/// `S_IFMT`, and what it can be.
const FILE_KIND: i64 = 0xf000;
const MODES: [(i64, State); 4] =
    [(0x1000, State::Pipe), (0xc000, State::Network), (0x8000, State::Disk), (0x6000, State::Disk)];

/// Size of `struct upid`: a number and a pointer.
const UPID_BYTES: i64 = 16;

/// The members of a task that every visit needs.
const NEEDED: [&str; 6] = ["tgid", "pid", "comm", "exit_state", "flags", "thread_pid"];

/// Whether the kernel's types say where to find what a visit needs.
pub fn is_described(target: &dyn Target) -> bool {
    let Some(btf) = target.btf() else { return false };
    let has = |name: &str| offset(btf, "task_struct", name).is_some();
    btf.iterators().find("task").is_some() && NEEDED.iter().all(|name| has(name)) && state_member(btf).is_some()
}

fn offset(btf: &Btf, of: &str, name: &str) -> Option<i32> {
    Some(btf.find_member(btf.find(Kind::Struct, of)?, name)?.byte_offset() as i32)
}

/// The task's state. Since 5.14 it has a name that keeps code from reading it by accident.
fn state_member(btf: &Btf) -> Option<&'static str> {
    ["__state", "state"].into_iter().find(|name| offset(btf, "task_struct", name).is_some())
}

/// Whether the program runs for visited threads.
pub(super) fn is_visit(cx: &Body<'_, '_>) -> bool {
    matches!(cx.probe.attach, Attach::Visits { .. })
}

/// The visited thread, as a typed pointer.
pub(super) fn task(cx: &mut Body<'_, '_>) -> VReg {
    let context = cx.b.context();
    let task = cx.b.load(Addr::reg(context, ITERATOR_OBJECT), Size::B8);
    // Verifier: it assumes that each load of the pointer may be 0. The prologue has tested it.
    prologue::go_on_if(cx, CmpOp::Ne, task, 0);
    task
}

/// A member of a struct that a typed pointer points to; 0 if the kernel does not have it.
fn member(cx: &mut Body<'_, '_>, base: VReg, of: &str, name: &str, size: Size) -> VReg {
    match cx.shared.target.btf().and_then(|btf| offset(btf, of, name)) {
        Some(offset) => cx.b.load(Addr::reg(base, offset), size),
        None => cx.b.copy(0),
    }
}

/// The same by the helper, for pointers that the verifier does not know.
fn read_member(cx: &mut Body<'_, '_>, base: VReg, of: &str, name: &str, size: Size) -> VReg {
    match cx.shared.target.btf().and_then(|btf| offset(btf, of, name)) {
        Some(offset) => read_kernel_scalar(cx, base, i64::from(offset), size),
        None => cx.b.copy(0),
    }
}

/// A bit-field of such a struct; 0 if the kernel does not have it.
fn bit(cx: &mut Body<'_, '_>, base: VReg, of: &str, name: &str) -> VReg {
    let found = cx.shared.target.btf().and_then(|btf| {
        let found = btf.find_member(btf.find(Kind::Struct, of)?, name)?;
        Some((found.byte_offset(), found.bit_offset % 8, found.bitfield_width.is_some()))
    });
    let Some((byte, first, is_bit)) = found else { return cx.b.copy(0) };
    let value = cx.b.load(Addr::reg(base, byte as i32), Size::B1);
    if is_bit { cx.b.bin(BinOp::And, Width::W64, value, 1i64 << first) } else { value }
}

/// Returns unless the thread is alive: it may have ended and not been waited for.
pub(super) fn only_live(cx: &mut Body<'_, '_>) {
    let task = task(cx);
    let ended = member(cx, task, "task_struct", "exit_state", Size::B4);
    prologue::go_on_if(cx, CmpOp::Eq, ended, 0);
}

/// Process id in the high half, thread id in the low half, in the initial pid namespace.
pub(super) fn initial_ids(cx: &mut Body<'_, '_>) -> VReg {
    let task = task(cx);
    let process = member(cx, task, "task_struct", "tgid", Size::B4);
    let thread = member(cx, task, "task_struct", "pid", Size::B4);
    both(cx, process, thread)
}

/// The same in profiler's pid namespace. An iterator visits only threads that have a number there.
pub(super) fn namespaced_ids(cx: &mut Body<'_, '_>) -> VReg {
    // The program runs in profiler's own thread, which is in that namespace itself.
    let own = cx.b.call(Helper::GetCurrentTaskBtf, &[]);
    let own = member(cx, own, "task_struct", "thread_pid", Size::B8);
    let level = read_member(cx, own, "pid", "level", Size::B4);
    let task = task(cx);
    let leader = member(cx, task, "task_struct", "group_leader", Size::B8);
    let process = number_at(cx, leader, level);
    let thread = number_at(cx, task, level);
    both(cx, process, thread)
}

/// The number of a thread at a level of the pid namespaces.
fn number_at(cx: &mut Body<'_, '_>, task: VReg, level: VReg) -> VReg {
    let pid = member(cx, task, "task_struct", "thread_pid", Size::B8);
    let distance = cx.b.bin(BinOp::Mul, Width::W64, level, UPID_BYTES);
    let at = cx.b.bin(BinOp::Add, Width::W64, distance, pid);
    read_member(cx, at, "pid", "numbers", Size::B4)
}

fn both(cx: &mut Body<'_, '_>, process: VReg, thread: VReg) -> VReg {
    let high = cx.b.bin(BinOp::Shl, Width::W64, process, 32);
    cx.b.bin(BinOp::Or, Width::W64, high, thread)
}

/// User id in the low half, group id in the high half.
pub fn user_and_group(cx: &mut Body<'_, '_>) -> VReg {
    let task = task(cx);
    let cred = member(cx, task, "task_struct", "cred", Size::B8);
    let user = member(cx, cred, "cred", "uid", Size::B4);
    let group = member(cx, cred, "cred", "gid", Size::B4);
    both(cx, group, user)
}

/// The id of the thread's cgroup in the unified hierarchy.
pub fn cgroup(cx: &mut Body<'_, '_>) -> VReg {
    let task = task(cx);
    let set = member(cx, task, "task_struct", "cgroups", Size::B8);
    let group = member(cx, set, "css_set", "dfl_cgrp", Size::B8);
    let node = member(cx, group, "cgroup", "kn", Size::B8);
    member(cx, node, "kernfs_node", "id", Size::B8)
}

/// The name of the visited thread; `None` if the program visits none.
pub fn name(cx: &mut Body<'_, '_>, ty: &Type, size_bytes: u32) -> Option<Value> {
    if !is_visit(cx) {
        return None;
    }
    let to = cx.allocate(ty);
    cx.zero(to, size_bytes);
    let task = task(cx);
    let offset = cx.shared.target.btf().and_then(|btf| offset(btf, "task_struct", "comm")).unwrap_or(0);
    let from = cx.b.bin(BinOp::Add, Width::W64, task, i64::from(offset));
    let to_arg = cx.address_arg(to);
    let size = Arg::Value(i64::from(size_bytes).into());
    cx.b.call_void(Helper::ProbeReadKernelStr, &[to_arg, size, Arg::Value(from.into())]);
    Some(Value::Memory(to))
}

/// Whether the thread is on a CPU: not 0.
pub(super) fn on_cpu(cx: &mut Body<'_, '_>, task: VReg) -> VReg {
    member(cx, task, "task_struct", "on_cpu", Size::B4)
}

/// How often the thread has left a CPU.
pub(super) fn times_off_cpu(cx: &mut Body<'_, '_>, task: VReg) -> VReg {
    let by_itself = member(cx, task, "task_struct", "nvcsw", Size::B8);
    let preempted = member(cx, task, "task_struct", "nivcsw", Size::B8);
    cx.b.bin(BinOp::Add, Width::W64, by_itself, preempted)
}

/// The number of the system call that the thread is in, or -1.
pub fn syscall(cx: &mut Body<'_, '_>) -> VReg {
    let number = cx.b.copy(-1);
    let [off_cpu, user, native, some, done] = std::array::from_fn(|_| cx.b.new_block());
    let task = task(cx);
    let on_cpu = on_cpu(cx, task);
    cx.b.branch(CmpOp::Eq, Width::W64, on_cpu, 0, off_cpu, done, Likely::Then);
    cx.b.switch_to(off_cpu);
    let flags = member(cx, task, "task_struct", "flags", Size::B4);
    let is_of_kernel = cx.b.bin(BinOp::And, Width::W64, flags, KERNEL_THREAD);
    cx.b.branch(CmpOp::Eq, Width::W64, is_of_kernel, 0, user, done, Likely::Then);
    cx.b.switch_to(user);
    let compat = compat(cx, task);
    cx.b.branch(CmpOp::Eq, Width::W64, compat, 0, native, done, Likely::Then);
    cx.b.switch_to(native);
    let registers = cx.b.call(Helper::TaskPtRegs, &[Arg::Value(task.into())]);
    let call = call_in(cx, registers);
    cx.b.branch(CmpOp::SGe, Width::W64, call, 0, some, done, Likely::Then);
    cx.b.switch_to(some);
    cx.b.assign(number, call);
    cx.b.jump(done);
    cx.b.switch_to(done);
    number
}

/// Whether the thread is in a 32-bit system call: not 0.
fn compat(cx: &mut Body<'_, '_>, task: VReg) -> VReg {
    match cx.shared.target.compat_status_offset().filter(|_| is_x86(cx)) {
        Some(status) => {
            let status = cx.b.load(Addr::reg(task, status as i32), Size::B4);
            cx.b.bin(BinOp::And, Width::W64, status, COMPAT)
        }
        None => cx.b.copy(0),
    }
}

/// The name of the thread's state.
pub fn state(cx: &mut Body<'_, '_>) -> Value {
    let number = cx.b.copy(State::Other as i64);
    let [ready, done] = std::array::from_fn(|_| cx.b.new_block());
    let task = task(cx);
    let on_cpu = on_cpu(cx, task);
    when(cx, (CmpOp::Ne, on_cpu, 0), (number, State::Running), done);
    let word = cx.shared.target.btf().and_then(state_member).unwrap_or("__state");
    let word = member(cx, task, "task_struct", word, Size::B4);
    when(cx, (CmpOp::Eq, word, 0), (number, State::Runnable), ready);
    let begins = cx.b.bin(BinOp::And, Width::W64, word, BEGINS);
    when(cx, (CmpOp::Ne, begins, 0), (number, State::Runnable), done);
    preempted(cx, task, number, ready);
    let stopped = cx.b.bin(BinOp::And, Width::W64, word, STOPPED);
    when(cx, (CmpOp::Ne, stopped, 0), (number, State::Stopped), done);
    let flags = member(cx, task, "task_struct", "flags", Size::B4);
    let is_of_kernel = cx.b.bin(BinOp::And, Width::W64, flags, KERNEL_THREAD);
    when(cx, (CmpOp::Ne, is_of_kernel, 0), (number, State::Other), done);
    blocked(cx, task, word, number, done);
    cx.b.switch_to(ready);
    throttled(cx, task, number, done);
    cx.b.switch_to(done);
    let known = &NAMES[..NAMES.len() - 1];
    table::text_by_number(cx, number, known, NAMES[State::Other as usize], STATE_BYTES)
}

/// Sets the number and jumps to `done` if a comparison holds.
fn when(cx: &mut Body<'_, '_>, (op, a, b): (CmpOp, VReg, i64), (number, state): (VReg, State), done: BlockId) {
    let (yes, no) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(op, Width::W64, a, b, yes, no, Likely::Unknown);
    cx.b.switch_to(yes);
    cx.b.assign(number, state as i64);
    cx.b.jump(done);
    cx.b.switch_to(no);
}

/// A thread that was preempted on its way to sleep is still in the queue. Since 6.12, one that
/// sleeps may be, too, and is marked.
fn preempted(cx: &mut Body<'_, '_>, task: VReg, number: VReg, done: BlockId) {
    let (queued, waits) = (cx.b.new_block(), cx.b.new_block());
    let on_queue = member(cx, task, "task_struct", "on_rq", Size::B4);
    cx.b.branch(CmpOp::Ne, Width::W64, on_queue, 0, queued, waits, Likely::Unknown);
    cx.b.switch_to(queued);
    let entity = cx.shared.target.btf().and_then(|btf| offset(btf, "task_struct", "se"));
    let delayed = cx.shared.target.btf().and_then(|btf| offset(btf, "sched_entity", "sched_delayed"));
    if let (Some(entity), Some(delayed)) = (entity, delayed) {
        let delayed = cx.b.load(Addr::reg(task, entity + delayed), Size::B1);
        when(cx, (CmpOp::Eq, delayed, 0), (number, State::Runnable), done);
        cx.b.jump(waits);
    } else {
        cx.b.assign(number, State::Runnable as i64);
        cx.b.jump(done);
    }
    cx.b.switch_to(waits);
}

/// Whether a thread that waits for a CPU waits for the quota of its group, or of one above it;
/// jumps to `done`. A quota is of the fair class: it does not stop a thread of another one.
fn throttled(cx: &mut Body<'_, '_>, task: VReg, number: VReg, done: BlockId) {
    let btf = cx.shared.target.btf();
    let queue = btf.and_then(|btf| Some(offset(btf, "task_struct", "se")? + offset(btf, "sched_entity", "cfs_rq")?));
    // Without CONFIG_CFS_BANDWIDTH there is no quota.
    let count = btf.and_then(|btf| offset(btf, "cfs_rq", "throttle_count"));
    if let (Some(queue), Some(count)) = (queue, count) {
        let fair = cx.b.new_block();
        let priority = member(cx, task, "task_struct", "prio", Size::B4);
        cx.b.branch(CmpOp::Ge, Width::W64, priority, FIRST_FAIR, fair, done, Likely::Then);
        cx.b.switch_to(fair);
        let queue = cx.b.load(Addr::reg(task, queue), Size::B8);
        let count = read_kernel_scalar(cx, queue, i64::from(count), Size::B4);
        when(cx, (CmpOp::Ne, count, 0), (number, State::Throttled), done);
    }
    cx.b.jump(done);
}

/// Why a thread that is not on a CPU is blocked; jumps to `done`.
fn blocked(cx: &mut Body<'_, '_>, task: VReg, word: VReg, number: VReg, done: BlockId) {
    let registers = cx.b.call(Helper::TaskPtRegs, &[Arg::Value(task.into())]);
    let call = call_in(cx, registers);
    when(cx, (CmpOp::SLt, call, 0), (number, State::Fault), done);
    let compat = compat(cx, task);
    when(cx, (CmpOp::Ne, compat, 0), (number, State::Other), done);
    let class = class_of(cx, call);
    let [known, unknown] = std::array::from_fn(|_| cx.b.new_block());
    cx.b.branch(CmpOp::Lt, Width::W64, class, State::Other as i64, known, unknown, Likely::Then);
    cx.b.switch_to(known);
    cx.b.assign(number, class);
    cx.b.jump(done);
    cx.b.switch_to(unknown);
    let waits_for_disk = bit(cx, task, "task_struct", "in_iowait");
    when(cx, (CmpOp::Ne, waits_for_disk, 0), (number, State::Disk), done);
    let [of_files, others, of_disks] = std::array::from_fn(|_| cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, class, OF_FILES, of_files, others, Likely::Unknown);
    cx.b.switch_to(of_files);
    let mode = file_mode(cx, task, registers);
    for (kind, state) in MODES {
        when(cx, (CmpOp::Eq, mode, kind), (number, state), done);
    }
    cx.b.jump(done);
    cx.b.switch_to(others);
    cx.b.branch(CmpOp::Eq, Width::W64, class, OF_DISKS, of_disks, done, Likely::Unknown);
    cx.b.switch_to(of_disks);
    let is_uninterruptible = cx.b.bin(BinOp::And, Width::W64, word, UNINTERRUPTIBLE);
    when(cx, (CmpOp::Ne, is_uninterruptible, 0), (number, State::Disk), done);
    cx.b.jump(done);
}

fn is_x86(cx: &Body<'_, '_>) -> bool {
    cx.shared.target.arch() == Arch::X86_64
}

/// The number of the system call that a thread outside of its CPU is in; negative if it entered the
/// kernel otherwise.
fn call_in(cx: &mut Body<'_, '_>, registers: VReg) -> VReg {
    match cx.shared.target.arch() {
        // `orig_ax`; `syscallno`.
        Arch::X86_64 => cx.b.load(Addr::reg(registers, 120), Size::B8),
        Arch::Aarch64 => {
            let number = cx.b.load(Addr::reg(registers, 280), Size::B4);
            cx.b.extend(number, Size::B4, true)
        }
    }
}

/// What a system call blocks on, as a number: a [`State`], [`OF_FILES`] or [`OF_DISKS`].
fn class_of(cx: &mut Body<'_, '_>, call: VReg) -> VReg {
    let arch = cx.shared.target.arch();
    let mut classes = vec![State::Other as u8];
    for (class, names) in CALLS {
        for number in names.iter().filter_map(|name| syscalls::number(arch, name)) {
            let at = number as usize;
            classes.resize(classes.len().max(at + 2), State::Other as u8);
            classes[at] = class as u8;
        }
    }
    let offset = cx.shared.rodata(&classes);
    let index = cx.b.clamp(call, classes.len() as u32 - 1);
    let base = cx.b.data_addr(Section::Rodata, offset);
    let at = cx.b.bin(BinOp::Add, Width::W64, base, index);
    cx.b.load(Addr::reg(at, 0), Size::B1)
}

/// The kind of the file whose descriptor is the first argument of the system call.
fn file_mode(cx: &mut Body<'_, '_>, task: VReg, registers: VReg) -> VReg {
    let first_argument = if is_x86(cx) { 112 } else { 272 };
    let descriptor = cx.b.load(Addr::reg(registers, first_argument), Size::B4);
    let files = member(cx, task, "task_struct", "files", Size::B8);
    let table = read_member(cx, files, "files_struct", "fdt", Size::B8);
    let entries = read_member(cx, table, "fdtable", "fd", Size::B8);
    let distance = cx.b.bin(BinOp::Shl, Width::W64, descriptor, 3);
    let entry = cx.b.bin(BinOp::Add, Width::W64, entries, distance);
    let file = read_kernel_scalar(cx, entry, 0, Size::B8);
    let inode = read_member(cx, file, "file", "f_inode", Size::B8);
    let mode = read_member(cx, inode, "inode", "i_mode", Size::B2);
    cx.b.bin(BinOp::And, Width::W64, mode, FILE_KIND)
}
