//! Perf events: what tracepoints, timers by CPU and single uprobes are attached through.
//!
//! In: what to count and where. Out: a descriptor that carries one BPF program.
//! Guarantee: closing the descriptor ends the event.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libbpf_sys as sys;

use super::{check_errno, own};

/// `_IOW('$', 8, u32)`.
const PERF_EVENT_IOC_SET_BPF: u64 = 0x4004_2408;

/// `linux/hw_breakpoint.h`.
const HW_BREAKPOINT_R: u32 = 1;
const HW_BREAKPOINT_W: u32 = 2;
const HW_BREAKPOINT_X: u32 = 4;

/// Which process or CPU an event watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Everything on a CPU.
    Cpu(u32),
    /// A thread and those it starts, on any CPU.
    Thread(u32),
    /// A process's memory, for uprobes.
    Process(u32),
}

/// How often an event fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Times a second.
    Hertz(u64),
    /// Once every so many counts.
    Period(u64),
}

/// A perf event that samples.
pub fn open_sampling(kind: u32, config: u64, sampling: Sampling, place: Where) -> io::Result<OwnedFd> {
    let mut attr = attr(kind, config);
    match sampling {
        Sampling::Hertz(frequency) => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = frequency;
        }
        Sampling::Period(period) => attr.__bindgen_anon_1.sample_period = period,
    }
    if matches!(place, Where::Thread(_)) {
        attr.set_inherit(1);
    }
    open(&mut attr, place)
}

/// An event that never fires, and tells what processes do: start, map files, have children, end; with the time of each.
/// It becomes readable once so many bytes of records wait.
pub fn open_process_events(place: Where, watermark_bytes: u32) -> io::Result<OwnedFd> {
    let mut attr = attr(sys::PERF_TYPE_SOFTWARE, u64::from(sys::PERF_COUNT_SW_DUMMY));
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_sample_id_all(1);
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = watermark_bytes;
    attr.sample_type = u64::from(sys::PERF_SAMPLE_TIME);
    open(&mut attr, place)
}

/// A tracepoint by its number.
pub fn open_tracepoint(id: u64) -> io::Result<OwnedFd> {
    let mut attr = attr(sys::PERF_TYPE_TRACEPOINT, id);
    attr.__bindgen_anon_1.sample_period = 1;
    // One CPU is enough: programs hang on the tracepoint, not on the event.
    open(&mut attr, Where::Cpu(0))
}

/// A uprobe; `kind` and `config` say entry or return and come from `/sys/bus/event_source/devices/uprobe`.
pub fn open_uprobe(kind: u32, config: u64, path: &CStr, file_offset: u64, pid: Option<u32>) -> io::Result<OwnedFd> {
    let mut attr = attr(kind, config);
    // The string outlives the call in which the kernel copies it.
    attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = file_offset;
    open(&mut attr, pid.map_or(Where::Cpu(0), Where::Process))
}

/// A kprobe; `kind` and `config` say entry or return and come from `/sys/bus/event_source/devices/kprobe`.
pub fn open_kprobe(kind: u32, config: u64, function: &CStr, offset_bytes: u64) -> io::Result<OwnedFd> {
    let mut attr = attr(kind, config);
    // The string outlives the call in which the kernel copies it.
    attr.__bindgen_anon_3.kprobe_func = function.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = offset_bytes;
    open(&mut attr, Where::Cpu(0))
}

/// Accesses to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// Execution.
    pub execute: bool,
}

/// A hardware breakpoint. Of execution the kernel wants the length of a `long`.
pub fn open_breakpoint(address: u64, length_bytes: u8, access: Access, place: Where) -> io::Result<OwnedFd> {
    let mut attr = attr(sys::PERF_TYPE_BREAKPOINT, 0);
    let bit = |wanted: bool, bit: u32| if wanted { bit } else { 0 };
    attr.bp_type =
        bit(access.read, HW_BREAKPOINT_R) | bit(access.write, HW_BREAKPOINT_W) | bit(access.execute, HW_BREAKPOINT_X);
    attr.__bindgen_anon_3.bp_addr = address;
    attr.__bindgen_anon_4.bp_len = if access.execute { 8 } else { u64::from(length_bytes) };
    attr.__bindgen_anon_1.sample_period = 1;
    if matches!(place, Where::Thread(_)) {
        attr.set_inherit(1);
    }
    open(&mut attr, place)
}

/// Ties a program to an event the old way, for kernels without perf links; closing the event detaches it.
pub fn set_program(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes a descriptor by value.
    check_errno(unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_BPF, program.as_raw_fd()) })?;
    Ok(())
}

fn attr(kind: u32, config: u64) -> sys::perf_event_attr {
    sys::perf_event_attr { type_: kind, size: size_of::<sys::perf_event_attr>() as u32, config, ..Default::default() }
}

fn open(attr: &mut sys::perf_event_attr, place: Where) -> io::Result<OwnedFd> {
    let (pid, cpu) = match place {
        Where::Cpu(cpu) => (-1, cpu as i32),
        Where::Thread(pid) | Where::Process(pid) => (pid as i32, -1),
    };
    let flags = u64::from(sys::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes outlive the call and state their own size; a string they point to is alive in the caller.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, std::ptr::from_mut(attr), pid, cpu, -1, flags) };
    check_errno(fd as i32).map(own)
}
