//! Interval probes.
//!
//! In: programs with their periods, sweeps of spans among them. Out: test runs at absolute deadlines, from a thread of their own.
//! Guarantee: output that blocks delays no tick; after [`Timers::stop`] none runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::spans::Pending;
use crate::sys::bpf::test_run;

/// A program to run again and again.
#[derive(Debug)]
pub struct Timer {
    /// The program; a descriptor of our own.
    pub program: OwnedFd,
    /// Time between two runs.
    pub period: Duration,
    /// For the sweep of a span: it runs only while something is open.
    pub pending: Option<Pending>,
}

/// The thread that runs the timers.
#[derive(Debug)]
pub struct Timers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The thread only sleeps and makes system calls.
const STACK_BYTES: usize = 64 << 10;

impl Timers {
    /// Starts the timers; without any, there is no thread.
    pub fn start(timers: Vec<Timer>) -> io::Result<Timers> {
        let stop = Arc::new(AtomicBool::new(false));
        if timers.is_empty() {
            return Ok(Timers { stop, thread: None });
        }
        let stopped = Arc::clone(&stop);
        let builder = thread::Builder::new().name("timers".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || tick(&timers, &stopped))?;
        Ok(Timers { stop, thread: Some(thread) })
    }

    /// Ends the thread and waits for it; an error is what a run failed with.
    pub fn stop(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.stop.store(true, Ordering::SeqCst);
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the timers ended early")))
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        // A run that failed was reported by `stop`, unless another error came first.
        let _ = self.join();
    }
}

fn tick(timers: &[Timer], stop: &AtomicBool) -> io::Result<()> {
    let start = Instant::now();
    let mut due: Vec<Instant> = timers.iter().map(|timer| start + timer.period).collect();
    while !stop.load(Ordering::SeqCst) {
        let now = Instant::now();
        // In the script's order, when several are due together.
        for (timer, due) in timers.iter().zip(&mut due) {
            if *due <= now {
                if timer.pending.as_ref().is_none_or(Pending::any) {
                    test_run(timer.program.as_fd())?;
                }
                *due = next_deadline(*due, timer.period, Instant::now());
            }
        }
        let next = due.iter().min().copied().unwrap_or(now);
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// The first deadline after `now` on the grid of the period: ticks that were missed are left out, not made up for.
fn next_deadline(due: Instant, period: Duration, now: Instant) -> Instant {
    let period = period.max(Duration::from_millis(1));
    let late = now.saturating_duration_since(due).as_nanos();
    let steps = late / period.as_nanos() + 1;
    due + period * u32::try_from(steps).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_stay_on_their_grid() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        assert_eq!(next_deadline(start, ms(10), start), start + ms(10));
        assert_eq!(next_deadline(start, ms(10), start + ms(3)), start + ms(10));
        assert_eq!(next_deadline(start, ms(10), start + ms(10)), start + ms(20));
        assert_eq!(next_deadline(start, ms(10), start + ms(57)), start + ms(60));
        assert_eq!(next_deadline(start, ms(0), start + ms(2)), start + ms(3), "no period is shorter than 1 ms");
    }

    #[test]
    fn no_timers_no_thread() {
        let timers = Timers::start(Vec::new()).unwrap();
        assert!(timers.thread.is_none());
        timers.stop().unwrap();
    }
}
