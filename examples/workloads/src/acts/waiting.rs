//! Acts whose threads wait: for a lock of the kernel, for a mutex, for work.
//!
//! In: how many threads, how often, how long. Out: lines of a name and a number: counts, and
//! nanoseconds by this program's own clock.
//! Guarantee: a count is exact; a time is read just before and after the wait.

use std::io::{Error, Read as _, Result, Write as _, pipe};
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{number, spin, sys};

/// The usage text of these acts.
pub const USAGE: &str = "\
workload act pipelock N MS       N times, a thread waits MS milliseconds for the kernel's lock of a pipe
workload act uneven N US LONG_MS three threads hold a mutex N times for US microseconds, a fourth 5 times for LONG_MS milliseconds
workload act semaphore N MS      takes a semaphore N times that is there, and N times one that another thread gives after MS milliseconds
workload act crew KIND WORKERS N WORKERS threads on one CPU do N pieces of work of 10 ms: they `spin`, `sleep`, do `both`, or mostly are `idle`
";

/// Performs an act of this file; `None` if it has no act of this name.
pub fn act(name: &str, rest: &[String]) -> Option<Result<()>> {
    let numbers = || -> Result<(u64, u64)> { Ok((number(rest, 0)?, number(rest, 1)?)) };
    Some(match name {
        "pipelock" => numbers().and_then(|(times, ms)| pipelock(times, ms)),
        "semaphore" => numbers().and_then(|(times, ms)| semaphore(times, ms)),
        "uneven" => numbers().and_then(|(times, us)| uneven(times, us, number(rest, 2)?)),
        "crew" => {
            let kind = rest.first().map_or("", String::as_str);
            number(rest, 1).and_then(|workers| crew(kind, workers.clamp(1, 64), number(rest, 2)?))
        }
        _ => return None,
    })
}

fn nap(time: Duration) {
    sys::sleep_ns(time.as_nanos() as i64);
}

/// The other thread gives one when this one has begun to wait for it, and is blocked.
fn semaphore(times: u64, ms: u64) -> Result<()> {
    let (semaphore, begun, taker) = (sys::Semaphore::new(), AtomicU64::new(0), sys::thread_id());
    println!("semaphore {:#x}", semaphore.address());
    for _ in 0..times {
        semaphore.post();
        semaphore.wait();
    }
    // glibc's semaphore has 32 bytes.
    let addresses = semaphore.address()..semaphore.address() + 32;
    let give = || {
        let mut given = Duration::ZERO;
        for round in 0..times {
            while begun.load(Ordering::SeqCst) <= round {
                std::thread::yield_now();
            }
            sys::await_blocked(taker, libc::SYS_futex, &addresses)?;
            let start = Instant::now();
            nap(Duration::from_millis(ms));
            given += start.elapsed();
            semaphore.post();
        }
        Ok::<Duration, Error>(given)
    };
    let (least, waited) = std::thread::scope(|scope| {
        let giver = scope.spawn(give);
        let mut waited = Duration::ZERO;
        for _ in 0..times {
            begun.fetch_add(1, Ordering::SeqCst);
            let start = Instant::now();
            semaphore.wait();
            waited += start.elapsed();
        }
        Ok::<_, Error>((giver.join().map_err(|_| Error::other("a thread failed"))??, waited))
    })?;
    println!("taken {}\nslept {times}", 2 * times);
    println!("waited_least_ns {}\nwaited_ns {}", least.as_nanos(), waited.as_nanos());
    Ok(())
}

/// The first writer has the lock of the pipe while it waits for the page that it writes. The time
/// begins when the second one is blocked.
fn pipelock(times: u64, ms: u64) -> Result<()> {
    let (mut from, to) = pipe()?;
    let mut waited = Duration::ZERO;
    for _ in 0..times {
        let page = sys::AbsentPage::new()?;
        let (asks, thread) = (Barrier::new(2), AtomicI32::new(0));
        let second = || {
            thread.store(sys::thread_id(), Ordering::Relaxed);
            asks.wait();
            let start = Instant::now();
            (&to).write_all(b"x")?;
            Ok::<Duration, Error>(start.elapsed())
        };
        waited += std::thread::scope(|scope| {
            let first = scope.spawn(|| page.write_to(&to));
            page.await_fault()?;
            let second = scope.spawn(second);
            asks.wait();
            let blocked = sys::await_blocked(thread.load(Ordering::Relaxed), libc::SYS_write, &(0..usize::MAX));
            nap(Duration::from_millis(ms));
            page.supply()?;
            blocked?;
            let failed = |_| Error::other("a thread failed");
            first.join().map_err(failed)??;
            second.join().map_err(failed)?
        })?;
        from.read_exact(&mut [0; 4097])?;
    }
    println!("waits {times}\nleast_ns {}\nwaited_ns {}", times * ms * 1_000_000, waited.as_nanos());
    Ok(())
}

