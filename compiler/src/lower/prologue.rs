//! Program prologue and epilogue: event filter, gate, acquisition of scratch memory.
//!
//! In: the probe's context. Out: code at the start and the end of the function.
//! Guarantee: a program that does not want an event returns after a few instructions.

use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Inst, Likely, Section, Size, VReg, Width};
use crate::lower::allocation::SHARED_FRAMES;
use crate::lower::{Body, ids, runs, sequence, visited};
use crate::object::{Attach, CLOSED_BY_EXIT, Loss, PROCESS_SHIFT};
use crate::target::Arch;
use crate::typed::{ContextKind, SyscallFilter};

/// System call numbers from this one on are not matched by a list of several numbers; a single
/// number is compared directly.
pub(super) const MAX_SYSCALL: u32 = 1024;

/// The first kernel with `bpf_task_pt_regs`.
const TYPED_REGISTERS_SINCE: (u32, u32) = (5, 15);

/// `TS_COMPAT` in `thread_info.status`: the thread is in a 32-bit system call
/// (`arch/x86/include/asm/thread_info.h`).
const TS_COMPAT: i64 = 2;

/// Offset of the object in an iterator's context: after the pointer that all iterators have.
pub(super) const ITERATOR_OBJECT: i32 = 8;

/// `BPF_RB_AVAIL_DATA`.
const AVAILABLE_DATA: i64 = 0;

pub(super) fn prologue(cx: &mut Body<'_, '_>) {
    if cx.probe.context.kind == ContextKind::Iterator {
        iterator_steps(cx);
    }
    // A shared program has already run the tests that are the same for all its blocks.
    if !cx.is_merged() {
        if let Some(filter) = &cx.probe.context.syscalls {
            syscall_filter(cx, filter);
        }
        count_and_test_gate(cx);
    }
    if !cx.shared.merged.tests_processes(cx.shared.program, cx.index) {
        only_its_processes(cx);
    }
    if visited::is_visit(cx) {
        visited::only_live(cx);
    }
    if !cx.is_merged() {
        only_the_process_of_its_event(cx);
    }
    claim_scratch(cx);
    begin_result(cx);
}

/// Counts the run if the probe is a perf event, then returns unless the gate is open.
pub(super) fn count_and_test_gate(cx: &mut Body<'_, '_>) {
    runs::count(cx);
    only_while_open(cx);
}

/// Returns unless the gate is open; probes without a gate continue.
pub(super) fn only_while_open(cx: &mut Body<'_, '_>) {
    if cx.probe.attach.is_gated() {
        let gate = gate_address(cx);
        let closed = cx.b.load(gate, Size::B8);
        go_on_if(cx, CmpOp::Eq, closed, 0);
    }
}

/// Returns unless the process is one of those that the probe is restricted to.
pub(super) fn only_its_processes(cx: &mut Body<'_, '_>) {
    let mut pids = cx.probe.only_pids.clone();
    if pids.is_empty() {
        return;
    }
    pids.sort_unstable();
    let both = ids::namespaced(cx);
    let process = cx.b.bin(BinOp::Shr, Width::W64, both, 32);
    let (found, exit) = (cx.b.new_block(), bare_exit(cx));
    branch_on_sorted(cx, process, &pids, found, exit);
    cx.b.switch_to(found);
}

/// Before 6.6 the kernel runs a return probe's program once for every perf event that it is
/// attached to, whichever process returns. With several events the upper half of the cookie is
/// the event's process ([`PROCESS_SHIFT`]); 0 stands for every process.
pub(super) fn only_the_process_of_its_event(cx: &mut Body<'_, '_>) {
    if !is_return_of_perf_events(cx) {
        return;
    }
    let cookie = cx.b.call(Helper::GetAttachCookie, &[Arg::Context]);
    let wanted = cx.b.bin(BinOp::Shr, Width::W64, cookie, i64::from(PROCESS_SHIFT));
    let (check, next, exit) = (cx.b.new_block(), cx.b.new_block(), bare_exit(cx));
    cx.b.branch(CmpOp::Eq, Width::W64, wanted, 0, next, check, Likely::Otherwise);
    cx.b.switch_to(check);
    let both = ids::namespaced(cx);
    let process = cx.b.bin(BinOp::Shr, Width::W64, both, 32);
    cx.b.branch(CmpOp::Eq, Width::W64, process, wanted, next, exit, Likely::Otherwise);
    cx.b.switch_to(next);
}

