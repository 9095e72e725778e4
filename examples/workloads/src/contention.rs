//! Threads that compete for one lock and hold it for a known time; threads that wait for a
//! condition or are idle.
//!
//! In: number of threads, iterations of each, and times. Out: the addresses, how often a lock was
//! taken, the sums of the times.
//! Guarantee: each lock is one of libc's; the clock is read just before and after the calls. Times
//! named `least_…` and `held_…` are parts of what happened, `waited_…` and `used_…` contain it,
//! however late a thread gets its CPU between a call and its clock.

use std::io::{Error, Result};
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sys;

/// Times that a thread measured.
#[derive(Default)]
struct Seen {
    waited: Duration,
    waited_max: Duration,
    /// The part of the waits in which it was blocked, at least.
    waited_least: Duration,
    held: Duration,
    /// From before each wait to after the release.
    used: Duration,
}

impl Seen {
    /// Waits for a lock, holds it for `hold_us` microseconds and releases it.
    fn use_lock<T>(
        &mut self,
        hold_us: u64,
        take: impl FnOnce(),
        at_once: impl FnOnce() -> T,
        release: impl FnOnce(),
    ) -> T {
        let asked = Instant::now();
        take();
        let (waited, taken) = (asked.elapsed(), Instant::now());
        let result = at_once();
        sys::sleep_ns(hold_us as i64 * 1000);
        self.held += taken.elapsed();
        release();
        self.used += asked.elapsed();
        self.waited += waited;
        self.waited_max = self.waited_max.max(waited);
        result
    }

    /// All is done. `before` is how long the thread had a CPU or waited for one when it began.
    fn ends(&mut self, before: Duration) {
        self.waited_least = self.waited.saturating_sub(ready().saturating_sub(before));
    }
}

/// How long the calling thread had a CPU or waited for one.
fn ready() -> Duration {
    Duration::from_nanos(sys::thread_cpu_ns()) + Duration::from_nanos(sys::run_delay_ns())
}

/// Threads that ask for a lock when the first one has it.
struct Crowd {
    threads: Vec<AtomicI32>,
    start_line: Barrier,
    is_taken: AtomicBool,
}

impl Crowd {
    fn of(threads: u64) -> Crowd {
        Crowd {
            threads: (0..threads).map(|_| AtomicI32::new(0)).collect(),
            start_line: Barrier::new(threads as usize),
            is_taken: AtomicBool::new(false),
        }
    }

    /// Begins a thread that takes the lock `times` times.
    fn start(&self, index: usize, times: u64) {
        if let Some(thread) = self.threads.get(index) {
            thread.store(sys::thread_id(), Ordering::SeqCst);
        }
        self.start_line.wait();
        while index > 0 && times > 0 && !self.is_taken.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    /// The first thread has the lock; waits until these others are blocked by it.
    fn await_others(&self, others: Range<usize>, lock: &Range<usize>) -> Result<()> {
        self.is_taken.store(true, Ordering::SeqCst);
        let mut threads = self.threads.get(others).unwrap_or_default().iter();
        threads.try_for_each(|thread| sys::await_blocked(thread.load(Ordering::SeqCst), libc::SYS_futex, lock))
    }
}

/// Each thread takes the lock `times` times and holds it for `hold_us` microseconds. The first
/// thread has it first, until all others wait.
pub fn contend(threads: u64, times: u64, hold_us: u64) -> Result<()> {
    let lock = sys::PthreadMutex::new();
    println!("lock {:#x}", lock.address());
    let crowd = Crowd::of(threads);
    let addresses = lock.address()..lock.address() + 1;
    let thread = |index: usize| {
        crowd.start(index, times);
        let (mut seen, mut blocked, before) = (Seen::default(), Ok(()), ready());
        for time in 0..times {
            let is_first = index == 0 && time == 0;
            let at_once = || if is_first { crowd.await_others(1..threads as usize, &addresses) } else { Ok(()) };
            blocked = blocked.and(seen.use_lock(hold_us, || lock.lock(), at_once, || lock.unlock()));
        }
        seen.ends(before);
        blocked.map(|()| seen)
    };
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let thread = &thread;
        let running: Vec<_> = (0..threads as usize).map(|index| scope.spawn(move || thread(index))).collect();
        running.into_iter().map_while(|thread| thread.join().ok()).collect::<Result<_>>()
    })?;
    if seen.len() < threads as usize {
        return Err(Error::other("a thread failed"));
    }
    let sum = |part: fn(&Seen) -> Duration| seen.iter().map(part).sum::<Duration>().as_nanos();
    let waited_max = seen.iter().map(|seen| seen.waited_max).max().unwrap_or_default();
    for thread in &crowd.threads {
        println!("thread {}", thread.load(Ordering::Relaxed));
    }
    println!("locks {}\nwaited_ns {}", threads * times, sum(|seen| seen.waited));
    println!("waited_least_ns {}\nwaited_max_ns {}", sum(|seen| seen.waited_least), waited_max.as_nanos());
    println!("held_ns {}\nused_ns {}", sum(|seen| seen.held), sum(|seen| seen.used));
    Ok(())
}

