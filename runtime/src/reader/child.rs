//! The process that reads, as the one that asks sees it.
//!
//! In: the wish for a line to it. Out: a line.
//! Guarantee: at most [`MAX_STARTED`] processes are started in an hour, one after the other, and
//! each is killed when it is given up; of those that cannot be killed, no more remain. Nothing here
//! waits for them.

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
/// How long a process counts after its start.
const COUNTED: Duration = Duration::from_secs(3600);
/// How long a killed process is waited for, so that it does not remain as a zombie.
const REAPING: Duration = Duration::from_millis(100);

/// The processes started so far, of which only the last one is used.
#[derive(Debug, Default)]
pub(super) struct Children(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: Option<Running>,
    started: usize,
    /// Those that were given up, if they still exist or were started within an hour.
    given_up: Vec<(Child, Instant)>,
    /// The last one that was given up because it did not get on.
    stuck: usize,
}

#[derive(Debug)]
struct Running {
    process: Child,
    /// From 1, in the order of their starts.
    number: usize,
    began: Instant,
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
            state.end();
        }
        if state.running.is_none() && state.may_start(Instant::now()) {
            state.started += 1;
            state.running = start(state.started).ok();
        }
        let running = state.running.as_mut()?;
        let stream = running.ends[channel as usize].take()?;
        Some(End { stream, pid: running.process.id(), number: running.number })
    }

    /// Kills a process that does not answer, if it is still the current one; returns whether it is
    /// given up because it did not get on.
    pub(super) fn give_up(&self, number: usize, is_stuck: bool) -> bool {
        let mut state = self.lock();
        if state.running.as_ref().is_some_and(|running| running.number == number) {
            state.end();
            if is_stuck {
                state.stuck = number;
            }
        }
        state.stuck == number
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether few enough have been started.
    fn may_start(&mut self, now: Instant) -> bool {
        self.given_up.retain_mut(|(process, began)| {
            let remains = matches!(process.try_wait(), Ok(None));
            remains || now.duration_since(*began) < COUNTED
        });
        self.given_up.len() < MAX_STARTED
    }

    fn end(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // It may have ended by itself.
        let _ = running.process.kill();
        let until = Instant::now() + REAPING;
        while matches!(running.process.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        self.given_up.push((running.process, running.began));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.end();
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
    Ok(Running { process, number, began: Instant::now(), ends: [Some(names), Some(tables)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_given_up_count_for_an_hour_or_as_long_as_they_exist() {
        let began = Instant::now();
        let sleeper = || Command::new("sleep").arg("1000").spawn().expect("it starts");
        let mut state = State::default();
        for _ in 0..MAX_STARTED {
            assert!(state.may_start(began));
            state.given_up.push((sleeper(), began));
        }
        assert!(!state.may_start(began + COUNTED));
        let (process, _) = &mut state.given_up[3];
        process.kill().and_then(|()| process.wait()).expect("our own child");
        assert!(!state.may_start(began));
        assert!(state.may_start(began + COUNTED));
        for (mut process, _) in state.given_up.drain(..) {
            process.kill().and_then(|()| process.wait()).expect("our own child");
        }
    }

    /// This program under another name runs no test and ends.
    #[test]
    fn who_lost_a_line_learns_whether_the_other_one_was_stuck() {
        let children = Children::default();
        for (number, is_stuck) in [(1, true), (2, false)] {
            let lines = [Channel::Names, Channel::Tables].map(|channel| children.line(channel).expect("a line"));
            assert_eq!(lines.map(|line| line.number), [number; Channel::COUNT]);
            assert_eq!([is_stuck, false].map(|stuck| children.give_up(number, stuck)), [is_stuck; 2]);
        }
    }
}
