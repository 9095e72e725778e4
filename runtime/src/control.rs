//! Control commands for a running session, sent by another thread.
//!
//! In: tasks sent through a [`Controller`]. Out: the same tasks from the session's [`Requests`],
//! whose descriptor becomes readable.
//! Guarantee: a request is carried out or the session has ended; in both cases the thread that
//! waits for [`Request::done`] continues.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use profiler_model::view::View;

use crate::maps::handover::SavedMap;

/// A task for a running session.
#[derive(Debug)]
pub enum Task {
    /// Print a map, given with its sigil, as at the end of a run.
    Print(String),
    /// Show a view that the script does not declare.
    Show {
        /// The session fills in `maps`.
        view: Box<View>,
        /// The names of its maps, with sigil.
        maps: Vec<String>,
    },
    /// Show the views of the script.
    Views,
    /// Clear a map.
    Clear(String),
    /// Report the status.
    Status(Sender<Status>),
    /// Stop and hand the maps to the replacement program (`:edit`): detach, run no `END`, print
    /// nothing more.
    HandOver(Sender<Vec<SavedMap>>),
    /// Stop: detach, and show the views.
    Stop,
}

/// The state of a running program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Number of attached probes.
    pub probes: u32,
    /// Runs and total run time; `None` without statistics.
    pub cost: Option<(u64, Duration)>,
    /// Time since it was attached.
    pub elapsed: Duration,
    /// Records received.
    pub records: u64,
    /// Lost events of all kinds.
    pub lost: u64,
}

/// A task, and the controller that waits for it.
#[derive(Debug)]
pub struct Request {
    pub task: Task,
    /// Dropped when the task is done.
    pub done: Sender<()>,
}

/// The sending end.
#[derive(Debug)]
pub struct Controller {
    requests: Sender<Request>,
    wake: UnixStream,
}

/// The receiving end, in the session.
#[derive(Debug)]
pub struct Requests {
    requests: Receiver<Request>,
    wake: UnixStream,
}

/// Both ends.
pub fn pair() -> io::Result<(Controller, Requests)> {
    let (controller, wake) = UnixStream::pair()?;
    controller.set_nonblocking(true)?;
    wake.set_nonblocking(true)?;
    let (sender, requests) = channel();
    Ok((Controller { requests: sender, wake: controller }, Requests { requests, wake }))
}

impl Controller {
    /// Sends a task and waits until it has been carried out. False if the session has ended.
    pub fn run(&self, task: Task) -> bool {
        let (done, finished) = channel();
        if self.requests.send(Request { task, done }).is_err() {
            return false;
        }
        // A full socket wakes as well as one more byte.
        let _ = (&self.wake).write(&[0]);
        // Nothing is ever sent: the wait ends when the session drops its end.
        let _ = finished.recv();
        true
    }
}

impl Requests {
    /// The next pending request. A dropped [`Controller`] counts as [`Task::Stop`].
    pub fn take(&self) -> Option<Request> {
        // Drain the wake-up bytes before looking at the channel: a request sent later leaves a byte
        // of its own.
        let _ = (&self.wake).read(&mut [0; 64]);
        match self.requests.try_recv() {
            Ok(request) => Some(request),
            Err(TryRecvError::Disconnected) => Some(Request { task: Task::Stop, done: channel().0 }),
            Err(TryRecvError::Empty) => None,
        }
    }
}

impl AsFd for Requests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Task, pair};
    use crate::sys::poll;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_request_wakes_the_session_and_its_controller_waits_until_it_is_done() {
        let (controller, requests) = pair().expect("sockets");
        let waiting = std::thread::spawn(move || controller.run(Task::Print("@x".into())));
        assert_eq!(poll::wait(&[requests.as_fd()], None).expect("a poll"), 1);
        let request = requests.take().expect("a request");
        assert!(matches!(&request.task, Task::Print(map) if map == "@x"));
        assert!(!waiting.is_finished());
        drop(request);
        assert!(waiting.join().expect("it goes on"));
    }

    #[test]
    fn a_dropped_controller_stops_the_session() {
        let (controller, requests) = pair().expect("sockets");
        drop(controller);
        assert_eq!(poll::wait(&[requests.as_fd()], None).expect("a poll"), 1);
        assert!(matches!(requests.take().expect("a request").task, Task::Stop));
    }

    #[test]
    fn without_a_session_no_controller_waits() {
        let (controller, requests) = pair().expect("sockets");
        drop(requests);
        assert!(!controller.run(Task::Stop));
    }
}
