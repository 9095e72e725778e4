//! The process that reads, as the one that asks sees it.
//!
//! In: the wish for a line to it. Out: a line.
//! Guarantee: at most [`MAX_STARTED`] processes are started, one after the other, and each is
//! killed when it is given up. Nothing here waits for one that cannot be killed.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::asking::Channel;
use crate::host::budget;

/// The name of the process, by which the program knows that it is to answer.
pub const NAME: &str = "profiler-reader";
/// Files that do not even open are few.
const MAX_STARTED: usize = 6;
/// How long a killed process is waited for, so that it does not remain as a zombie.
const REAPING: Duration = Duration::from_millis(100);

/// The processes started so far, of which only the last one is used.
#[derive(Debug, Default)]
pub(super) struct Children(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: Option<Running>,
    started: usize,
}

#[derive(Debug)]
struct Running {
    process: Child,
    number: usize,
    /// The ends that have not been taken yet, by channel.
    ends: [Option<UnixStream>; Channel::COUNT],
}

/// One end of a line to a process that reads.
#[derive(Debug)]
pub(super) struct End {
    pub stream: UnixStream,
    /// The process's id, and which of those that were started it is.
    pub pid: u32,
    pub number: usize,
}

impl Children {
    /// A line to the current process; `None` if there are no more. Whoever asks for a second line
    /// to one process has lost the first, so it gets another process.
    pub(super) fn line(&self, channel: Channel) -> Option<End> {
        let mut state = self.lock();
        if state.running.as_ref().is_some_and(|running| running.ends[channel as usize].is_none()) {
            state.running.take().into_iter().for_each(end);
        }
        if state.running.is_none() && state.started < MAX_STARTED {
            state.started += 1;
            state.running = start(state.started).ok();
        }
        let running = state.running.as_mut()?;
        let stream = running.ends[channel as usize].take()?;
        Some(End { stream, pid: running.process.id(), number: running.number })
    }

    /// Kills a process that does not answer, if it is still the current one.
    pub(super) fn give_up(&self, number: usize) {
        let mut state = self.lock();
        state.running.take_if(|running| running.number == number).into_iter().for_each(end);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.running.take().into_iter().for_each(end);
    }
}

fn start(number: usize) -> io::Result<Running> {
    let (names, names_apart) = UnixStream::pair()?;
    let (tables, tables_apart) = UnixStream::pair()?;
    let process = Command::new("/proc/self/exe")
        .arg0(NAME)
        .arg(budget::left_bytes().to_string())
        .stdin(OwnedFd::from(names_apart))
        .stdout(OwnedFd::from(tables_apart))
        .stderr(Stdio::null())
        // A Ctrl-C is for us.
        .process_group(0)
        .spawn()?;
    Ok(Running { process, number, ends: [Some(names), Some(tables)] })
}

fn end(mut running: Running) {
    // It may have ended by itself.
    let _ = running.process.kill();
    let until = Instant::now() + REAPING;
    while matches!(running.process.try_wait(), Ok(None)) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}
