//! Polling and clocks.
//!
//! In: descriptors and timeouts. Out: which descriptors are ready.
//! Guarantee: a signal ends a wait early and is no error.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::{check_errno, own};

/// Waits until a descriptor is readable, for at most `limit`, or until a signal. Returns a bit mask
/// of the readable descriptors.
pub fn wait(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<u64> {
    let polls = poll(fds, limit)?;
    Ok(polls.iter().enumerate().filter(|(_, poll)| poll.revents != 0).fold(0, |ready, (index, _)| ready | 1 << index))
}

/// Waits until one of the descriptors is readable or its other end is closed, for at most `limit`,
/// or until a signal.
pub fn wait_for_any(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<()> {
    poll(fds, limit).map(|_| ())
}

/// Polls the descriptors; returns an empty list if a signal came first.
fn poll(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<Vec<libc::pollfd>> {
    let mut polls: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array and the limit outlive the call; null means no limit and no signal mask.
    let ret = unsafe { libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, limit, std::ptr::null()) };
    match check_errno(ret) {
        Ok(_) => Ok(polls),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A descriptor that is readable while one of these is.
pub fn any_of(fds: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    // SAFETY: takes a number only.
    let set = own(check_errno(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?);
    for fd in fds {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event outlives the call, in which the kernel copies it.
        let ret = unsafe { libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        check_errno(ret)?;
    }
    Ok(set)
}

/// A descriptor that becomes readable when a process ends. Since 5.3.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    check_errno(fd as i32).map(own)
}

/// Returns once every BPF program that was running at the call has ended (an RCU grace period);
/// false if the kernel refuses.
pub fn programs_have_finished() -> bool {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0 }
}

/// The clock of `bpf_ktime_get_boot_ns`.
pub fn boot_clock_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the result has space for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
