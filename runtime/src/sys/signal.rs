//! SIGINT, SIGTERM and SIGHUP, SIGUSR1 if a script uses it, and SIGWINCH while drawing on a
//! terminal, as pollable descriptors. A SIGUSR1 that no script uses has no effect.
//!
//! In: signals. Out: a readable descriptor, and the number of the first signal.
//! Guarantee: a second signal ends the process at once, even while it is blocked in a write;
//! closing descriptors detaches everything. A signal that is sent twice, to the process and to its
//! group, as timeout(1) does, is one. A SIGHUP that was ignored at the start (`nohup`) stays
//! ignored.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::time::monotonic_ns;
use super::{check_errno, own};

const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1];

/// Descriptor that the handler writes to; -1 without a listener.
static WAKE: AtomicI32 = AtomicI32::new(-1);
/// Number of the first signal; 0 before it.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// When the first signal came, on the monotonic clock in nanoseconds.
static FIRST_AT: AtomicU64 = AtomicU64::new(0);

/// A signal within this time of the first is the same request.
const SAME_REQUEST_NS: u64 = 250_000_000;

/// Whether even the first signal ends the process.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// Whether the process outlives what a signal ends.
static SURVIVES: AtomicBool = AtomicBool::new(false);

/// Uses only async-signal-safe operations: atomics, `clock_gettime`, `write`, `_exit`.
extern "C" fn on_signal(signal: i32) {
    let now = monotonic_ns();
    let is_first = FIRST.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    if is_first {
        FIRST_AT.store(now, Ordering::SeqCst);
    }
    // Another thread may have taken the first signal, and not stored its time yet.
    let first_at = FIRST_AT.load(Ordering::SeqCst);
    let is_second = !is_first && first_at != 0 && now.saturating_sub(first_at) > SAME_REQUEST_NS;
    if is_second || AT_ONCE.load(Ordering::SeqCst) {
        // SAFETY: async-signal-safe.
        unsafe { libc::_exit(128 + signal) };
    }
    let one = 1u64;
    // SAFETY: async-signal-safe; the buffer is a local. `errno` is restored for the interrupted
    // code.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(WAKE.load(Ordering::SeqCst), (&raw const one).cast(), size_of_val(&one));
        *libc::__errno_location() = errno;
    }
}

/// A handler, unlike an ignored signal, is not what the commands of `-c` get.
extern "C" fn on_nothing(_signal: i32) {}

/// While it exists, SIGINT, SIGTERM and SIGHUP are recorded instead of ending the process, and
/// SIGUSR1 does nothing.
#[derive(Debug)]
pub struct Signals {
    wake: OwnedFd,
    before: Vec<libc::sigaction>,
}

impl Signals {
    /// Starts listening. At most one listener per process.
    pub fn listen() -> io::Result<Signals> {
        // SAFETY: takes numbers only.
        let wake = own(check_errno(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?);
        FIRST.store(0, Ordering::SeqCst);
        FIRST_AT.store(0, Ordering::SeqCst);
        WAKE.store(wake.as_raw_fd(), Ordering::SeqCst);
        let mut listener = Signals { wake, before: Vec::new() };
        for signal in SIGNALS {
            // SAFETY: all zero is a valid `sigaction`.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            let handler: extern "C" fn(i32) = if signal == libc::SIGUSR1 { on_nothing } else { on_signal };
            action.sa_sigaction = handler as libc::sighandler_t;
            // Without an effect, it interrupts nothing.
            action.sa_flags = if signal == libc::SIGUSR1 { libc::SA_RESTART } else { 0 };
            // SAFETY: all zero is a valid `sigaction`.
            let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: both structs are valid and the handler is async-signal-safe.
            check_errno(unsafe { libc::sigaction(signal, &raw const action, &raw mut before) })?;
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                // SAFETY: restores the action that the call above has replaced.
                check_errno(unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) })?;
            }
            listener.before.push(before);
        }
        Ok(listener)
    }

    /// Runs a long operation that needs no cleanup; meanwhile the first signal ends the process at
    /// once, unless it outlives the run.
    pub fn ending_at_once<T>(long: impl FnOnce() -> T) -> T {
        AT_ONCE.store(!SURVIVES.load(Ordering::SeqCst), Ordering::SeqCst);
        let result = long();
        AT_ONCE.store(false, Ordering::SeqCst);
        result
    }

    /// Whether a signal has arrived.
    pub fn came(&self) -> bool {
        came()
    }
}

