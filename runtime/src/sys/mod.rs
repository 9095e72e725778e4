//! The system calls and libbpf calls of the runtime, each wrapped in a safe function.
//!
//! In: plain values, slices and borrowed descriptors. Out: plain values, owned descriptors,
//! `io::Error`.
//! Guarantee: the only module with `unsafe`; its safe functions are sound for all arguments.
#![allow(unsafe_code)]

pub mod account;
pub mod bpf;
pub mod bpf_functions;
pub mod bss;
pub mod feature;
pub mod file_system;
pub mod link;
pub mod map;
pub mod mmap;
pub mod patient;
pub mod perf;
pub mod perf_buffer;
pub mod poll;
pub mod process;
pub mod program;
pub mod ptrace;
pub(crate) mod reading;
pub mod regex;
pub mod ring;
pub mod signal;
pub mod sleepable;
pub mod stats;
pub mod terminal;
pub mod time;
pub mod tracing;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Converts the result of a libbpf call, which returns a negated error number.
fn check(ret: i32) -> io::Result<i32> {
    if ret < 0 { Err(io::Error::from_raw_os_error(-ret)) } else { Ok(ret) }
}

/// Converts the result of a libc call, which returns -1 and sets `errno`.
fn check_errno(ret: i32) -> io::Result<i32> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}

/// Takes ownership of a descriptor that a call has just created.
fn own(fd: i32) -> OwnedFd {
    // SAFETY: every caller passes a non-negative descriptor that a system call returned to it and
    // that has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
