//! Interval probes.
//!
//! In: programs with their periods, including the sweeps of spans. Out: test runs at absolute
//! deadlines, from a separate thread.
//! Guarantee: output that blocks delays no tick. A late tick still runs; a tick that does not run
//! is counted in [`Missed`]. After [`Timers::stop`] none runs.
//! [`Ticks::done`] says up to when all ticks have run, so that windows can end after them.
//! Ticks after the script's own `exit` are not part of the run: they neither run nor count.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::spans::Pending;
use crate::sys::bpf::test_run;
use crate::sys::time;

/// A program that runs periodically.
#[derive(Debug)]
pub(crate) struct Timer {
    /// Its index in the object.
    pub index: usize,
    /// The program's descriptor, owned by the timer.
    pub program: OwnedFd,
    /// Time between two runs.
    pub period: Duration,
    /// Set for the sweep of a span, which runs only while a start is open and does not catch up on
    /// late ticks.
    pub pending: Option<Pending>,
}

/// Ticks that did not run, by timer.
#[derive(Debug, Default)]
pub(crate) struct Missed(Vec<(usize, AtomicU64)>);

impl Missed {
    /// Indices of programs, each with the number of ticks that should have run and did not.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.0.iter().map(|(index, missed)| (*index, missed.load(Ordering::Relaxed)));
        counts.filter(|(_, missed)| *missed > 0)
    }
}

/// Up to when the ticks of the script have run.
#[derive(Debug, Clone)]
pub(crate) struct Ticks {
    /// When the timers started.
    pub start: Instant,
    /// Nanoseconds from then until the next tick.
    next_ns: Arc<AtomicU64>,
}

