//! Waits for a thread of another process as long as it gets on.
//!
//! In: the thread's directory in procfs. Out: whether it is stuck.
//! Guarantee: a thread that neither computes nor reads is stuck after [`STALL`], unless it lacks a
//! CPU, and any thread after [`WHOLE`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host::stat::{SYSTEM_TICKS, Stat, USER_TICKS};
use crate::starved::{self, is_ready};

/// Longest time without progress.
const STALL: Duration = Duration::from_secs(5);
/// Longest time for one answer.
const WHOLE: Duration = Duration::from_secs(60);

/// The progress of a thread.
#[derive(Debug)]
pub(super) struct Pace {
    thread: PathBuf,
    began: Instant,
    seen: Seen,
    changed: Instant,
}

/// What grows as it works: ticks of CPU time, and bytes of completed reads.
type Seen = (u64, u64);

impl Pace {
    /// A thread begins to work now.
    pub(super) fn begin(thread: PathBuf) -> Pace {
        let (now, seen) = (Instant::now(), seen(&thread));
        Pace { thread, began: now, seen, changed: now }
    }

    /// Whether the thread has ended. Its sockets stay open as long as another thread of its process
    /// is held by a file system.
    pub(super) fn has_ended(&self) -> bool {
        Stat::in_directory(&self.thread).is_none_or(|stat| stat.has_ended())
    }

    /// Whether the thread is stuck.
    pub(super) fn is_stuck(&mut self) -> bool {
        let now = seen(&self.thread);
        if now != self.seen {
            (self.seen, self.changed) = (now, Instant::now());
        }
        let limit = if is_ready(&self.thread) { starved::LONGEST } else { STALL };
        self.changed.elapsed() > limit || self.began.elapsed() > WHOLE
    }
}

fn seen(thread: &Path) -> Seen {
    let stat = Stat::in_directory(thread);
    let ticks = |field| stat.as_ref().and_then(|stat| stat.number(field)).unwrap_or(0);
    let io = fs::read_to_string(thread.join("io")).unwrap_or_default();
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
    (ticks(USER_TICKS) + ticks(SYSTEM_TICKS), read.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, id};

    use super::*;

    #[test]
    fn a_thread_that_was_killed_has_ended_before_it_is_waited_for() {
        assert!(!Pace::begin(format!("/proc/{}", id()).into()).has_ended());
        let mut sleeper = Command::new("sleep").arg("1000").spawn().expect("it starts");
        let pace = Pace::begin(format!("/proc/{}", sleeper.id()).into());
        assert!(!pace.has_ended());
        sleeper.kill().expect("our own child");
        while !pace.has_ended() {
            std::thread::yield_now();
        }
        sleeper.wait().expect("our own child");
        assert!(pace.has_ended());
    }
}
