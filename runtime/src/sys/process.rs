//! A child process that waits before it executes its program.
//!
//! In: a path, arguments, environment and account. Out: the id of a process that exists while
//! probes are compiled and attached.
//! Guarantee: a child that is never resumed exits without running anything, also if this process
//! dies; a child that cannot switch to another user runs nothing.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use super::account::Account;
use super::{check_errno, own};

/// A child that has not executed its program yet.
#[derive(Debug)]
pub struct Stopped {
    /// Its process id.
    pub pid: u32,
    /// Writing a byte here starts it.
    start: File,
    /// Closed by a successful `execve`; otherwise carries the error number.
    outcome: File,
}

/// The program that the child executes.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The file.
    pub path: &'a CStr,
    /// Its arguments; the first is its name.
    pub arguments: &'a [CString],
    /// Its environment, `NAME=VALUE`.
    pub environment: &'a [CString],
    /// The user to run it as; `None` for the user of this process.
    pub account: Option<&'a Account>,
}

/// Pointers to strings, terminated by a null pointer.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Forks a child that waits for [`Stopped::resume`].
pub fn fork_stopped(program: Program<'_>) -> io::Result<Stopped> {
    let (start_read, start_write) = pipe()?;
    let (outcome_read, outcome_write) = pipe()?;
    let (argv, envp) = (pointers(program.arguments), pointers(program.environment));
    // SAFETY: the child makes only system calls until it executes or exits.
    let pid = check_errno(unsafe { libc::fork() })?;
    if pid == 0 {
        let fds = [start_read.as_raw_fd(), start_write.as_raw_fd(), outcome_write.as_raw_fd()];
        // SAFETY: this is the child; the strings and the array were created before the fork.
        unsafe { become_program(program, &argv, &envp, fds) };
    }
    Ok(Stopped { pid: pid as u32, start: start_write.into(), outcome: outcome_read.into() })
}

/// Runs in the child: waits for the byte, then executes.
///
/// # Safety
/// Only in a forked child, with `argv` and `envp` that end with a null pointer.
unsafe fn become_program(
    program: Program<'_>,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    fds: [i32; 3],
) -> ! {
    let [start_read, start_write, outcome] = fds;
    let mut byte = 0u8;
    // SAFETY: only system calls that are allowed between fork and exec, on locals and on what the
    // caller guarantees.
    unsafe {
        // Otherwise the child would keep its own end open and never notice that the parent died.
        libc::close(start_write);
        // The traced program must not outlive the session that started it.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        // Rust ignores SIGPIPE, and `execve` would inherit that.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut got = -1;
        while got < 0 {
            got = libc::read(start_read, (&raw mut byte).cast(), 1);
            if got < 0 && *libc::__errno_location() != libc::EINTR {
                libc::_exit(127);
            }
        }
        if got == 0 {
            libc::_exit(0);
        }
        if program.account.is_none_or(|account| become_user(account)) {
            libc::execve(program.path.as_ptr(), argv.as_ptr(), envp.as_ptr());
        }
        let errno = (*libc::__errno_location()).to_ne_bytes();
        libc::write(outcome, errno.as_ptr().cast(), errno.len());
        libc::_exit(127)
    }
}

/// Switches to a user permanently; returns `false` with `errno` set if the kernel refuses.
///
/// # Safety
/// Only in a forked child.
unsafe fn become_user(account: &Account) -> bool {
    // SAFETY: only system calls, on a slice that was created before the fork. They are made
    // directly, because the C library's functions of these names signal all threads of the parent's
    // image, which do not exist in the child.
    unsafe {
        libc::syscall(libc::SYS_setgroups, account.groups.len(), account.groups.as_ptr()) == 0
            && libc::syscall(libc::SYS_setresgid, account.gid, account.gid, account.gid) == 0
            && libc::syscall(libc::SYS_setresuid, account.uid, account.uid, account.uid) == 0
            // The kernel clears it when the user id changes.
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) == 0
    }
}

impl Stopped {
    /// Lets the child execute its program; the error is that of `execve` or of switching the user.
    pub fn resume(mut self) -> io::Result<()> {
        self.start.write_all(&[1])?;
        let mut errno = [0u8; 4];
        match self.outcome.read_exact(&mut errno) {
            Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0i32; 2];
    // SAFETY: the array has space for the two descriptors.
    check_errno(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok((own(fds[0]), own(fds[1])))
}

/// The wait status of a child of this process; `None` while it runs.
pub fn try_wait(pid: u32) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: the status has space for the result; `WNOHANG` does not block.
    let ended = check_errno(unsafe { libc::waitpid(pid as libc::pid_t, &raw mut status, libc::WNOHANG) })?;
    Ok((ended != 0).then_some(status))
}

/// Whether a thread or process with this number exists, including one that we may not signal.
pub fn exists(number: u32) -> bool {
    // SAFETY: takes numbers only; signal 0 is not sent.
    let sent = unsafe { libc::kill(number as libc::pid_t, 0) } == 0;
    sent || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Clock ticks per second, the unit of times in `/proc`.
pub fn ticks_per_second() -> u64 {
    // SAFETY: takes a number only.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

/// Sends a signal to a child that has not been waited for yet, so its id cannot have been reused.
pub fn kill(pid: u32, signal: i32) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}
