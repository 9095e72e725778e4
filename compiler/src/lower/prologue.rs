//! What runs before and after a body: filters, and a claim on scratch memory.
//!
//! In: the probe's context. Out: code at the start and the end of the function.
//! Guarantee: a program that is not meant for an event leaves it after a few instructions.

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Inst, Likely, Section, Size, VReg, Width};
use crate::lower::Body;
use crate::lower::body::SHARED_FRAMES;
use crate::object::Loss;
use crate::target::Arch;
use crate::typed::{ContextKind, SyscallFilter};

/// Numbers of system calls are below this; larger ones are compared one by one.
const MAX_SYSCALL: u32 = 1024;

/// `TS_COMPAT` in `thread_info.status`: the thread is in a 32-bit system call (`arch/x86/include/asm/thread_info.h`).
const TS_COMPAT: i64 = 2;

/// Where an iterator's context has the object: behind the pointer to what all iterators have.
const ITERATOR_OBJECT: i32 = 8;

/// `BPF_RB_AVAIL_DATA`.
const AVAILABLE_DATA: i64 = 0;

impl Body<'_, '_> {
    pub(super) fn prologue(&mut self) {
        if self.probe.context.kind == ContextKind::Iterator {
            self.iterator_steps();
        }
        if let Some(filter) = &self.probe.context.syscalls {
            self.syscall_filter(filter);
        }
        if let Some(pid) = self.probe.only_pid {
            let both = self.process_ids();
            let process = self.b.bin(BinOp::Shr, Width::W64, both, 32);
            self.go_on_if(CmpOp::Eq, process, i64::from(pid));
        }
        self.claim_scratch();
    }

    /// Continues when a comparison holds, else leaves.
    fn go_on_if(&mut self, op: CmpOp, a: VReg, b: i64) {
        let (next, exit) = (self.b.new_block(), self.bare_exit());
        self.b.branch(op, Width::W64, a, b, next, exit, Likely::Otherwise);
        self.b.switch_to(next);
    }

    /// The way out before scratch memory was claimed.
    fn bare_exit(&mut self) -> crate::ir::BlockId {
        let (here, exit) = (self.b.current_block(), self.b.new_block());
        self.b.switch_to(exit);
        self.b.ret(0);
        self.b.switch_to(here);
        exit
    }

    /// The number of the system call: `sys_enter` has it as its second argument, `sys_exit` in the registers.
    pub fn syscall_number(&mut self) -> VReg {
        let context = self.b.context();
        if self.probe.section.ends_with("sys_enter") {
            return self.b.load(Addr::reg(context, 8), Size::B8);
        }
        let registers = self.b.load(Addr::reg(context, 0), Size::B8);
        // `orig_ax` of x86; `syscallno` behind the user registers and `orig_x0` of arm64.
        let offset = match self.shared.target.arch() {
            Arch::X86_64 => 120,
            Arch::Aarch64 => 280,
        };
        let size = if self.shared.target.arch() == Arch::X86_64 { Size::B8 } else { Size::B4 };
        self.read_kernel_scalar(registers, offset, size)
    }

    /// Reads a number from kernel memory; 0 where it cannot be read.
    pub fn read_kernel_scalar(&mut self, base: VReg, offset: i64, size: Size) -> VReg {
        let from = self.b.bin(BinOp::Add, Width::W64, base, offset);
        let to = self.memory(8, "read");
        let to_arg = self.address_arg(to);
        let bytes = i64::from(size.bytes());
        self.b.call_void(Helper::ProbeReadKernel, &[to_arg, Arg::Value(bytes.into()), Arg::Value(from.into())]);
        self.b.load(to, size)
    }

    /// The kernel calls once more at the end, without an object. Before that, it stops at an object for which the program
    /// returns 1, and starts with it again when the iterator is read next: so nothing is lost where the reader drains the
    /// rings in between, and `exit()` is obeyed before the next object.
    fn iterator_steps(&mut self) {
        let context = self.b.context();
        let object = self.b.load(Addr::reg(context, ITERATOR_OBJECT), Size::B8);
        self.go_on_if(CmpOp::Ne, object, 0);
        let half = i64::from(self.shared.program.ring_size_bytes / 2);
        for (ring, most) in [(self.shared.data_ring, half), (self.shared.control_ring, 0)] {
            let Some(ring) = ring else { continue };
            let used = self.b.call(Helper::RingbufQuery, &[Arg::Map(ring), Arg::Value(AVAILABLE_DATA.into())]);
            let (later, next) = (self.b.new_block(), self.b.new_block());
            self.b.branch(CmpOp::Gt, Width::W64, used, most, later, next, Likely::Otherwise);
            self.b.switch_to(later);
            self.b.ret(1);
            self.b.switch_to(next);
        }
    }

