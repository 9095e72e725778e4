//! System calls, made directly so that libc neither caches, batches nor replaces them.
//!
//! In: arguments. Out: the kernel's answer.
//! Guarantee: the only file of this crate with `unsafe`; one call here is one system call there.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::parcel::Parcel;

/// Asks the kernel for the parent's process number.
pub fn getppid() -> i64 {
    // SAFETY: the call takes no argument and touches no memory.
    unsafe { libc::syscall(libc::SYS_getppid) }
}

/// Asks for this process's number through libc, whose function of that name does nothing else.
pub fn libc_getpid() -> i32 {
    // SAFETY: the call takes no argument and touches no memory.
    unsafe { libc::getpid() }
}

/// Lets the calling thread run on one CPU only.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all-zero bytes are an empty set.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number was checked against the set's size.
    unsafe { libc::CPU_SET(cpu, &mut cpus) };
    // SAFETY: the set outlives the call and its size is stated.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads up to the buffer's length.
pub fn read(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a buffer that outlives the call and that nobody else uses.
    let count = unsafe { libc::syscall(libc::SYS_read, file.as_raw_fd(), buffer.as_mut_ptr(), buffer.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Opens a file for reading and closes it again.
pub fn open_and_close(path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a string that ends with a zero byte and outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and is known to nobody else.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    Ok(())
}

/// Sleeps in one `nanosleep`.
pub fn sleep_ns(ns: i64) {
    let time = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    // SAFETY: the time outlives the call; no remainder is asked for.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, std::ptr::null_mut::<libc::timespec>()) };
}

/// Processor time of the calling thread: what others do on the machine is not in it.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How a child ended.
pub struct Ended {
    /// Its exit code, or 128 and the signal that ended it.
    pub code: i32,
    /// Peak resident memory. The kernel counts what this process held at the `exec` as well: about 2 MB.
    pub peak_rss_kb: i64,
}

/// Waits for a child.
pub fn wait(pid: u32) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places outlive the call.
    if unsafe { libc::wait4(pid as i32, &raw mut status, 0, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    Ok(Ended { code, peak_rss_kb: usage.ru_maxrss })
}

/// Sends SIGINT, as Control-C does.
pub fn interrupt(pid: u32) {
    // SAFETY: the call touches no memory; the process is a child that was not waited for, so the number is still its own.
    unsafe { libc::kill(pid as i32, libc::SIGINT) };
}

/// A function to probe, whose argument points to a struct.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_parcel(parcel: &Parcel) -> u64 {
    std::hint::black_box(parcel).number
}

/// A function to probe: its argument counts up from 0, its result is the next odd number, so that results sum to a square.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_step(a: u64) -> u64 {
    std::hint::black_box(a).wrapping_mul(2).wrapping_add(1)
}
