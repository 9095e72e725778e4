//! Watched memory.
//!
//! In: a program, an address and the accesses that count. Out: a link on each thread of a process, or on each CPU.

use std::io;
use std::os::fd::BorrowedFd;

use profiler_compiler::object::Watch;

use super::{Links, sampling, tie};
use crate::sys::perf;

/// What is watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) length_bytes: u8,
    pub(super) mode: Watch,
    pub(super) pid: Option<u32>,
}

/// Attaches a program to the accesses to a place.
pub(super) fn attach(program: BorrowedFd<'_>, place: Place, links: &mut Links) -> io::Result<()> {
    let Place { address, length_bytes, mode, pid } = place;
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

/// What the kernel's answer means for a watchpoint.
pub(super) fn meaning(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "the processor's debug registers are all in use: x86 has four",
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine has no debug registers, as some virtual machines; `uprobe` and `kprobe` can sit in the functions that \
             access the memory"
        }
        Some(libc::EINVAL) => "the kernel watches no such address",
        _ => "",
    }
}
