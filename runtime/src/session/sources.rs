//! What a session waits for besides records: its command, processes, signals, control commands.
//!
//! In: descriptors. Out: whether a process ended, whether the run is to end.
//! Guarantee: the end of a process is not missed; it is reported again by later calls.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::targets::Targets;
use crate::child::Child;
use crate::control::Requests;
use crate::sys::poll;
use crate::sys::signal::{Counter, Signals};

/// The sources of events that can wake or end a run.
pub(super) struct EventSources {
    pub child: Option<Child>,
    /// The processes given with `-p`.
    pub targets: Targets,
    pub signals: Option<Signals>,
    pub requests: Option<Requests>,
    /// Counts SIGUSR1, if the script has a probe for it.
    pub user_signal: Option<Counter>,
    /// Counts changes of the terminal's size, if something that depends on it is drawn.
    pub resizes: Option<Counter>,
    /// Set by a control command: print nothing more.
    pub is_stopped: bool,
}

impl EventSources {
    /// Waits for signals, processes and `more`. Returns whether a process ended.
    pub(super) fn poll(&self, more: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<bool> {
        let mut fds: Vec<BorrowedFd<'_>> = Vec::with_capacity(6);
        fds.extend(self.child.as_ref().map(AsFd::as_fd));
        let command = fds.len();
        let target = self.targets.fd();
        fds.extend(target.as_ref().map(AsFd::as_fd));
        let processes = fds.len();
        fds.extend(self.signals.as_ref().map(AsFd::as_fd));
        fds.extend(self.requests.as_ref().map(AsFd::as_fd));
        fds.extend(self.user_signal.as_ref().map(AsFd::as_fd));
        fds.extend(self.resizes.as_ref().map(AsFd::as_fd));
        fds.extend(more);
        let ready = poll::wait(&fds, limit)?;
        let command_ended = ready & ((1 << command) - 1) != 0;
        Ok(command_ended || (ready & ((1 << processes) - 1) != 0 && self.targets.have_ended()?))
    }

    pub(super) fn process_ended(&self) -> io::Result<bool> {
        self.poll(&[], Some(Duration::ZERO))
    }

    /// Whether a signal or a control command has ended the run.
    pub(super) fn interrupted(&self) -> bool {
        self.is_stopped || self.signals.as_ref().is_some_and(Signals::came)
    }
}
