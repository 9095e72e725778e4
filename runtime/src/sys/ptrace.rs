//! Following a child from its `execve` through its first system calls.
//!
//! In: a child of the calling thread. Out: where it stops.
//! Guarantee: a child runs on when the thread that follows it has ended, wherever it was.

use std::io;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use super::check_errno;

/// How often a stop is looked for without sleeping: most come within microseconds.
const BUSY_LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(200);

/// Where a followed child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It has executed its program and has not run any of it.
    Exec,
    /// Before or after a system call, which is at this address.
    Syscall(u64),
    /// It is about to get this signal.
    Signal(i32),
    /// It has ended, with this wait status.
    Ended(i32),
    /// Stopped by a signal for its whole process.
    Other,
}

/// A child that is followed by this thread.
#[derive(Debug)]
pub struct Followed {
    pid: libc::pid_t,
}

impl Followed {
    /// Follows a child, which runs on until its `execve`.
    pub fn new(pid: u32) -> io::Result<Followed> {
        let pid = pid as libc::pid_t;
        let options = (libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD) as usize;
        // SAFETY: takes numbers only.
        let followed = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0_usize, options) };
        check_errno(followed as i32).map(|_| Followed { pid })
    }

    /// Waits until the child stops or ends; `None` if it does not by then.
    pub fn wait(&self, until: Instant) -> io::Result<Option<Stop>> {
        let mut looks = 0;
        loop {
            let mut status = 0;
            // SAFETY: the status has space for the result; `WNOHANG` does not block.
            let stopped =
                check_errno(unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG | libc::__WALL) })?;
            if stopped != 0 {
                return self.stop(status).map(Some);
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            looks += 1;
            if looks < BUSY_LOOKS { thread::yield_now() } else { thread::sleep(PAUSE) }
        }
    }

    fn stop(&self, status: i32) -> io::Result<Stop> {
        if !libc::WIFSTOPPED(status) {
            return Ok(Stop::Ended(status));
        }
        Ok(match (libc::WSTOPSIG(status), status >> 16) {
            (libc::SIGTRAP, libc::PTRACE_EVENT_EXEC) => Stop::Exec,
            // PTRACE_O_TRACESYSGOOD.
            (signal, _) if signal == libc::SIGTRAP | 0x80 => Stop::Syscall(self.address()?),
            (signal, 0) => Stop::Signal(signal),
            _ => Stop::Other,
        })
    }

    /// The address at which the child stopped. Since 5.3.
    fn address(&self) -> io::Result<u64> {
        // SAFETY: the struct consists of integers, for which all bits zero are valid.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        let size_bytes = size_of::<libc::ptrace_syscall_info>();
        // SAFETY: the kernel writes no more than the given number of bytes.
        let read =
            unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, self.pid, size_bytes, ptr::from_mut(&mut info)) };
        check_errno(read as i32).map(|_| info.instruction_pointer)
    }

    /// Lets a stopped child run until it enters or leaves a system call.
    pub fn to_next_syscall(&self) -> io::Result<()> {
        // SAFETY: takes numbers only.
        check_errno(unsafe { libc::ptrace(libc::PTRACE_SYSCALL, self.pid, 0_usize, 0_usize) } as i32).map(drop)
    }

    /// Lets a stopped child run on with this signal, or 0, and follows it no longer.
    pub fn release(self, signal: i32) -> io::Result<()> {
        // SAFETY: takes numbers only.
        let released = unsafe { libc::ptrace(libc::PTRACE_DETACH, self.pid, 0_usize, signal as usize) };
        check_errno(released as i32).map(drop)
    }
}
