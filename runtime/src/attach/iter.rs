//! Kernel iterators.
//!
//! In: a program, and the process that it is limited to. Out: a descriptor; reading it runs the
//! program.
//! Guarantee: nothing runs before the descriptor is read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::link;

/// Creates an iterator. Closing it releases the program.
pub(super) fn open(program: BorrowedFd<'_>, pid: Option<u32>) -> io::Result<OwnedFd> {
    let link = link::iterator(program, pid)?;
    link::read_iterator(link.as_fd())
}