/// The thread that wakes another one.
struct Waker<'a> {
    waiter: i32,
    lock: &'a sys::PthreadMutex,
    condition: &'a sys::PthreadCondition,
    /// Held by the other thread.
    taken: &'a sys::PthreadMutex,
    /// How often the other thread was woken.
    rounds: &'a AtomicU64,
    /// How many of its rounds the other thread has begun to wait for: a thread that was woken can
    /// be in the system call for a while longer.
    begun: &'a AtomicU64,
}

/// What it measured.
#[derive(Default)]
struct Woken {
    failed: u64,
    /// The other thread waits all the while.
    paused: Duration,
    held: Duration,
    used: Duration,
}

impl Waker<'_> {
    fn wake_often(&self, times: u64, pause_us: u64) -> Result<Woken> {
        // A condition of libc has 48 bytes.
        let condition = self.condition.address()..self.condition.address() + 48;
        let mut seen = Woken::default();
        for _ in 0..times {
            while self.begun.load(Ordering::SeqCst) <= self.rounds.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            sys::await_blocked(self.waiter, libc::SYS_futex, &condition)?;
            let paused = Instant::now();
            sys::sleep_ns(pause_us as i64 * 1000);
            seen.paused += paused.elapsed();
            seen.failed += u64::from(!self.taken.try_lock());
            self.wake(self.rounds.load(Ordering::Relaxed) + 1, &mut seen);
        }
        Ok(seen)
    }

    fn wake(&self, rounds: u64, seen: &mut Woken) {
        let asked = Instant::now();
        self.lock.lock();
        let taken = Instant::now();
        self.rounds.store(rounds, Ordering::Relaxed);
        self.condition.wake();
        seen.held += taken.elapsed();
        self.lock.unlock();
        seen.used += asked.elapsed();
    }
}

/// One thread waits for a condition `times` times, and works for `hold_us` microseconds while it
/// holds the mutex. Another thread makes the condition true `pause_us` microseconds after the first
/// has begun to wait, each time after trying to take a mutex that the first thread holds all the
/// time.
pub fn conditions(times: u64, hold_us: u64, pause_us: u64) -> Result<()> {
    let (lock, condition, taken) = (sys::PthreadMutex::new(), sys::PthreadCondition::new(), sys::PthreadMutex::new());
    println!("lock {:#x}\ncondition {:#x}\ntaken {:#x}", lock.address(), condition.address(), taken.address());
    let (rounds, begun) = (AtomicU64::new(0), AtomicU64::new(0));
    let waiter = sys::thread_id();
    let waker = Waker { waiter, lock: &lock, condition: &condition, taken: &taken, rounds: &rounds, begun: &begun };
    taken.lock();
    let (seen, waits, wall, woken) = std::thread::scope(|scope| {
        let waker = scope.spawn(|| {
            let woken = waker.wake_often(times, pause_us);
            if woken.is_err() {
                waker.wake(times, &mut Woken::default());
            }
            woken
        });
        let (mut seen, mut waits, mut done) = (Seen::default(), 0, 0);
        let start = Instant::now();
        lock.lock();
        while done < times {
            while rounds.load(Ordering::Relaxed) == done {
                begun.store(done + 1, Ordering::SeqCst);
                let asked = Instant::now();
                condition.wait(&lock);
                seen.waited += asked.elapsed();
                waits += 1;
            }
            done = rounds.load(Ordering::Relaxed);
            let taken = Instant::now();
            sys::sleep_ns(hold_us as i64 * 1000);
            seen.held += taken.elapsed();
        }
        lock.unlock();
        (seen, waits, start.elapsed(), waker.join())
    });
    let woken = woken.map_err(|_| Error::other("a thread failed"))??;
    taken.unlock();
    println!("failed {}\nwaits {waits}\nwaited_ns {}", woken.failed, seen.waited.as_nanos());
    println!("waited_least_ns {}\nheld_ns {}", woken.paused.as_nanos(), (seen.held + woken.held).as_nanos());
    println!("held_most_ns {}", (wall.saturating_sub(woken.paused) + woken.used).as_nanos());
    Ok(())
}