impl Ticks {
    fn new() -> Ticks {
        Ticks { start: Instant::now(), next_ns: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Whether all ticks that are due by a moment have run, or were left out.
    pub(crate) fn done(&self, by: Instant) -> bool {
        let by_ns = by.saturating_duration_since(self.start).as_nanos();
        u128::from(self.next_ns.load(Ordering::SeqCst)) > by_ns
    }

    /// The next tick of the script; the sweeps of spans write nothing that a window shows.
    fn set_next(&self, timers: &[Timer], grids: &[Grid]) {
        let of_script = timers.iter().zip(grids).filter(|(timer, _)| timer.pending.is_none());
        let next = of_script.map(|(_, grid)| grid.due.saturating_duration_since(self.start).as_nanos() as u64).min();
        self.next_ns.store(next.unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

/// The thread that runs the timers.
#[derive(Debug)]
pub(crate) struct Timers {
    /// An [`End`] as a number, or [`RUNNING`].
    end: Arc<AtomicU8>,
    missed: Arc<Missed>,
    ticks: Ticks,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// How the timers end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The ticks that are due run first, and those for which no time is left are counted.
    AfterDueTicks = 1,
    /// No tick runs, and none is counted: the script itself has ended the run, or it failed.
    AtOnce = 2,
}

/// The value of an end that has not been requested.
const RUNNING: u8 = 0;

/// Small, because the thread only sleeps and makes system calls.
const STACK_BYTES: usize = 64 << 10;

/// Ticks later than this are skipped.
const LATEST: Duration = Duration::from_secs(1);

/// How long ticks that are due when the run ends may delay its end.
const LAST: Duration = Duration::from_millis(20);

impl Timers {
    /// Starts the timers; without any, no thread is started.
    pub(crate) fn start(timers: Vec<Timer>) -> io::Result<Timers> {
        let end = Arc::new(AtomicU8::new(RUNNING));
        let missed = timers.iter().map(|timer| (timer.index, AtomicU64::new(0))).collect();
        let missed = Arc::new(Missed(missed));
        let ticks = Ticks::new();
        if timers.is_empty() {
            return Ok(Timers { end, missed, ticks, thread: None });
        }
        let grids: Vec<Grid> = timers.iter().map(|timer| Grid::new(ticks.start, timer.period)).collect();
        ticks.set_next(&timers, &grids);
        let (requested, counted, done) = (Arc::clone(&end), Arc::clone(&missed), ticks.clone());
        let builder = thread::Builder::new().name("timers".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || {
            time::wake_precisely();
            let result = tick(&timers, grids, &requested, &counted, &done);
            // No window waits for ticks that will never run.
            done.next_ns.store(u64::MAX, Ordering::SeqCst);
            result
        })?;
        Ok(Timers { end, missed, ticks, thread: Some(thread) })
    }

    /// The counts of ticks that did not run; they remain readable after the end.
    pub(crate) fn missed(&self) -> Arc<Missed> {
        Arc::clone(&self.missed)
    }

    /// Up to when ticks have run; remains readable after the end.
    pub(crate) fn ticks(&self) -> Ticks {
        self.ticks.clone()
    }

    /// Ends the thread and waits for it; returns the error of a run that failed.
    pub(crate) fn stop(mut self, end: End) -> io::Result<()> {
        self.join(end)
    }

    fn join(&mut self, end: End) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.end.store(end as u8, Ordering::SeqCst);
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the timers ended early")))
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        // `stop` has reported a failed run, unless another error came first.
        let _ = self.join(End::AtOnce);
    }
}

fn tick(timers: &[Timer], mut grids: Vec<Grid>, requested: &AtomicU8, missed: &Missed, done: &Ticks) -> io::Result<()> {
    // Ticks that are due when the run ends still run.
    let mut end = None;
    loop {
        match requested.load(Ordering::SeqCst) {
            RUNNING => {}
            at_once if at_once == End::AtOnce as u8 => return Ok(()),
            _ => end = end.or_else(|| Some(Instant::now())),
        }
        let now = end.unwrap_or_else(Instant::now);
        let is_out_of_time = end.is_some_and(|end| end.elapsed() > LAST);
        leave_out(timers, &mut grids, now, is_out_of_time, missed);
        done.set_next(timers, &grids);
        let Some((at, due)) = next(&grids) else { return Ok(()) };
        if due > now {
            if end.is_some() {
                return Ok(());
            }
            thread::park_timeout(due.saturating_duration_since(Instant::now()));
            continue;
        }
        let (timer, grid) = (&timers[at], &mut grids[at]);
        grid.due += grid.period;
        if timer.pending.as_ref().is_none_or(Pending::any) {
            test_run(timer.program.as_fd())?;
        }
    }
}

/// Skips the ticks that are too late to run, of all timers at once: the ticks that are left still
/// run in the order of their deadlines.
fn leave_out(timers: &[Timer], grids: &mut [Grid], now: Instant, is_out_of_time: bool, missed: &Missed) {
    for ((timer, grid), (_, missed)) in timers.iter().zip(grids).zip(&missed.0) {
        let is_sweep = timer.pending.is_some();
        let patience = match is_out_of_time {
            true => None,
            false if is_sweep => Some(timer.period),
            false => Some(LATEST),
        };
        let left_out = grid.leave_out(now, patience);
        if !is_sweep {
            missed.fetch_add(left_out, Ordering::Relaxed);
        }
    }
}

/// The timer that is due first, with its deadline; of several, the first in the script's order.
fn next(grids: &[Grid]) -> Option<(usize, Instant)> {
    grids.iter().map(|grid| grid.due).enumerate().min_by_key(|(_, due)| *due)
}

/// The deadlines of a timer.
#[derive(Debug)]
pub(crate) struct Grid {
    /// The next tick.
    pub due: Instant,
    /// Time between two ticks.
    pub period: Duration,
}

impl Grid {
    /// The first tick is one period after the start.
    pub(crate) fn new(start: Instant, period: Duration) -> Grid {
        let period = period.max(Duration::from_nanos(1));
        Grid { due: start + period, period }
    }

    /// Skips the ticks that are later than `patience`, or all that are due if it is `None`. Returns
    /// how many were skipped.
    pub(crate) fn leave_out(&mut self, now: Instant, patience: Option<Duration>) -> u64 {
        let Some(late) = now.checked_duration_since(self.due) else { return 0 };
        let ticks = match patience {
            Some(patience) => late.saturating_sub(patience).as_nanos().div_ceil(self.period.as_nanos()),
            None => late.as_nanos() / self.period.as_nanos() + 1,
        };
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        self.due += Duration::from_nanos((self.period.as_nanos() as u64).saturating_mul(ticks));
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_ticks_are_made_up_for_within_bounds() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut grid = Grid::new(start, ms(10));
        assert_eq!(grid.leave_out(start + ms(57), Some(LATEST)), 0);
        assert_eq!(grid.due, start + ms(10), "five ticks run one after another");
        assert_eq!(grid.leave_out(start + ms(1057), Some(LATEST)), 5);
        assert_eq!(grid.due, start + ms(60), "what is less than a second late runs");
        assert_eq!(grid.leave_out(start + ms(99), None), 4);
        assert_eq!(grid.due, start + ms(100));
    }

    #[test]
    fn ticks_that_are_left_run_in_the_order_of_their_deadlines() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let timer = |period| Timer {
            index: 0,
            program: std::fs::File::open("/dev/null").unwrap().into(),
            period,
            pending: None,
        };
        let timers = [timer(ms(1)), timer(ms(10))];
        let mut grids = [Grid::new(start, ms(1)), Grid::new(start, ms(10))];
        let missed = Missed(vec![(0, AtomicU64::new(0)), (1, AtomicU64::new(0))]);
        leave_out(&timers, &mut grids, start + LATEST + ms(25), false, &missed);
        assert_eq!(missed.counts().collect::<Vec<_>>(), [(0, 24), (1, 2)]);
        for fast in 25..=30 {
            assert_eq!(next(&grids), Some((0, start + ms(fast))));
            grids[0].due += ms(1);
        }
        assert_eq!(next(&grids), Some((1, start + ms(30))));
    }

    #[test]
    fn short_periods_stay_what_they_are() {
        let (start, us) = (Instant::now(), Duration::from_micros);
        let grid = Grid::new(start, us(100));
        assert_eq!(grid.due, start + us(100));
    }

    #[test]
    fn no_timers_no_thread() {
        let timers = Timers::start(Vec::new()).unwrap();
        assert!(timers.thread.is_none());
        assert_eq!(timers.missed().counts().count(), 0);
        timers.stop(End::AfterDueTicks).unwrap();
    }
}