    fn syscall_filter(&mut self, filter: &SyscallFilter) {
        let number = self.syscall_number();
        if let [only] = filter.numbers.as_slice() {
            self.go_on_if(CmpOp::Eq, number, i64::from(*only));
        } else {
            self.go_on_if(CmpOp::Lt, number, i64::from(MAX_SYSCALL));
            let mut bits = vec![0u8; MAX_SYSCALL as usize / 8];
            for n in filter.numbers.iter().filter(|n| **n < MAX_SYSCALL) {
                bits[*n as usize / 8] |= 1 << (n % 8);
            }
            let table = self.shared.rodata(&bits);
            let number = self.b.clamp(number, MAX_SYSCALL - 1);
            let byte_index = self.b.bin(BinOp::Shr, Width::W64, number, 3);
            let base = self.b.data_addr(Section::Rodata, table);
            let at = self.b.bin(BinOp::Add, Width::W64, base, byte_index);
            let byte = self.b.load(Addr::reg(at, 0), Size::B1);
            let bit_index = self.b.bin(BinOp::And, Width::W64, number, 7);
            let shifted = self.b.bin(BinOp::Shr, Width::W64, byte, bit_index);
            let bit = self.b.bin(BinOp::And, Width::W64, shifted, 1);
            self.go_on_if(CmpOp::Ne, bit, 0);
        }
        self.only_native_syscalls();
    }

    /// A 32-bit program's system calls have other numbers: the kernel's own tracepoints ignore them on x86, so do we.
    fn only_native_syscalls(&mut self) {
        if self.shared.target.arch() != Arch::X86_64 {
            return;
        }
        let Some(offset) = self.shared.target.compat_status_offset() else { return };
        // Since 5.11: a task pointer with its type, which needs no checked read.
        let task = self.b.call(Helper::GetCurrentTaskBtf, &[]);
        let status = self.b.load(Addr::reg(task, offset as i32), Size::B4);
        let compat = self.b.bin(BinOp::And, Width::W64, status, TS_COMPAT);
        self.go_on_if(CmpOp::Eq, compat, 0);
    }

    /// Takes this run's scratch memory. A program that nothing can enter twice on a CPU has one frame a CPU; one that
    /// can be preempted has several and takes a free one.
    fn claim_scratch(&mut self) {
        let size_bytes = self.shared.facts.scratch_bytes.get(self.index).copied().unwrap_or(0);
        if size_bytes == 0 {
            return;
        }
        let stride = size_bytes.next_multiple_of(64);
        let cpus = self.shared.cpu_slots();
        if !self.probe.context.preemptible {
            let offset = self.shared.bss_aligned(stride * cpus, 64);
            self.scratch = Some(self.cpu_copy(offset, stride));
            return;
        }
        // The first 8 bytes of a frame say whether it is taken.
        let frame = stride + 64;
        let offset = self.shared.bss_aligned(frame * SHARED_FRAMES * cpus, 64);
        let first = self.cpu_copy(offset, frame * SHARED_FRAMES);
        let claimed = self.b.new_vreg();
        let go_on = self.b.new_block();
        for n in 0..SHARED_FRAMES {
            let (got, next) = (self.b.new_block(), self.b.new_block());
            let flag = self.b.bin(BinOp::Add, Width::W64, first, i64::from(n * frame));
            let one = self.b.copy(1);
            let old = self.b.new_vreg();
            self.b.inst(Inst::Exchange { dst: old, addr: Addr::reg(flag, 0), src: one });
            self.b.branch(CmpOp::Eq, Width::W64, old, 0, got, next, Likely::Then);
            self.b.switch_to(got);
            self.b.assign(claimed, flag);
            self.b.jump(go_on);
            self.b.switch_to(next);
        }
        self.count_loss(Loss::Scratch { program: self.index });
        self.b.ret(0);
        self.b.switch_to(go_on);
        self.scratch = Some(self.b.bin(BinOp::Add, Width::W64, claimed, 64));
        self.claimed = Some(claimed);
    }

    /// Gives the scratch frame back.
    pub(super) fn epilogue(&mut self) {
        if let Some(claimed) = self.claimed {
            let zero = self.b.copy(0);
            let old = self.b.new_vreg();
            self.b.inst(Inst::Exchange { dst: old, addr: Addr::reg(claimed, 0), src: zero });
        }
    }
}