/// Whether the program is attached to function returns through perf events.
pub(super) fn is_return_of_perf_events(cx: &Body<'_, '_>) -> bool {
    matches!(cx.probe.attach, Attach::Uprobe { at_return: true, multi: false, .. })
}

/// Binary search: jumps to `found` if the number is in the list, else to `exit`.
fn branch_on_sorted(cx: &mut Body<'_, '_>, number: VReg, sorted: &[u32], found: BlockId, exit: BlockId) {
    if let [only] = sorted {
        cx.b.branch(CmpOp::Eq, Width::W64, number, i64::from(*only), found, exit, Likely::Otherwise);
        return;
    }
    let (low, high) = sorted.split_at(sorted.len() / 2);
    let Some(first_high) = high.first() else { return cx.b.jump(exit) };
    let (below, above) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Lt, Width::W64, number, i64::from(*first_high), below, above, Likely::Otherwise);
    cx.b.switch_to(below);
    branch_on_sorted(cx, number, low, found, exit);
    cx.b.switch_to(above);
    branch_on_sorted(cx, number, high, found, exit);
}

/// The address of the gate: the word that starts and stops counting.
fn gate_address(cx: &mut Body<'_, '_>) -> Addr {
    let offset = cx.shared.gate;
    Addr::reg(cx.b.data_addr(Section::Bss, offset), 0)
}

/// Closes the gate: events from now on are not part of the run.
pub fn close_gate(cx: &mut Body<'_, '_>, code: u8) {
    let gate = gate_address(cx);
    cx.b.store(gate, CLOSED_BY_EXIT as i64 | i64::from(code), Size::B8);
    end_program(cx);
}

/// Continues if a comparison holds, else returns.
pub(super) fn go_on_if(cx: &mut Body<'_, '_>, op: CmpOp, a: VReg, b: i64) {
    let (next, exit) = (cx.b.new_block(), bare_exit(cx));
    cx.b.branch(op, Width::W64, a, b, next, exit, Likely::Otherwise);
    cx.b.switch_to(next);
}

/// An exit block for code before scratch memory is acquired.
fn bare_exit(cx: &mut Body<'_, '_>) -> BlockId {
    let (here, exit) = (cx.b.current_block(), cx.b.new_block());
    cx.b.switch_to(exit);
    cx.b.ret(0);
    cx.b.switch_to(here);
    exit
}

/// The number of the system call: the second argument of `sys_enter`; from the registers in
/// `sys_exit`.
pub(super) fn syscall_number(cx: &mut Body<'_, '_>) -> VReg {
    let context = cx.b.context();
    if cx.probe.section.ends_with("sys_enter") {
        return cx.b.load(Addr::reg(context, 8), Size::B8);
    }
    // `orig_ax` on x86; on arm64 `syscallno`, which follows the user registers and `orig_x0`.
    let offset = match cx.shared.target.arch() {
        Arch::X86_64 => 120,
        Arch::Aarch64 => 280,
    };
    let size = if cx.shared.target.arch() == Arch::X86_64 { Size::B8 } else { Size::B4 };
    if cx.shared.target.kernel() >= TYPED_REGISTERS_SINCE {
        // A typed register pointer needs no probe read.
        let task = cx.b.call(Helper::GetCurrentTaskBtf, &[]);
        let registers = cx.b.call(Helper::TaskPtRegs, &[Arg::Value(task.into())]);
        return cx.b.load(Addr::reg(registers, offset as i32), size);
    }
    let registers = cx.b.load(Addr::reg(context, 0), Size::B8);
    read_kernel_scalar(cx, registers, offset, size)
}

/// Reads a number from kernel memory; 0 if it cannot be read.
pub(super) fn read_kernel_scalar(cx: &mut Body<'_, '_>, base: VReg, offset: i64, size: Size) -> VReg {
    let from = cx.b.bin(BinOp::Add, Width::W64, base, offset);
    let to = cx.brief_word("read");
    let to_arg = cx.address_arg(to);
    let bytes = i64::from(size.bytes());
    cx.b.call_void(Helper::ProbeReadKernel, &[to_arg, Arg::Value(bytes.into()), Arg::Value(from.into())]);
    cx.b.load(to, size)
}

