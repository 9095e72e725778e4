//! SIGINT, SIGTERM and SIGHUP, SIGUSR1 when a script asks for it, and SIGWINCH when a terminal is drawn on, as something to wait for.
//!
//! In: signals. Out: a readable descriptor, and the number of the first signal.
//! Guarantee: the second signal ends the process at once, even while it is stuck in a write; closing descriptors
//! detaches everything. A SIGHUP that was ignored at the start (`nohup`) stays ignored.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::{check_errno, own};

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// What the handler writes to; -1 while nobody listens.
static WAKE: AtomicI32 = AtomicI32::new(-1);
/// The first signal that came; 0 before.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// Does only what a signal handler may: atomics, `write`, `_exit`.
extern "C" fn on_signal(signal: i32) {
    if FIRST.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        // SAFETY: may be called in a signal handler.
        unsafe { libc::_exit(128 + signal) };
    }
    let one = 1u64;
    // SAFETY: may be called in a signal handler; the buffer is a local. `errno` is put back for the code interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(WAKE.load(Ordering::SeqCst), (&raw const one).cast(), size_of_val(&one));
        *libc::__errno_location() = errno;
    }
}

/// While it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process.
#[derive(Debug)]
pub struct Signals {
    wake: OwnedFd,
    before: Vec<libc::sigaction>,
}

impl Signals {
    /// Starts listening. One listener a process.
    pub fn listen() -> io::Result<Signals> {
        // SAFETY: takes numbers only.
        let wake = own(check_errno(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?);
        FIRST.store(0, Ordering::SeqCst);
        WAKE.store(wake.as_raw_fd(), Ordering::SeqCst);
        let mut listener = Signals { wake, before: Vec::new() };
        for signal in SIGNALS {
            // SAFETY: all zero is a valid `sigaction`.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = on_signal as extern "C" fn(i32) as libc::sighandler_t;
            // SAFETY: all zero is a valid `sigaction`.
            let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: both structs are valid and the handler does only what a handler may.
            check_errno(unsafe { libc::sigaction(signal, &raw const action, &raw mut before) })?;
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                // SAFETY: puts back what the call before has replaced.
                check_errno(unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) })?;
            }
            listener.before.push(before);
        }
        Ok(listener)
    }

    /// Whether a signal came.
    pub fn came(&self) -> bool {
        FIRST.load(Ordering::SeqCst) != 0
    }
}

/// Where the handlers of SIGUSR1 and of SIGWINCH count; -1 while nobody listens.
static COUNTERS: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// The signals that are counted, each with its place among [`COUNTERS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    User = 0,
    Resize = 1,
}

impl Counted {
    fn number(self) -> i32 {
        match self {
            Counted::User => libc::SIGUSR1,
            Counted::Resize => libc::SIGWINCH,
        }
    }
}

/// Does only what a signal handler may.
extern "C" fn on_counted(signal: i32) {
    let counter = if signal == libc::SIGUSR1 { Counted::User } else { Counted::Resize };
    let one = 1u64;
    // SAFETY: may be called in a signal handler; the buffer is a local. `errno` is put back for the code interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(COUNTERS[counter as usize].load(Ordering::SeqCst), (&raw const one).cast(), size_of_val(&one));
        *libc::__errno_location() = errno;
    }
}

/// While it lives, each signal of a kind is counted instead of what else it would do.
#[derive(Debug)]
pub struct Counter {
    of: Counted,
    count: File,
    before: libc::sigaction,
}

impl Counter {
    /// Starts counting SIGUSR1. One a process.
    pub fn of_user_signals() -> io::Result<Counter> {
        Counter::listen(Counted::User)
    }

    /// Starts counting how often the terminal gets another size. One a process.
    pub fn of_resizes() -> io::Result<Counter> {
        Counter::listen(Counted::Resize)
    }

    fn listen(of: Counted) -> io::Result<Counter> {
        // SAFETY: takes numbers only.
        let count = own(check_errno(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?);
        COUNTERS[of as usize].store(count.as_raw_fd(), Ordering::SeqCst);
        // SAFETY: all zero is a valid `sigaction`.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_counted as extern "C" fn(i32) as libc::sighandler_t;
        // Writing results goes on where it was interrupted.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: both structs are valid and the handler does only what a handler may.
        check_errno(unsafe { libc::sigaction(of.number(), &raw const action, &raw mut before) })?;
        Ok(Counter { of, count: File::from(count), before })
    }

    /// How many came since it was last asked.
    pub fn take(&self) -> u64 {
        let mut number = [0; 8];
        // Without one, there is nothing to read.
        match (&self.count).read_exact(&mut number) {
            Ok(()) => u64::from_ne_bytes(number),
            Err(_) => 0,
        }
    }
}

impl AsFd for Counter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.count.as_fd()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: puts back what the same call returned in `listen`.
        unsafe { libc::sigaction(self.of.number(), &raw const self.before, std::ptr::null_mut()) };
        COUNTERS[self.of as usize].store(-1, Ordering::SeqCst);
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in SIGNALS.iter().zip(&self.before) {
            // SAFETY: puts back what the same call returned in `listen`.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
        WAKE.store(-1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{poll, process};

    #[test]
    fn a_signal_wakes_the_listener_and_is_noted() {
        let signals = Signals::listen().unwrap();
        assert!(!signals.came());
        process::kill(std::process::id(), libc::SIGTERM);
        while poll::wait(&[signals.as_fd()], None).unwrap() == 0 {}
        assert!(signals.came());
    }
}