/// Runs something that a signal may end, in a process that outlives it: the first signal does not
/// end the process, whether or not `run` listens, and is forgotten afterwards.
pub fn surviving<T>(run: impl FnOnce() -> T) -> io::Result<T> {
    let signals = Signals::listen()?;
    SURVIVES.store(true, Ordering::SeqCst);
    let result = run();
    SURVIVES.store(false, Ordering::SeqCst);
    drop(signals);
    FIRST.store(0, Ordering::SeqCst);
    Ok(result)
}

/// Whether a signal has asked the process to end.
pub fn came() -> bool {
    FIRST.load(Ordering::SeqCst) != 0
}

/// Waits until a descriptor is readable or a signal asks the process to end; returns whether it is
/// readable.
pub fn readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    loop {
        let [ready, woken] = wait(fd, libc::POLLIN, -1)?;
        if ready || woken || came() {
            return Ok(ready);
        }
    }
}

/// Waits until a descriptor is writable, but only for `patience` once a signal has asked the
/// process to end. Returns whether it is writable.
pub fn writable(fd: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let mut until = None;
    loop {
        let left = came().then(|| {
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            until.saturating_duration_since(Instant::now())
        });
        let limit = left.map_or(-1, |left| i32::try_from(left.as_millis()).unwrap_or(i32::MAX));
        let [ready, _] = wait(fd, libc::POLLOUT, limit)?;
        // Another signal may have ended the wait early.
        if ready || left.is_some_and(|left| left.is_zero()) {
            return Ok(ready);
        }
    }
}

/// Waits for a descriptor for at most `limit_ms`, or without a limit (-1) for a descriptor or a
/// signal; returns which of the two is ready.
fn wait(fd: BorrowedFd<'_>, events: libc::c_short, limit_ms: i32) -> io::Result<[bool; 2]> {
    // The handler's eventfd stays readable, and `poll` ignores a negative descriptor.
    let wake = if limit_ms < 0 { WAKE.load(Ordering::SeqCst) } else { -1 };
    let mut polls = [
        libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 },
        libc::pollfd { fd: wake, events: libc::POLLIN, revents: 0 },
    ];
    // SAFETY: the array outlives the call and has the length that is passed.
    match check_errno(unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, limit_ms) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Err(_) => Ok([false; 2]),
        Ok(_) => Ok(polls.map(|poll| poll.revents != 0)),
    }
}

/// Descriptors on which the handlers of SIGUSR1 and SIGWINCH count; -1 without a listener.
static COUNTERS: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// The counted signals; each one's value is its index in [`COUNTERS`].
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

/// Uses only async-signal-safe operations.
extern "C" fn on_counted(signal: i32) {
    let counter = if signal == libc::SIGUSR1 { Counted::User } else { Counted::Resize };
    let one = 1u64;
    // SAFETY: async-signal-safe; the buffer is a local. `errno` is restored for the interrupted
    // code.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(COUNTERS[counter as usize].load(Ordering::SeqCst), (&raw const one).cast(), size_of_val(&one));
        *libc::__errno_location() = errno;
    }
}

/// While it exists, each signal of one kind is counted instead of having its default effect.
#[derive(Debug)]
pub struct Counter {
    of: Counted,
    count: File,
    before: libc::sigaction,
}

impl Counter {
    /// Starts counting SIGUSR1. At most one per process.
    pub fn of_user_signals() -> io::Result<Counter> {
        Counter::listen(Counted::User)
    }

    /// Starts counting changes of the terminal size. At most one per process.
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
        // Interrupted writes of results are restarted.
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: both structs are valid and the handler is async-signal-safe.
        check_errno(unsafe { libc::sigaction(of.number(), &raw const action, &raw mut before) })?;
        Ok(Counter { of, count: File::from(count), before })
    }

    /// Number of signals since the last call.
    pub fn take(&self) -> u64 {
        let mut number = [0; 8];
        // Without a signal, there is nothing to read.
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
        // SAFETY: restores the action that the same call returned in `listen`.
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
            // SAFETY: restores the action that the same call returned in `listen`.
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
        process::kill(std::process::id(), libc::SIGUSR1);
        assert!(!signals.came());
        process::kill(std::process::id(), libc::SIGTERM);
        while poll::wait(&[signals.as_fd()], None).unwrap() == 0 {}
        assert!(signals.came());
    }
}