/// The kernel makes a last call without an object at the end. If the program returns 1, the
/// kernel stops at that object and calls again with it at the next read of the iterator. So the
/// reader can drain the rings in between and nothing is lost, and `exit()` takes effect before
/// the next object.
fn iterator_steps(cx: &mut Body<'_, '_>) {
    let context = cx.b.context();
    let object = cx.b.load(Addr::reg(context, ITERATOR_OBJECT), Size::B8);
    go_on_if(cx, CmpOp::Ne, object, 0);
    if sequence::is_written(cx) {
        // The rings hold nothing but warnings, and no process drains them.
        return;
    }
    let half = i64::from(cx.shared.program.ring_size_bytes / 2);
    for (ring, most) in [(cx.shared.data_ring, half), (cx.shared.control_ring, 0)] {
        let Some(ring) = ring else { continue };
        let used = cx.b.call(Helper::RingbufQuery, &[Arg::Map(ring), Arg::Value(AVAILABLE_DATA.into())]);
        let (later, next) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Gt, Width::W64, used, most, later, next, Likely::Otherwise);
        cx.b.switch_to(later);
        cx.b.ret(1);
        cx.b.switch_to(next);
    }
}

pub(super) fn syscall_filter(cx: &mut Body<'_, '_>, filter: &SyscallFilter) {
    let number = syscall_number(cx);
    if let [only] = filter.numbers.as_slice() {
        go_on_if(cx, CmpOp::Eq, number, i64::from(*only));
    } else {
        go_on_if(cx, CmpOp::Lt, number, i64::from(MAX_SYSCALL));
        let mut bits = vec![0u8; MAX_SYSCALL as usize / 8];
        for n in filter.numbers.iter().filter(|n| **n < MAX_SYSCALL) {
            bits[*n as usize / 8] |= 1 << (n % 8);
        }
        let table = cx.shared.rodata(&bits);
        let number = cx.b.clamp(number, MAX_SYSCALL - 1);
        let byte_index = cx.b.bin(BinOp::Shr, Width::W64, number, 3);
        let base = cx.b.data_addr(Section::Rodata, table);
        let at = cx.b.bin(BinOp::Add, Width::W64, base, byte_index);
        let byte = cx.b.load(Addr::reg(at, 0), Size::B1);
        let bit_index = cx.b.bin(BinOp::And, Width::W64, number, 7);
        let shifted = cx.b.bin(BinOp::Shr, Width::W64, byte, bit_index);
        let bit = cx.b.bin(BinOp::And, Width::W64, shifted, 1);
        go_on_if(cx, CmpOp::Ne, bit, 0);
    }
    only_native_syscalls(cx);
}

/// System calls of 32-bit processes have other numbers. The kernel's own tracepoints ignore
/// them on x86, so we do too.
fn only_native_syscalls(cx: &mut Body<'_, '_>) {
    if let Some(compat) = compat_status(cx) {
        go_on_if(cx, CmpOp::Eq, compat, 0);
    }
}

/// A register that is 0 in system calls that are not 32-bit; `None` if they cannot be told
/// apart.
pub(super) fn compat_status(cx: &mut Body<'_, '_>) -> Option<VReg> {
    if cx.shared.target.arch() != Arch::X86_64 {
        return None;
    }
    let offset = cx.shared.target.compat_status_offset()?;
    // Since 5.11: a typed task pointer, which needs no probe read.
    let task = cx.b.call(Helper::GetCurrentTaskBtf, &[]);
    let status = cx.b.load(Addr::reg(task, offset as i32), Size::B4);
    Some(cx.b.bin(BinOp::And, Width::W64, status, TS_COMPAT))
}

