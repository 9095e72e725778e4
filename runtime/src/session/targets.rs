//! The processes of `-p`. The run ends when they have ended.
//!
//! In: their ids. Out: a descriptor to wait for, and whether all have ended.
//! Guarantee: another process that later gets the same id is not mistaken for one of them.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use super::RunError;
use crate::sys::poll;

/// Processes that a run waits for.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// Processes not yet known to have ended.
    left: RefCell<Vec<Rc<OwnedFd>>>,
}

impl Targets {
    /// Opens the processes. If only some of them have ended already, those are left out.
    pub(super) fn open(pids: &[u32]) -> Result<Targets, RunError> {
        let left: Vec<Rc<OwnedFd>> = pids.iter().filter_map(|pid| poll::pidfd(*pid).ok().map(Rc::new)).collect();
        match (left.is_empty(), pids.first()) {
            (true, Some(pid)) => Err(RunError::NoProcess(*pid)),
            _ => Ok(Targets { left: RefCell::new(left) }),
        }
    }

    /// Readable when one of them has ended; [`Targets::have_ended`] then updates the list.
    pub(super) fn fd(&self) -> Option<Rc<OwnedFd>> {
        self.left.borrow().last().cloned()
    }

    /// Whether all of them have ended; false if there were none.
    pub(super) fn have_ended(&self) -> io::Result<bool> {
        let mut left = self.left.borrow_mut();
        while let Some(last) = left.last() {
            if poll::wait(&[last.as_fd()], Some(Duration::ZERO))? == 0 {
                return Ok(false);
            }
            if left.len() == 1 {
                // It stays in the list, so that later calls return true as well.
                return Ok(true);
            }
            left.pop();
        }
        Ok(false)
    }
}
