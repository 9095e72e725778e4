//! Watchpoints on memory.
//!
//! In: a program, an address and the kinds of access to watch. Out: a link on each thread of a
//! process, or on each CPU.

use std::io;
use std::os::fd::BorrowedFd;

use profiler_model::object::Watch;

use super::{Links, sampling, tie};
use crate::sys::perf;

/// The memory to watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct WatchedMemory {
    pub(super) address: u64,
    pub(super) length_bytes: u8,
    pub(super) mode: Watch,
    pub(super) pid: Option<u32>,
}

/// Attaches a program to accesses to this memory.
pub(super) fn attach(program: BorrowedFd<'_>, place: WatchedMemory, links: &mut Links) -> io::Result<()> {
    let WatchedMemory { address, length_bytes, mode, pid } = place;
    let kind = perf::Access { read: mode.read, write: mode.write, execute: mode.execute };
    for at in sampling::places(pid)? {
        match perf::open_breakpoint(address, length_bytes, kind, at) {
            Ok(event) => links.watched.push((address, tie(event, program, 0)?)),
            Err(error) if sampling::is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Explains the kernel's error for a watchpoint.
pub(super) fn meaning(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "the processor's debug registers are all in use: x86 has four",
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine has no debug registers, like some virtual machines; `uprobe` and `kprobe` can probe the functions that \
             access the memory"
        }
        Some(libc::EINVAL) => "the kernel cannot watch this address",
        _ => "",
    }
}
