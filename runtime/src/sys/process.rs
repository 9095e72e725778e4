//! A child process that waits before it becomes its program.
//!
//! In: a path and arguments. Out: a process id that exists while probes are compiled and attached.
//! Guarantee: a child that is never resumed ends without running anything, also when this process dies.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use super::{check_errno, own};

/// A child that has not run its program yet.
#[derive(Debug)]
pub struct Stopped {
    /// Its process id.
    pub pid: u32,
    /// A byte here starts it.
    start: File,
    /// Closed by a successful `execv`; else carries the error number.
    outcome: File,
}

/// Forks a child that waits for [`Stopped::resume`].
pub fn fork_stopped(path: &CStr, arguments: &[CString]) -> io::Result<Stopped> {
    let (start_read, start_write) = pipe()?;
    let (outcome_read, outcome_write) = pipe()?;
    let mut argv: Vec<*const libc::c_char> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    argv.push(std::ptr::null());
    // SAFETY: the child calls nothing but system calls until it executes or exits.
    let pid = check_errno(unsafe { libc::fork() })?;
    if pid == 0 {
        let fds = [start_read.as_raw_fd(), start_write.as_raw_fd(), outcome_write.as_raw_fd()];
        // SAFETY: this is the child; the strings and the array were made before the fork.
        unsafe { become_program(path, &argv, fds) };
    }
    Ok(Stopped { pid: pid as u32, start: start_write.into(), outcome: outcome_read.into() })
}

/// The child's side: waits for the byte, then executes.
///
/// # Safety
/// Only in a forked child, with a null-terminated `argv`.
unsafe fn become_program(path: &CStr, argv: &[*const libc::c_char], fds: [i32; 3]) -> ! {
    let [start_read, start_write, outcome] = fds;
    let mut byte = 0u8;
    // SAFETY: only system calls that are allowed between fork and exec, on locals and on what the caller guarantees.
    unsafe {
        // Else the child would keep its own end open and never see that the parent died.
        libc::close(start_write);
        // The traced program shall not outlive the session that started it.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        // Rust ignores SIGPIPE and `execv` would pass that on.
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
        libc::execv(path.as_ptr(), argv.as_ptr());
        let errno = (*libc::__errno_location()).to_ne_bytes();
        libc::write(outcome, errno.as_ptr().cast(), errno.len());
        libc::_exit(127)
    }
}

impl Stopped {
    /// Lets the child execute its program; an error says why it could not.
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
    // SAFETY: the array has room for the two descriptors.
    check_errno(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok((own(fds[0]), own(fds[1])))
}

/// The wait status of an own child; `None` while it runs.
pub fn try_wait(pid: u32) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: the status has room; `WNOHANG` does not block.
    let ended = check_errno(unsafe { libc::waitpid(pid as libc::pid_t, &raw mut status, libc::WNOHANG) })?;
    Ok((ended != 0).then_some(status))
}

/// Sends a signal to an own child that was not waited for yet, so that its id cannot be another's.
pub fn kill(pid: u32, signal: i32) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}
