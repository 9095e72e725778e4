//! When views are shown, and the windows that they take.
//!
//! In: the views of an object, the time. Out: [`Turn`]s: which views are to be shown of which place.
//! Guarantee: every update of a map that a view takes by windows is in exactly one window. Programs read the number of the generation once a
//! run; we change it, wait until the programs that ran at that moment have ended, and only then read and clear the place that
//! nobody writes to any more. Nobody waits for that: neither the programs nor whoever reads their records.

use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use profiler_compiler::object::Object;

use crate::render::{Moment, Window};
use crate::sys::bpf::{BpfObject, Grace};

/// Views to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which.
    pub views: Vec<usize>,
    /// The time that they are about.
    pub window: Window,
    /// The generation whose place is read and cleared; without it, the present one is read.
    pub take: Option<u64>,
}

/// Views that are shown together.
#[derive(Debug)]
struct Clock {
    views: Vec<usize>,
    period: Duration,
    clear: bool,
    due: Instant,
    /// When the present window began.
    since: Moment,
}

/// What was filled in a window that is over, and may still be written to by programs that have not ended.
#[derive(Debug)]
struct Closed {
    clock: usize,
    generation: u64,
    window: Window,
}

/// The clocks of all views.
#[derive(Debug)]
pub struct Windows {
    clocks: Vec<Clock>,
    start: Moment,
    generation_offset: Option<u32>,
    closed: Option<Closed>,
    waiter: Option<Waiter>,
}

impl Windows {
    /// The clocks of an object's views; they start at [`Windows::begin`].
    pub fn new(object: &Object) -> io::Result<Windows> {
        let start = Moment::now();
        let mut clocks: Vec<Clock> = Vec::new();
        for (view, every) in object.views.iter().enumerate().filter_map(|(at, view)| Some((at, view.every?))) {
            let period = Duration::from_nanos(every.period_ns);
            match clocks.iter_mut().find(|clock| (clock.period, clock.clear) == (period, every.clear)) {
                Some(clock) => clock.views.push(view),
                None => {
                    clocks.push(Clock { views: vec![view], period, clear: every.clear, due: start.at, since: start });
                }
            }
        }
        let waiter = object.generation_offset.map(|_| Waiter::start()).transpose()?;
        Ok(Windows { clocks, start, generation_offset: object.generation_offset, closed: None, waiter })
    }

    /// The first windows begin now.
    pub fn begin(&mut self) {
        self.start = Moment::now();
        for clock in &mut self.clocks {
            clock.since = self.start;
            clock.due = self.start.at + clock.period;
        }
    }

    /// The time from the beginning to now.
    pub fn whole(&self) -> Window {
        Window { start: self.start, end: Moment::now() }
    }

    /// When something is to be shown next.
    pub fn next_due(&self) -> Option<Instant> {
        // While a window is being closed, the next one cannot be.
        self.clocks.iter().filter(|clock| !(clock.clear && self.closed.is_some())).map(|clock| clock.due).min()
    }

    /// Becomes readable when a window that is over can be read.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.closed.as_ref()?;
        self.waiter.as_ref().map(|waiter| waiter.wake.as_fd())
    }

    /// What is to be shown now.
    pub fn turns(&mut self, globals: &BpfObject) -> io::Result<Vec<Turn>> {
        let mut turns = Vec::new();
        let now = Instant::now();
        for at in 0..self.clocks.len() {
            if self.clocks[at].due > now || (self.clocks[at].clear && self.closed.is_some()) {
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

    /// What is to be shown at the end: a window that was being closed, then all views that are shown again and again.
    pub fn last_turns(&mut self) -> io::Result<Vec<Turn>> {
        let mut turns = Vec::new();
        if self.closed.is_some() {
            turns.extend(self.taken()?);
        }
        let end = Moment::now();
        let last = |clock: &Clock| {
            let start = if clock.clear { clock.since } else { self.start };
            Turn { views: clock.views.clone(), window: Window { start, end }, take: None }
        };
        turns.extend(self.clocks.iter().map(last));
        Ok(turns)
    }

    /// Ends a window: programs that start from now on are in the next.
    fn close(&mut self, clock: usize, globals: &BpfObject) -> io::Result<()> {
        let (Some(offset), Some(waiter)) = (self.generation_offset, &mut self.waiter) else { return Ok(()) };
        let outside = || io::Error::from(io::ErrorKind::InvalidData);
        let generation = globals.bss_u64(offset).ok_or_else(outside)?;
        let end = Moment::now();
        globals.set_bss_u64(offset, 1 - generation.min(1));
        waiter.ask()?;
        let window = Window { start: self.clocks[clock].since, end };
        self.clocks[clock].since = end;
        self.closed = Some(Closed { clock, generation, window });
        Ok(())
    }

    /// The window that was closed, once nobody writes to it any more.
    fn taken(&mut self) -> io::Result<Option<Turn>> {
        let (Some(closed), Some(waiter)) = (self.closed.take(), &mut self.waiter) else { return Ok(None) };
        waiter.join()?;
        let views = self.clocks[closed.clock].views.clone();
        Ok(Some(Turn { views, window: closed.window, take: Some(closed.generation) }))
    }
}

/// The first deadline after `now` on the grid of the period.
fn next_deadline(due: Instant, period: Duration, now: Instant) -> Instant {
    let period = period.max(Duration::from_millis(1));
    let late = now.saturating_duration_since(due).as_nanos();
    due + period * u32::try_from(late / period.as_nanos() + 1).unwrap_or(u32::MAX)
}

/// A thread that waits for programs to end, so that nobody else has to.
#[derive(Debug)]
struct Waiter {
    questions: Option<Sender<()>>,
    answers: Receiver<io::Result<()>>,
    wake: PipeReader,
    thread: Option<JoinHandle<()>>,
    answer: Option<io::Result<()>>,
}

/// The thread only makes system calls.
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
                // Whoever asked may be gone.
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

    /// Whether the answer is there.
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
