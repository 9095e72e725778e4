//! What the kernel has counted about the calling thread, and what it lets it do.
//!
//! In: nothing, or a thread of this process. Out: its counters, and whether it is blocked.

use std::io::{Error, Result};
use std::ops::Range;
use std::time::Duration;

/// How often the calling thread has left its CPU: to wait, and because it was preempted.
pub fn switches() -> (i64, i64) {
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` outlives the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw, usage.ru_nivcsw)
}

/// How long the calling thread has waited for a CPU since it exists; for ever if the kernel does
/// not count it.
pub fn run_delay_ns() -> u64 {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    account.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(1 << 60)
}

/// The id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: the call takes no argument and touches no memory.
    unsafe { libc::gettid() }
}

/// Waits until a thread of this process is blocked in a system call whose first argument is in the
/// range.
pub fn await_blocked(thread: i32, call: i64, first: &Range<usize>) -> Result<()> {
    let is_blocked = |text: &str| {
        let mut words = text.split_whitespace();
        let is_call = words.next().and_then(|word| word.parse().ok()) == Some(call);
        let argument = words.next().and_then(|word| usize::from_str_radix(word.trim_start_matches("0x"), 16).ok());
        is_call && argument.is_some_and(|argument| first.contains(&argument))
    };
    while !is_blocked(&std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall"))?) {
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Gives up the effective capabilities of the calling thread.
pub fn drop_capabilities() -> Result<()> {
    // include/uapi/linux/capability.h: the version, and the thread: 0 is the caller.
    let header = [0x2008_0522_u32, 0];
    // Effective, permitted and inheritable ones: 1 to 32, then 33 to 64.
    let none = [0_u32; 6];
    // SAFETY: both arrays have the size that this version requires, and outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Tells the kernel that a file is read at random, or that its pages need not stay in memory.
pub fn advise(file: &std::fs::File, is_forgotten: bool) -> Result<()> {
    use std::os::fd::AsRawFd as _;
    let advice = if is_forgotten { libc::POSIX_FADV_DONTNEED } else { libc::POSIX_FADV_RANDOM };
    // SAFETY: the call touches no memory.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        error => Err(Error::from_raw_os_error(error)),
    }
}