/// The short holds are busy, with a pause after each, so that the lock is mostly free.
fn uneven(times: u64, us: u64, long_ms: u64) -> Result<()> {
    const LONG_HOLDS: u64 = 5;
    let lock = sys::PthreadMutex::new();
    println!("lock {:#x}", lock.address());
    let take_turns = |times: u64, use_it: &dyn Fn(), pause: Duration| {
        let [mut waited, mut held, mut used] = [Duration::ZERO; 3];
        for _ in 0..times {
            let start = Instant::now();
            lock.lock();
            let taken = Instant::now();
            use_it();
            held += taken.elapsed();
            lock.unlock();
            used += start.elapsed();
            waited += taken - start;
            nap(pause);
        }
        [waited, held, used]
    };
    let busy = || {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(us) {
            std::hint::spin_loop();
        }
    };
    let pause = Duration::from_millis(1);
    let all = std::thread::scope(|scope| {
        let short: Vec<_> = (0..3).map(|_| scope.spawn(|| take_turns(times, &busy, pause))).collect();
        let long = take_turns(LONG_HOLDS, &|| nap(Duration::from_millis(long_ms)), Duration::from_millis(long_ms));
        let short = short.into_iter().map_while(|thread| thread.join().ok());
        short.chain([long]).collect::<Vec<_>>()
    });
    if all.len() < 4 {
        return Err(Error::other("a thread failed"));
    }
    let sum = |index: usize| all.iter().filter_map(|times| times.get(index)).sum::<Duration>().as_nanos();
    println!("holds {}\nwaited_ns {}\nheld_ns {}\nused_ns {}", 3 * times + LONG_HOLDS, sum(0), sum(1), sum(2));
    Ok(())
}

/// Work that waits, and the lock and condition for it.
struct Work {
    lock: sys::PthreadMutex,
    more: sys::PthreadCondition,
    pieces: AtomicU64,
    is_over: AtomicU64,
}

impl Work {
    fn add(&self, pieces: u64, is_over: bool) {
        self.lock.lock();
        self.pieces.fetch_add(pieces, Ordering::Relaxed);
        self.is_over.store(u64::from(is_over), Ordering::Relaxed);
        self.more.wake();
        self.lock.unlock();
    }

    /// Waits for a piece of work; `false` when all is done. Returns how long it waited.
    fn take(&self) -> (bool, Duration) {
        let mut waited = Duration::ZERO;
        self.lock.lock();
        while self.pieces.load(Ordering::Relaxed) == 0 && self.is_over.load(Ordering::Relaxed) == 0 {
            let start = Instant::now();
            self.more.wait(&self.lock);
            waited += start.elapsed();
        }
        let is_there = self.pieces.load(Ordering::Relaxed) > 0;
        if is_there {
            self.pieces.fetch_sub(1, Ordering::Relaxed);
        }
        self.lock.unlock();
        (is_there, waited)
    }
}

/// The work is all there at the start; for `idle`, a piece comes every 10 ms.
fn crew(kind: &str, workers: u64, pieces: u64) -> Result<()> {
    let piece: fn() = match kind {
        "spin" => || spin(10),
        "sleep" | "idle" => || nap(Duration::from_millis(10)),
        "both" => || {
            spin(10);
            nap(Duration::from_millis(20));
        },
        _ => return Err(Error::other("the kinds are spin, sleep, both and idle")),
    };
    sys::pin_to_cpu(0)?;
    let work = Work {
        lock: sys::PthreadMutex::new(),
        more: sys::PthreadCondition::new(),
        pieces: AtomicU64::new(0),
        is_over: AtomicU64::new(0),
    };
    let worker = || {
        let (mut idle, mut busy, mut done) = (Duration::ZERO, Duration::ZERO, 0);
        loop {
            let (is_there, waited) = work.take();
            idle += waited;
            if !is_there {
                sys::end_at_once();
                return (idle, busy, done);
            }
            let start = Instant::now();
            piece();
            busy += start.elapsed();
            done += 1;
        }
    };
    let mut existed = Duration::ZERO;
    let all: Vec<(Duration, Duration, u64)> = std::thread::scope(|scope| {
        let start = |_| {
            let before = Instant::now();
            Ok((before, std::thread::Builder::new().name("crew".to_owned()).spawn_scoped(scope, worker)?))
        };
        let running = (0..workers).map(start).collect::<Result<Vec<_>>>()?;
        if kind == "idle" {
            for _ in 0..pieces {
                work.add(1, false);
                nap(Duration::from_millis(10));
            }
        }
        work.add(if kind == "idle" { 0 } else { pieces }, true);
        let mut ended = |(before, thread): (Instant, std::thread::ScopedJoinHandle<_>)| {
            let seen = thread.join().ok();
            existed += before.elapsed();
            seen
        };
        Ok::<_, Error>(running.into_iter().map_while(&mut ended).collect())
    })?;
    let sum = |part: fn(&(Duration, Duration, u64)) -> Duration| all.iter().map(part).sum::<Duration>().as_nanos();
    println!("workers {}\npieces {}", all.len(), all.iter().map(|(_, _, done)| done).sum::<u64>());
    println!("idle_ns {}\nbusy_ns {}", sum(|(idle, _, _)| *idle), sum(|(_, busy, _)| *busy));
    // From before the start of each to after its end.
    println!("existed_ns {}", existed.as_nanos());
    Ok(())
}
