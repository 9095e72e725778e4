//! Tells a thread that lacks a CPU from one that is stuck, where both are late.
//!
//! In: the directory of a thread in procfs. Out: whether to wait longer for it.
//! Guarantee: a wait takes no longer than [`LONGEST`], and than its own limit for a thread
//! that is stuck.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::host::stat::Stat;

/// How long a thread that has work may lack a CPU before what waits for it goes on.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);

/// The directory of the calling thread.
pub(crate) fn own() -> PathBuf {
    fs::read_link("/proc/thread-self").map_or_else(|_| PathBuf::new(), |link| Path::new("/proc").join(link))
}

/// Whether a thread runs, or would if it had a CPU.
pub(crate) fn is_ready(thread: &Path) -> bool {
    Stat::in_directory(thread).is_some_and(|stat| stat.is_running())
}

/// Waits until the thread has dropped the sender, or is stuck for `patience`.
pub(crate) fn await_end(done: &Receiver<()>, thread: &Path, patience: Duration) {
    let start = Instant::now();
    while done.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) && is_ready(thread) && start.elapsed() < LONGEST
    {
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_that_computes_is_waited_for_and_one_that_sleeps_is_not() {
        assert!(is_ready(&own()), "this thread runs");
        assert!(!is_ready(Path::new("/proc/no-thread")));
        let (places, place) = channel();
        let run = |work: fn(&Receiver<()>)| {
            let places = places.clone();
            let ((ended, is_ended), (stop, stopped)) = (channel(), channel());
            let thread = thread::spawn(move || {
                places.send(own()).expect("it is read");
                work(&stopped);
                drop::<std::sync::mpsc::Sender<()>>(ended);
            });
            (place.recv().expect("it began"), is_ended, stop, thread)
        };
        // It ends by itself, after many times the patience.
        let (at, is_ended, _stop, thread) = run(|_| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(100) {}
        });
        await_end(&is_ended, &at, Duration::from_millis(1));
        assert_eq!(is_ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected), "it was waited for");
        thread.join().expect("it ended");
        // It would sleep for ever.
        let (at, is_ended, stop, thread) = run(|stopped| {
            let _ = stopped.recv();
        });
        while is_ready(&at) {
            thread::yield_now();
        }
        await_end(&is_ended, &at, Duration::from_millis(1));
        assert_eq!(is_ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty), "it still sleeps");
        drop(stop);
        thread.join().expect("it ended");
    }
}
