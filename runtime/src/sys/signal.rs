//! SIGINT, SIGTERM and SIGHUP, and SIGUSR1 when a script asks for it, as something to wait for.
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

/// Where the handler of SIGUSR1 counts; -1 while nobody listens.
static COUNTER: AtomicI32 = AtomicI32::new(-1);

/// Does only what a signal handler may.
extern "C" fn on_user_signal(_signal: i32) {
    let one = 1u64;
    // SAFETY: may be called in a signal handler; the buffer is a local. `errno` is put back for the code interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(COUNTER.load(Ordering::SeqCst), (&raw const one).cast(), size_of_val(&one));
        *libc::__errno_location() = errno;
    }
}

/// While it lives, each SIGUSR1 is counted instead of ending the process.
#[derive(Debug)]
pub struct UserSignal {
    count: File,
    before: libc::sigaction,
}

impl UserSignal {
    /// Starts counting. One a process.
    pub fn listen() -> io::Result<UserSignal> {
        // SAFETY: takes numbers only.
        let count = own(check_errno(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?);
        COUNTER.store(count.as_raw_fd(), Ordering::SeqCst);
        // SAFETY: all zero is a valid `sigaction`.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_user_signal as extern "C" fn(i32) as libc::sighandler_t;
        // Writing results goes on where it was interrupted.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: both structs are valid and the handler does only what a handler may.
        check_errno(unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, &raw mut before) })?;
        Ok(UserSignal { count: File::from(count), before })
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

impl AsFd for UserSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.count.as_fd()
    }
}

impl Drop for UserSignal {
    fn drop(&mut self) {
        // SAFETY: puts back what the same call returned in `listen`.
        unsafe { libc::sigaction(libc::SIGUSR1, &raw const self.before, std::ptr::null_mut()) };
        COUNTER.store(-1, Ordering::SeqCst);
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
