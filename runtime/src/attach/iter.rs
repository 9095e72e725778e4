//! Iterators of the kernel.
//!
//! In: a program, and the process that it is limited to. Out: a descriptor whose reading runs the program.
//! Guarantee: nothing runs before it is read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::link;

/// Makes an iterator; it holds the program, and the program goes with it.
pub(super) fn open(program: BorrowedFd<'_>, pid: Option<u32>) -> io::Result<OwnedFd> {
    let link = link::iterator(program, pid)?;
    link::read_iterator(link.as_fd())
}
