//! How long programs run, as the kernel measures it.
//!
//! In: programs. Out: the nanoseconds that all their runs took.
//! Guarantee: the kernel measures only while a [`Measuring`] lives.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_sys as sys;

use super::{check, own};

/// While it lives, the kernel measures every program's runs. Since 5.8.
#[derive(Debug)]
pub struct Measuring(#[expect(dead_code, reason = "closing it ends the measuring")] OwnedFd);

impl Measuring {
    /// Starts measuring; this needs `CAP_SYS_ADMIN`.
    pub fn start() -> io::Result<Measuring> {
        // SAFETY: takes a number only.
        Ok(Measuring(own(check(unsafe { sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME) })?)))
    }
}

/// How long a program's runs took until now; 0 when the kernel does not say.
pub fn run_time_ns(program: BorrowedFd<'_>) -> u64 {
    let mut state = sys::bpf_prog_info::default();
    let mut size = size_of_val(&state) as u32;
    // SAFETY: the kernel writes at most `size` bytes, which the struct has; its pointers are null, so nothing else is written.
    let result = check(unsafe { sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut state, &raw mut size) });
    result.map_or(0, |_| state.run_time_ns)
}

/// A program that does nothing: what measuring itself costs.
#[derive(Debug)]
pub struct Empty(OwnedFd);

impl Empty {
    /// Loads it.
    pub fn load() -> io::Result<Empty> {
        // `r0 = 0; exit`.
        let instructions = [0x0000_0000_0000_00b7_u64, 0x0000_0000_0000_0095];
        // SAFETY: the instructions are two, and as long as two `bpf_insn`; the name and the licence are strings; the null options
        // are allowed.
        let fd = unsafe {
            sys::bpf_prog_load(
                sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
                c"empty".as_ptr(),
                c"GPL".as_ptr(),
                instructions.as_ptr().cast(),
                instructions.len() as u64,
                std::ptr::null_mut(),
            )
        };
        Ok(Empty(own(check(fd)?)))
    }

    /// The program.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
