//! Threads that are each in one state for a known time: computing, waiting for a CPU, or blocked.
//!
//! In: the length of each piece of work in milliseconds, and how many. Out: for each thread a line
//! `NAME_ns N` with the time in its state by its own clock, `NAME_thread_ns N` with the time from
//! its first instruction to its last, which it existed at least, and `NAME_joined_ns N` with that
//! from before its start until it was joined, which it existed at most. `NAME_blocked_ns N` is the
//! time that it had no CPU and did not wait for one, at least, and `NAME_off_ns N` the time that it
//! had no CPU, at most. `NAME_queued_ns N` is how long it waited for a CPU while it was in its
//! state: unlike the time without CPU time, it does not contain what interrupts and the host took.
//! Guarantee: a thread's name is that of its state; the clock is read just before and after each
//! call that blocks.

use std::io::{Error, Read as _, Result, Write as _, pipe};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Barrier, Condvar, Mutex};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use crate::sys;

/// What a thread does once, for the given time; yields the time in its state.
type Act = fn(Duration) -> Result<Duration>;

const ACTS: [(&str, Act); 8] = [
    ("running", |each| Ok(running(each))),
    ("lock", lock),
    ("sleep", |each| Ok(nap(each))),
    ("pipe", read_pipe),
    ("network", receive),
    ("poll", poll),
    ("child", child),
    ("fault", fault),
];

/// Runs all threads at once, then two that compete for one CPU.
pub fn states(each: Duration, times: u64) -> Result<()> {
    let threads: Vec<_> = ACTS.iter().map(|(name, act)| start(name, each, times, *act)).collect::<Result<_>>()?;
    for thread in threads {
        ended(thread)?;
    }
    let together = std::sync::Arc::new(Barrier::new(2));
    let compete = |name: &'static str| {
        let together = together.clone();
        let before = Instant::now();
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            let begun = Instant::now();
            sys::pin_to_cpu(0)?;
            together.wait();
            let (start, cpu, queued) = (Instant::now(), sys::thread_cpu_ns(), sys::run_delay_ns());
            while start.elapsed() < each * times as u32 {}
            let waited = start.elapsed().saturating_sub(Duration::from_nanos(sys::thread_cpu_ns() - cpu));
            Ok(Ended::now(name, waited, begun, queued))
        })?;
        Ok::<_, Error>((before, thread))
    };
    let threads = [compete("runnable")?, compete("hog")?];
    threads.into_iter().try_for_each(ended)
}

/// What a thread knows of itself at its end.
struct Ended {
    name: &'static str,
    /// The time in its state.
    spent: Duration,
    existed: Duration,
    cpu: Duration,
    /// How long it waited for a CPU, and how long of it in its state.
    delayed: Duration,
    queued: Duration,
}

impl Ended {
    /// `delayed_ns` is how long it had waited for a CPU when its state began.
    fn now(name: &'static str, spent: Duration, begun: Instant, delayed_ns: u64) -> Ended {
        let existed = begun.elapsed();
        let [cpu, delayed] = [sys::thread_cpu_ns(), sys::run_delay_ns()].map(Duration::from_nanos);
        sys::end_at_once();
        Ended { name, spent, existed, cpu, delayed, queued: delayed.saturating_sub(Duration::from_nanos(delayed_ns)) }
    }
}

/// The time before a thread was started, and the thread.
type Thread = (Instant, std::thread::JoinHandle<Result<Ended>>);

fn start(name: &'static str, each: Duration, times: u64, act: Act) -> Result<Thread> {
    let before = Instant::now();
    let thread = Builder::new().name(name.to_owned()).spawn(move || {
        let (begun, queued) = (Instant::now(), sys::run_delay_ns());
        let mut spent = Duration::ZERO;
        for _ in 0..times {
            spent += act(each)?;
        }
        Ok(Ended::now(name, spent, begun, queued))
    })?;
    Ok((before, thread))
}

fn ended((before, thread): Thread) -> Result<()> {
    let end = thread.join().map_err(|_| Error::other("a thread failed"))??;
    let (name, joined) = (end.name, before.elapsed());
    let blocked = end.existed.saturating_sub(end.cpu + end.delayed);
    let off = joined.saturating_sub(end.cpu);
    let [spent, existed, joined, blocked, off, queued] =
        [end.spent, end.existed, joined, blocked, off, end.queued].map(|time| time.as_nanos());
    println!("{name}_ns {spent}\n{name}_thread_ns {existed}\n{name}_joined_ns {joined}");
    println!("{name}_blocked_ns {blocked}\n{name}_off_ns {off}\n{name}_queued_ns {queued}");
    Ok(())
}

/// CPU time, which does not contain the time that other threads had the CPU.
fn running(each: Duration) -> Duration {
    let (start, cpu) = (Instant::now(), sys::thread_cpu_ns());
    while start.elapsed() < each {}
    Duration::from_nanos(sys::thread_cpu_ns() - cpu)
}

fn lock(each: Duration) -> Result<Duration> {
    let (never, mutex) = (Condvar::new(), Mutex::new(()));
    let guard = mutex.lock().map_err(|_| Error::other("poisoned"))?;
    let start = Instant::now();
    let waited = never.wait_timeout_while(guard, each, |()| true).map_err(|_| Error::other("poisoned"))?;
    let spent = start.elapsed();
    drop(waited);
    Ok(spent)
}

#[inline(never)]
fn nap(each: Duration) -> Duration {
    let start = Instant::now();
    sleep(each);
    start.elapsed()
}

fn read_pipe(each: Duration) -> Result<Duration> {
    let (mut reader, mut writer) = pipe()?;
    while_another(each, move || writer.write_all(b"x"), move || reader.read_exact(&mut [0]))
}

fn receive(each: Duration) -> Result<Duration> {
    let (mut here, mut there) = UnixStream::pair()?;
    while_another(each, move || there.write_all(b"x"), move || here.read_exact(&mut [0]))
}

fn poll(each: Duration) -> Result<Duration> {
    let (here, _there) = UnixStream::pair()?;
    let start = Instant::now();
    sys::poll(here.as_raw_fd(), each)?;
    Ok(start.elapsed())
}

fn child(each: Duration) -> Result<Duration> {
    let mut child = Command::new("sleep").arg(format!("{:.3}", each.as_secs_f64())).spawn()?;
    let start = Instant::now();
    child.wait()?;
    Ok(start.elapsed())
}

fn fault(each: Duration) -> Result<Duration> {
    let page = sys::AbsentPage::new()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        Builder::new().name("pager".to_owned()).spawn_scoped(scope, || {
            sleep(each);
            page.supply()
        })?;
        page.touch();
        Ok(start.elapsed())
    })
}

/// The time of `blocked`, which another thread ends after a time by `end`.
fn while_another(
    after: Duration,
    mut end: impl FnMut() -> Result<()> + Send,
    mut blocked: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    std::thread::scope(|scope| {
        Builder::new().name("waker".to_owned()).spawn_scoped(scope, move || {
            sleep(after);
            end()
        })?;
        let start = Instant::now();
        blocked()?;
        Ok(start.elapsed())
    })
}
