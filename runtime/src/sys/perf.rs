//! Perf events, through which tracepoints, per-CPU timers and single uprobes are attached.
//!
//! In: what to count and where. Out: a descriptor to which one BPF program can be attached.
//! Guarantee: closing the descriptor ends the event.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libbpf_sys as sys;

use super::{check_errno, own};

/// `_IOW('$', 8, u32)`.
const PERF_EVENT_IOC_SET_BPF: u64 = 0x4004_2408;

/// `_IO('$', 0)`.
const PERF_EVENT_IOC_ENABLE: u64 = 0x2400;

/// `linux/hw_breakpoint.h`.
const HW_BREAKPOINT_R: u32 = 1;
const HW_BREAKPOINT_W: u32 = 2;
const HW_BREAKPOINT_X: u32 = 4;

/// The process, thread or CPU that an event monitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Everything on a CPU.
    Cpu(u32),
    /// A thread and the threads and processes it starts, on any CPU.
    Thread(u32),
    /// The memory of a process, for uprobes.
    Process(u32),
}

/// How often an event fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Samples per second.
    Hertz(u64),
    /// One sample every `n` counts.
    Period(u64),
}

/// A perf event that samples a CPU after [`start`].
pub fn open_sampling(kind: u32, config: u64, sampling: Sampling, cpu: u32) -> io::Result<OwnedFd> {
    let mut attr = attr(kind, config);
    attr.set_disabled(1);
    match sampling {
        Sampling::Hertz(frequency) => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = frequency;
        }
        Sampling::Period(period) => attr.__bindgen_anon_1.sample_period = period,
    }
    attr.read_format = u64::from(sys::PERF_FORMAT_TOTAL_TIME_RUNNING);
    open(&mut attr, Where::Cpu(cpu))
}

/// Enables a disabled event.
pub fn start(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes a number.
    check_errno(unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_ENABLE, 0) })?;
    Ok(())
}

/// Counts of a sampling event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of events; nanoseconds for a clock.
    pub events: u64,
    /// How long it has been counting.
    pub running_ns: u64,
}

/// Reads the count of an event of [`open_sampling`].
pub fn counted(event: BorrowedFd<'_>) -> io::Result<Counted> {
    let mut words = [0u64; 2];
    // SAFETY: the buffer has the size that is passed.
    let read = unsafe { libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
    if read == size_of_val(&words) as isize {
        Ok(Counted { events: words[0], running_ns: words[1] })
    } else if read < 0 {
        Err(io::Error::last_os_error())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// An event that never fires but records process activity with timestamps: exec, file mappings,
/// forks and exits. It becomes readable once `watermark_bytes` bytes of records are pending.
pub fn open_process_events(place: Where, watermark_bytes: u32) -> io::Result<OwnedFd> {
    let mut attr = mappings();
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    open_events(attr, place, watermark_bytes)
}

/// The same for mappings of code alone.
pub fn open_mappings(place: Where, watermark_bytes: u32) -> io::Result<OwnedFd> {
    open_events(mappings(), place, watermark_bytes)
}

fn mappings() -> sys::perf_event_attr {
    let mut attr = attr(sys::PERF_TYPE_SOFTWARE, u64::from(sys::PERF_COUNT_SW_DUMMY));
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr
}

fn open_events(mut attr: sys::perf_event_attr, place: Where, watermark_bytes: u32) -> io::Result<OwnedFd> {
    attr.set_sample_id_all(1);
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = watermark_bytes;
    attr.sample_type = u64::from(sys::PERF_SAMPLE_TIME);
    open(&mut attr, place)
}

/// An event that receives what programs send with perf helpers; each record makes it readable.
pub fn open_output(place: Where) -> io::Result<OwnedFd> {
    let mut attr = attr(sys::PERF_TYPE_SOFTWARE, u64::from(sys::PERF_COUNT_SW_BPF_OUTPUT));
    attr.sample_type = u64::from(sys::PERF_SAMPLE_RAW);
    attr.__bindgen_anon_1.sample_period = 1;
    attr.__bindgen_anon_2.wakeup_events = 1;
    open(&mut attr, place)
}

/// Opens a tracepoint by its id.
pub fn open_tracepoint(id: u64) -> io::Result<OwnedFd> {
    let mut attr = attr(sys::PERF_TYPE_TRACEPOINT, id);
    attr.__bindgen_anon_1.sample_period = 1;
    // One CPU is enough: programs are attached to the tracepoint, not to the event.
    open(&mut attr, Where::Cpu(0))
}

/// Opens a uprobe; `kind` and `config` select entry or return and come from
/// `/sys/bus/event_source/devices/uprobe`.
pub fn open_uprobe(kind: u32, config: u64, path: &CStr, file_offset: u64, pid: Option<u32>) -> io::Result<OwnedFd> {
    let mut attr = attr(kind, config);
    // The string outlives the call, in which the kernel copies it.
    attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = file_offset;
    open(&mut attr, pid.map_or(Where::Cpu(0), Where::Process))
}

/// Opens a kprobe; `kind` and `config` select entry or return and come from
/// `/sys/bus/event_source/devices/kprobe`.
pub fn open_kprobe(kind: u32, config: u64, function: &CStr, offset_bytes: u64) -> io::Result<OwnedFd> {
    let mut attr = attr(kind, config);
    // The string outlives the call, in which the kernel copies it.
    attr.__bindgen_anon_3.kprobe_func = function.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = offset_bytes;
    open(&mut attr, Where::Cpu(0))
}

/// Opens a kprobe at an address of the kernel.
pub fn open_kprobe_at(kind: u32, config: u64, address: u64) -> io::Result<OwnedFd> {
    let mut attr = attr(kind, config);
    attr.__bindgen_anon_4.kprobe_addr = address;
    open(&mut attr, Where::Cpu(0))
}

/// Kinds of memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub read: bool,
    pub write: bool,
    /// Execution.
    pub execute: bool,
}

/// Opens a hardware breakpoint. For execution the kernel requires the length of a `long`.
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

/// Attaches a program to an event with an ioctl, for kernels without perf links; closing the event
/// detaches it.
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
    // SAFETY: the attributes outlive the call and contain their own size; a string they point to is
    // alive in the caller.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, std::ptr::from_mut(attr), pid, cpu, -1, flags) };
    check_errno(fd as i32).map(own)
}
