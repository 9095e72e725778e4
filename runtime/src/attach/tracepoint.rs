//! Tracepoints through perf events.
//!
//! In: category and event. Out: a link.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::tie;
use crate::sys::perf;

/// Attaches a program to a tracepoint.
pub(super) fn attach(program: BorrowedFd<'_>, category: &str, event: &str) -> io::Result<OwnedFd> {
    let id = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .map(|root| fs::read_to_string(format!("{root}/events/{category}/{event}/id")))
        .reduce(Result::or)
        .unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))?;
    let id = id.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    tie(perf::open_tracepoint(id)?, program, 0)
}
