//! Display times of views, and their time windows.
//!
//! In: the views of an object, the time, the ticks of `interval` probes. Out: [`Turn`]s: which
//! views to show, and from which buffer.
//! Guarantee: every update of a map that a view shows by windows is in exactly one window. Programs
//! read the generation once per run. We switch it, wait until the programs that were running have
//! ended, and only then read and clear the buffer that no program writes any more. Neither the
//! programs nor the reader of their records wait for this.
//! What an `interval` probe writes at the end of a window belongs to it: the window ends after the
//! ticks that are due by then.

use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use profiler_model::object::Object;
use profiler_model::output::Window;

use crate::sys::bpf::Grace;
use crate::sys::bss::BssMapping;
use crate::timers::Ticks;

/// How soon a window that waits for ticks is tried again.
const RETRY: Duration = Duration::from_micros(500);

/// The generation bit of the windows of views.
const OF_VIEWS: u64 = 1;

/// A moment on two clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// Nanoseconds since 1970.
    unix_ns: u64,
    /// The same moment on the monotonic clock.
    at: Instant,
}

impl Moment {
    /// This moment.
    fn now() -> Moment {
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Moment { unix_ns, at: Instant::now() }
    }

    /// The time from this moment until `end`.
    fn until(self, end: Moment) -> Window {
        let length = end.at.saturating_duration_since(self.at);
        Window { start_ns: self.unix_ns, end_ns: end.unix_ns, length }
    }
}

/// Views to show now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Their indices.
    pub views: Vec<usize>,
    /// The time that they cover.
    pub window: Window,
    /// The generation whose buffer is read and cleared; `None` reads the active buffer.
    pub take: Option<u64>,
}

/// Views that are shown together.
#[derive(Debug)]
struct Clock {
    views: Vec<usize>,
    period: Duration,
    clear: bool,
    due: Instant,
    /// Whether the window is due and waits for ticks.
    waits: bool,
    /// When the present window began.
    since: Moment,
}

/// A buffer whose window has ended. Programs that are still running may write to it.
#[derive(Debug)]
struct Closed {
    clock: usize,
    generation: u64,
    window: Window,
}

/// The clocks of all views.
#[derive(Debug)]
pub(crate) struct Windows {
    clocks: Vec<Clock>,
    start: Moment,
    generation_offset: Option<u32>,
    closed: Option<Closed>,
    waiter: Option<Waiter>,
}

impl Windows {
    /// The clocks of an object's views; they start at [`Windows::begin`].
    pub(crate) fn new(object: &Object) -> io::Result<Windows> {
        let start = Moment::now();
        let mut clocks: Vec<Clock> = Vec::new();
        for (view, every) in object.views.iter().enumerate().filter_map(|(at, view)| Some((at, view.every?))) {
            let period = Duration::from_nanos(every.period_ns);
            match clocks.iter_mut().find(|clock| (clock.period, clock.clear) == (period, every.clear)) {
                Some(clock) => clock.views.push(view),
                None => {
                    clocks.push(Clock {
                        views: vec![view],
                        period,
                        clear: every.clear,
                        due: start.at,
                        waits: false,
                        since: start,
                    });
                }
            }
        }
        let waiter = object.generation_offset.map(|_| Waiter::start()).transpose()?;
        Ok(Windows { clocks, start, generation_offset: object.generation_offset, closed: None, waiter })
    }

    /// Starts the first windows now. Deadlines are those of timers that began at `base`.
    pub(crate) fn begin(&mut self, base: Instant) {
        self.start = Moment::now();
        for clock in &mut self.clocks {
            clock.since = self.start;
            clock.due = base + clock.period;
        }
    }

    /// The window from the start until now.
    pub(crate) fn whole(&self) -> Window {
        self.start.until(Moment::now())
    }

