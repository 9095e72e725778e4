//! Runs a worker that may block forever, with a deadline for each request.
//!
//! In: questions. Out: answers, or `None`.
//! Guarantee: the caller never blocks for long, whatever the worker waits for (a user-mounted file
//! system, a lock of the traced process). After [`Limits::stall`] without progress the worker and
//! its thread are abandoned, and a new worker takes the next question. After [`Limits::workers`]
//! workers no more questions are asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time limits and number of workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Longest time without progress.
    pub stall: Duration,
    /// Longest time for one answer.
    pub whole: Duration,
    /// Number of workers that may be started, one after the other.
    pub workers: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { stall: Duration::from_secs(5), whole: Duration::from_secs(60), workers: 3 }
    }
}

/// Answers questions in a thread of its own, and counts its steps in the counter that it was
/// created with.
pub(super) type Worker<Question, Answer> = Box<dyn FnMut(Question) -> Answer>;

/// Passes questions to the current worker.
#[derive(Debug)]
pub(super) struct Service<Question, Answer> {
    make: fn(Arc<AtomicU64>) -> Worker<Question, Answer>,
    limits: Limits,
    line: Option<Line<Question, Answer>>,
    started: usize,
}

/// The two ends of the channel to a worker.
#[derive(Debug)]
struct Line<Question, Answer> {
    questions: Sender<Question>,
    answers: Receiver<Answer>,
    progress: Arc<AtomicU64>,
}

impl<Question: Send + 'static, Answer: Send + 'static> Service<Question, Answer> {
    /// A service that creates its workers with `make`.
    pub(super) fn new(make: fn(Arc<AtomicU64>) -> Worker<Question, Answer>, limits: Limits) -> Self {
        Service { make, limits, line: None, started: 0 }
    }

    /// The answer; `None` if the worker got stuck, or if too many workers have.
    pub(super) fn ask(&mut self, question: Question) -> Option<Answer> {
        if self.line.is_none() && self.started < self.limits.workers {
            self.started += 1;
            self.line = start(self.make);
        }
        let line = self.line.as_ref()?;
        let answer = line.questions.send(question).ok().and_then(|()| wait(line, self.limits));
        if answer.is_none() {
            self.line = None;
        }
        answer
    }
}

fn start<Question: Send + 'static, Answer: Send + 'static>(
    make: fn(Arc<AtomicU64>) -> Worker<Question, Answer>,
) -> Option<Line<Question, Answer>> {
    let progress = Arc::new(AtomicU64::new(0));
    let ((questions, asked), (reply, answers)) = (channel(), channel());
    let counted = Arc::clone(&progress);
    let work = move || {
        let mut worker = make(counted);
        while let Ok(question) = asked.recv() {
            if reply.send(worker(question)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("names".into()).spawn(work).ok()?;
    Some(Line { questions, answers, progress })
}

fn wait<Question, Answer>(line: &Line<Question, Answer>, limits: Limits) -> Option<Answer> {
    let asked = Instant::now();
    let mut seen = line.progress.load(Ordering::Relaxed);
    loop {
        match line.answers.recv_timeout(limits.stall) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let now = line.progress.load(Ordering::Relaxed);
                if now == seen || asked.elapsed() > limits.whole {
                    return None;
                }
                seen = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for this many milliseconds, with progress at each step, and doubles the number; blocks
    /// for 0.
    fn working(progress: Arc<AtomicU64>) -> Worker<u64, u64> {
        Box::new(move |ms| {
            let began = Instant::now();
            while ms == 0 || began.elapsed() < Duration::from_millis(ms) {
                thread::sleep(Duration::from_millis(1));
                progress.fetch_add(u64::from(ms > 0), Ordering::Relaxed);
            }
            ms * 2
        })
    }

    /// Whether something holds once the limit is long enough for this machine: on a busy one, a
    /// worker may wait for a CPU longer than a short limit, and then counts as stuck.
    fn holds_with_some_stall(holds: impl Fn(Limits) -> bool) -> bool {
        let limits =
            |stall_ms| Limits { stall: Duration::from_millis(stall_ms), whole: Duration::from_secs(600), workers: 2 };
        (0..10).any(|doublings| holds(limits(100 << doublings)))
    }

    #[test]
    fn a_worker_that_is_stuck_is_left_and_another_one_goes_on() {
        let goes_on = |limits| {
            let mut service = Service::new(working, limits);
            // Two workers are enough.
            [1, 0, 2, 0, 3].map(|ms| service.ask(ms)) == [Some(2), None, Some(4), None, None]
        };
        assert!(holds_with_some_stall(goes_on));
    }

    #[test]
    fn a_worker_that_makes_progress_is_waited_for() {
        let is_waited_for = |limits: Limits| {
            let longer_ms = 3 * limits.stall.as_millis() as u64;
            Service::new(working, limits).ask(longer_ms) == Some(2 * longer_ms)
        };
        assert!(holds_with_some_stall(is_waited_for));
    }

    #[test]
    fn a_worker_that_panics_is_one_that_is_stuck() {
        let limits = Limits { workers: 2, stall: Duration::from_secs(60), ..Limits::default() };
        let mut service: Service<u32, u32> =
            Service::new(|_| Box::new(|number| if number == 7 { panic!("on purpose") } else { number }), limits);
        assert_eq!((service.ask(7), service.ask(8)), (None, Some(8)));
    }
}