/// Acquires this run's scratch memory. A program that cannot be re-entered on a CPU has one
/// frame per CPU. A program that can be preempted has several, and acquires a free one.
///
/// Verifier: if it knew the frame's number, it would check all later code once for each frame.
/// A word of the frame that is always zero hides the number.
fn claim_scratch(cx: &mut Body<'_, '_>) {
    let size_bytes = cx.shared.facts.scratch_bytes.get(cx.index).copied().unwrap_or(0);
    if size_bytes == 0 {
        return;
    }
    let stride = size_bytes.next_multiple_of(64);
    let cpus = cx.shared.cpu_slots();
    if !cx.probe.context.preemptible {
        let offset = cx.shared.bss_aligned(stride.saturating_mul(cpus), 64);
        cx.function.scratch = Some(cx.cpu_copy(offset, stride));
        return;
    }
    // The first 8 bytes of a frame are the flag that it is taken; the next 8 are never written.
    let frame = stride + 64;
    let frames = frame.saturating_mul(SHARED_FRAMES);
    let offset = cx.shared.bss_aligned(frames.saturating_mul(cpus), 64);
    let first = cx.cpu_copy(offset, frames);
    let (number, go_on) = (cx.b.new_vreg(), cx.b.new_block());
    for n in 0..SHARED_FRAMES {
        let (got, next) = (cx.b.new_block(), cx.b.new_block());
        let flag = cx.b.bin(BinOp::Add, Width::W64, first, i64::from(n * frame));
        let one = cx.b.copy(1);
        let old = cx.b.new_vreg();
        cx.b.inst(Inst::Exchange { dst: old, addr: Addr::reg(flag, 0), src: one });
        cx.b.branch(CmpOp::Eq, Width::W64, old, 0, got, next, Likely::Then);
        cx.b.switch_to(got);
        let zero = cx.b.load(Addr::reg(flag, 8), Size::B8);
        let hidden = cx.b.bin(BinOp::Add, Width::W64, zero, i64::from(n));
        cx.b.assign(number, hidden);
        cx.b.jump(go_on);
        cx.b.switch_to(next);
    }
    cx.count_loss(Loss::Scratch { program: cx.index });
    cx.b.ret(0);
    cx.b.switch_to(go_on);
    let within = cx.b.bin(BinOp::And, Width::W64, number, i64::from(SHARED_FRAMES - 1));
    let distance = cx.b.bin(BinOp::Mul, Width::W64, within, i64::from(frame));
    let claimed = cx.b.bin(BinOp::Add, Width::W64, first, distance);
    cx.function.scratch = Some(cx.b.bin(BinOp::Add, Width::W64, claimed, 64));
    cx.scratch.claimed = Some(claimed);
}

/// Clears the `exit` flag of a block that shares its program and may call `exit`. The flag is
/// in scratch memory because a loop's function may set it.
fn begin_result(cx: &mut Body<'_, '_>) {
    if cx.is_merged() && cx.shared.facts.exits.contains(&cx.index) {
        let place = result_place(cx);
        cx.b.store(place, 0, Size::B8);
    }
}

fn result_place(cx: &mut Body<'_, '_>) -> Addr {
    let offset = match cx.scratch.exit_flag {
        Some(offset) => offset,
        None => cx.scratch_room(8),
    };
    cx.scratch.exit_flag = Some(offset);
    cx.scratch_at(offset)
}

/// Records that later blocks of the same program are not part of the run any more.
fn end_program(cx: &mut Body<'_, '_>) {
    cx.shared.learned.exits.insert(cx.index);
    if cx.is_merged() {
        let place = result_place(cx);
        cx.b.store(place, 1, Size::B8);
    }
}

/// Releases the scratch frame and returns: 1 if a block that shares its program has called
/// `exit`, else 0.
pub(super) fn epilogue(cx: &mut Body<'_, '_>) {
    let ended = cx.scratch.exit_flag.map(|offset| {
        let place = cx.scratch_at(offset);
        cx.b.load(place, Size::B8)
    });
    if let Some(claimed) = cx.scratch.claimed {
        let zero = cx.b.copy(0);
        let old = cx.b.new_vreg();
        cx.b.inst(Inst::Exchange { dst: old, addr: Addr::reg(claimed, 0), src: zero });
    }
    if let Some(ended) = ended {
        let (yes, no) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Ne, Width::W64, ended, 0, yes, no, Likely::Otherwise);
        cx.b.switch_to(yes);
        cx.b.ret(1);
        cx.b.switch_to(no);
    }
    cx.b.ret(0);
}