    /// When the next view is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        // A window cannot be closed while the previous one is being closed.
        let open = self.clocks.iter().filter(|clock| !(clock.clear && self.closed.is_some()));
        open.map(|clock| if clock.waits { Instant::now() + RETRY } else { clock.due }).min()
    }

    /// Becomes readable when an ended window can be read.
    pub(crate) fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.closed.as_ref()?;
        self.waiter.as_ref().map(|waiter| waiter.wake.as_fd())
    }

    /// The views that are due now.
    pub(crate) fn turns(&mut self, globals: &BssMapping, ticks: Option<&Ticks>) -> io::Result<Vec<Turn>> {
        let mut turns = Vec::new();
        let now = Instant::now();
        for at in 0..self.clocks.len() {
            if self.clocks[at].due > now || (self.clocks[at].clear && self.closed.is_some()) {
                continue;
            }
            let due = self.clocks[at].due;
            self.clocks[at].waits = self.clocks[at].clear && ticks.is_some_and(|ticks| !ticks.done(due));
            if self.clocks[at].waits {
                continue;
            }
            if self.clocks[at].clear {
                self.close(at, globals)?;
            } else {
                turns.push(Turn { views: self.clocks[at].views.clone(), window: self.whole(), take: None });
            }
            let clock = &mut self.clocks[at];
            clock.due = next_deadline(clock.due, clock.period, now);
        }
        if self.waiter.as_mut().is_some_and(Waiter::is_done) {
            turns.extend(self.taken()?);
        }
        Ok(turns)
    }

    /// The views to show at the end: a window that was being closed, then all periodic views.
    pub(crate) fn last_turns(&mut self) -> io::Result<Vec<Turn>> {
        let mut turns = Vec::new();
        if self.closed.is_some() {
            turns.extend(self.taken()?);
        }
        let end = Moment::now();
        let last = |clock: &Clock| {
            let start = if clock.clear { clock.since } else { self.start };
            Turn { views: clock.views.clone(), window: start.until(end), take: None }
        };
        turns.extend(self.clocks.iter().map(last));
        Ok(turns)
    }

    /// Ends a window: programs that start from now on are in the next one.
    fn close(&mut self, clock: usize, globals: &BssMapping) -> io::Result<()> {
        let (Some(offset), Some(waiter)) = (self.generation_offset, &mut self.waiter) else { return Ok(()) };
        let outside = || io::Error::from(io::ErrorKind::InvalidData);
        let generation = globals.bss_u64(offset).ok_or_else(outside)?;
        let end = Moment::now();
        globals.set_bss_u64(offset, generation ^ OF_VIEWS);
        waiter.ask()?;
        let window = self.clocks[clock].since.until(end);
        self.clocks[clock].since = end;
        self.closed = Some(Closed { clock, generation, window });
        Ok(())
    }

    /// The closed window, once no program writes to it any more.
    fn taken(&mut self) -> io::Result<Option<Turn>> {
        let (Some(closed), Some(waiter)) = (self.closed.take(), &mut self.waiter) else { return Ok(None) };
        waiter.join()?;
        let views = self.clocks[closed.clock].views.clone();
        Ok(Some(Turn { views, window: closed.window, take: Some(closed.generation) }))
    }
}

/// The first deadline after `now` that is a multiple of the period after `due`.
fn next_deadline(due: Instant, period: Duration, now: Instant) -> Instant {
    let period = period.max(Duration::from_millis(1));
    let late = now.saturating_duration_since(due).as_nanos();
    due + period * u32::try_from(late / period.as_nanos() + 1).unwrap_or(u32::MAX)
}

/// A thread that waits for running programs to end, so that no other thread has to.
#[derive(Debug)]
struct Waiter {
    questions: Option<Sender<()>>,
    answers: Receiver<io::Result<()>>,
    wake: PipeReader,
    thread: Option<JoinHandle<()>>,
    answer: Option<io::Result<()>>,
}

/// Small, because the thread only makes system calls.
const STACK_BYTES: usize = 64 << 10;

impl Waiter {
    fn start() -> io::Result<Waiter> {
        let grace = Grace::new()?;
        let (questions, asked) = channel::<()>();
        let (answer, answers) = channel();
        let (wake, mut woken) = io::pipe()?;
        let builder = thread::Builder::new().name("windows".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || {
            while asked.recv().is_ok() {
                // The caller may be gone.
                let _ = answer.send(grace.wait());
                let _ = woken.write_all(&[1]);
            }
        })?;
        Ok(Waiter { questions: Some(questions), answers, wake, thread: Some(thread), answer: None })
    }

    fn ask(&mut self) -> io::Result<()> {
        let sent = self.questions.as_ref().map(|questions| questions.send(()));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(ended()) }
    }

    /// Whether the answer has arrived.
    fn is_done(&mut self) -> bool {
        if self.answer.is_none() {
            self.answer = self.answers.try_recv().ok();
        }
        self.answer.is_some()
    }

    /// Waits for the answer.
    fn join(&mut self) -> io::Result<()> {
        let answer = match self.answer.take() {
            Some(answer) => answer,
            None => self.answers.recv().map_err(|_| ended())?,
        };
        self.wake.read_exact(&mut [0])?;
        answer
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread that closes windows ended early")
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.questions.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_that_were_missed_are_left_out() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        assert_eq!(next_deadline(start, ms(10), start), start + ms(10));
        assert_eq!(next_deadline(start, ms(10), start + ms(25)), start + ms(30));
    }
}
