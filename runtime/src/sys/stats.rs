//! Run time of BPF programs, as measured by the kernel.
//!
//! In: programs. Out: total run time in nanoseconds.
//! Guarantee: the kernel measures only while a [`Measuring`] exists.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use libbpf_sys as sys;

use super::bpf::program_state;
use super::{check, own};

/// While it exists, the kernel measures the run time of every program. Since 5.8.
#[derive(Debug)]
pub struct Measuring(#[expect(dead_code, reason = "closing it ends the measuring")] OwnedFd);

impl Measuring {
    /// Starts measuring; this needs `CAP_SYS_ADMIN`.
    pub fn start() -> io::Result<Measuring> {
        // SAFETY: takes a number only. (libbpf-rs has no such call.)
        Ok(Measuring(own(check(unsafe { sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME) })?)))
    }
}

/// Total run time of a program; 0 if the kernel does not report it.
pub fn run_time_ns(program: BorrowedFd<'_>) -> u64 {
    program_state(program).map_or(0, |state| state.run_time_ns)
}