/// Several readers and one writer of one lock. The first reader holds it until all other readers
/// have it too, and the writer waits for it.
pub fn rwlock(readers: u64, times: u64, hold_us: u64) -> Result<()> {
    let lock = sys::PthreadRwlock::new();
    println!("lock {:#x}", lock.address());
    let writer = readers as usize;
    // The lock has 56 bytes.
    let addresses = lock.address()..lock.address() + 56;
    let (crowd, readers_in) = (Crowd::of(readers + 1), AtomicU64::new(0));
    let read = |index: usize| {
        crowd.start(index, times);
        let (mut seen, mut blocked, before) = (Seen::default(), Ok(()), ready());
        for time in 0..times {
            let at_once = || {
                readers_in.fetch_add(u64::from(time == 0), Ordering::SeqCst);
                if index > 0 || time > 0 {
                    return Ok(());
                }
                let all_wait = crowd.await_others(writer..writer + 1, &addresses);
                while readers_in.load(Ordering::SeqCst) < readers {
                    std::thread::yield_now();
                }
                all_wait
            };
            blocked = blocked.and(seen.use_lock(hold_us, || lock.read(), at_once, || lock.unlock()));
        }
        seen.ends(before);
        blocked.map(|()| seen)
    };
    let write = || {
        crowd.start(writer, times);
        let (mut seen, before) = (Seen::default(), ready());
        for _ in 0..times {
            seen.use_lock(hold_us, || lock.write(), || (), || lock.unlock());
        }
        seen.ends(before);
        seen
    };
    let (written, read): (Seen, Vec<Seen>) = std::thread::scope(|scope| {
        let read = &read;
        let running: Vec<_> = (0..writer).map(|index| scope.spawn(move || read(index))).collect();
        let written = write();
        let read = running.into_iter().map_while(|thread| thread.join().ok()).collect::<Result<_>>();
        read.map(|read| (written, read))
    })?;
    if read.len() < writer {
        return Err(Error::other("a thread failed"));
    }
    print_side("read", &read);
    print_side("write", &[written]);
    Ok(())
}

fn print_side(side: &str, seen: &[Seen]) {
    let sum = |part: fn(&Seen) -> Duration| seen.iter().map(part).sum::<Duration>().as_nanos();
    println!("{side}_waited_ns {}\n{side}_waited_least_ns {}", sum(|seen| seen.waited), sum(|seen| seen.waited_least));
    println!("{side}_held_ns {}\n{side}_used_ns {}", sum(|seen| seen.held), sum(|seen| seen.used));
}

/// After a line of input, threads wait for a condition until the next line or the end of the input.
pub fn parked(threads: u64) -> Result<()> {
    let (lock, condition) = (sys::PthreadMutex::new(), sys::PthreadCondition::new());
    let over = AtomicU64::new(0);
    println!("condition {:#x}\nready", condition.address());
    let input = || std::io::stdin().read_line(&mut String::new());
    input()?;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                lock.lock();
                while over.load(Ordering::Relaxed) == 0 {
                    condition.wait(&lock);
                }
                lock.unlock();
            });
        }
        let read = input();
        lock.lock();
        over.store(1, Ordering::Relaxed);
        condition.wake();
        lock.unlock();
        read.map(drop)
    })
}
