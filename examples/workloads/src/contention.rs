//! Threads that compete for one lock and hold it for a known time; threads that wait for a
//! condition or are idle.
//!
//! In: number of threads, iterations of each, and times. Out: the addresses, how often a lock was
//! taken, the sums of the times.
//! Guarantee: each lock is one of libc's; the clock is read just before and after the calls.

use std::io::{Error, Result};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sys;

/// Times that a thread measured.
#[derive(Default)]
struct Seen {
    waited: Duration,
    waited_max: Duration,
    held: Duration,
}

/// Each thread takes the lock `times` times and holds it for `hold_us` microseconds.
pub fn contend(threads: u64, times: u64, hold_us: u64) -> Result<()> {
    let lock = sys::PthreadMutex::new();
    println!("lock {:#x}", lock.address());
    let start_line = Barrier::new(threads as usize);
    let thread = || {
        start_line.wait();
        let mut seen = Seen::default();
        for _ in 0..times {
            let asked = Instant::now();
            lock.lock();
            let (waited, taken) = (asked.elapsed(), Instant::now());
            sys::sleep_ns(hold_us as i64 * 1000);
            seen.held += taken.elapsed();
            lock.unlock();
            seen.waited += waited;
            seen.waited_max = seen.waited_max.max(waited);
        }
        seen
    };
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(thread)).collect();
        running.into_iter().map_while(|thread| thread.join().ok()).collect()
    });
    if seen.len() < threads as usize {
        return Err(Error::other("a thread failed"));
    }
    let sum = |part: fn(&Seen) -> Duration| seen.iter().map(part).sum::<Duration>().as_nanos();
    let waited_max = seen.iter().map(|seen| seen.waited_max).max().unwrap_or_default();
    println!("locks {}\nwaited_ns {}", threads * times, sum(|seen| seen.waited));
    println!("waited_max_ns {}\nheld_ns {}", waited_max.as_nanos(), sum(|seen| seen.held));
    Ok(())
}

/// One thread waits for a condition `times` times, and works for `hold_us` microseconds while it
/// holds the mutex. Another thread makes the condition true every `pause_us` microseconds, each
/// time after trying to take a mutex that the first thread holds all the time.
pub fn conditions(times: u64, hold_us: u64, pause_us: u64) -> Result<()> {
    let (lock, condition, taken) = (sys::PthreadMutex::new(), sys::PthreadCondition::new(), sys::PthreadMutex::new());
    println!("lock {:#x}\ncondition {:#x}\ntaken {:#x}", lock.address(), condition.address(), taken.address());
    let rounds = AtomicU64::new(0);
    taken.lock();
    let (seen, failed) = std::thread::scope(|scope| {
        let waker = scope.spawn(|| {
            let (mut failed, mut held) = (0, Duration::ZERO);
            for _ in 0..times {
                sys::sleep_ns(pause_us as i64 * 1000);
                failed += u64::from(!taken.try_lock());
                lock.lock();
                let taken = Instant::now();
                rounds.fetch_add(1, Ordering::Relaxed);
                condition.wake();
                held += taken.elapsed();
                lock.unlock();
            }
            (failed, held)
        });
        let mut seen = Seen::default();
        let mut done = 0;
        lock.lock();
        while done < times {
            while rounds.load(Ordering::Relaxed) == done {
                let asked = Instant::now();
                condition.wait(&lock);
                seen.waited += asked.elapsed();
            }
            done = rounds.load(Ordering::Relaxed);
            let taken = Instant::now();
            sys::sleep_ns(hold_us as i64 * 1000);
            seen.held += taken.elapsed();
        }
        lock.unlock();
        (seen, waker.join())
    });
    let (failed, held) = failed.map_err(|_| Error::other("a thread failed"))?;
    taken.unlock();
    let held = seen.held + held;
    println!("failed {failed}\nwaited_ns {}\nheld_ns {}", seen.waited.as_nanos(), held.as_nanos());
    Ok(())
}

/// Several readers and one writer of one lock, which first asks for it when a reader has it.
pub fn rwlock(readers: u64, times: u64, hold_us: u64) -> Result<()> {
    let lock = sys::PthreadRwlock::new();
    println!("lock {:#x}", lock.address());
    let (start_line, is_taken) = (Barrier::new(readers as usize + 1), AtomicBool::new(false));
    let thread = |take: fn(&sys::PthreadRwlock), begins: fn(&AtomicBool)| {
        start_line.wait();
        begins(&is_taken);
        let mut seen = Seen::default();
        for _ in 0..times {
            let asked = Instant::now();
            take(&lock);
            let (waited, taken) = (asked.elapsed(), Instant::now());
            is_taken.store(true, Ordering::Relaxed);
            sys::sleep_ns(hold_us as i64 * 1000);
            seen.held += taken.elapsed();
            lock.unlock();
            seen.waited += waited;
        }
        seen
    };
    let (writer, read): (Seen, Vec<Seen>) = std::thread::scope(|scope| {
        let running: Vec<_> = (0..readers).map(|_| scope.spawn(|| thread(sys::PthreadRwlock::read, |_| ()))).collect();
        let writer = thread(sys::PthreadRwlock::write, |is_taken| {
            while !is_taken.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
        (writer, running.into_iter().map_while(|thread| thread.join().ok()).collect())
    });
    if read.len() < readers as usize {
        return Err(Error::other("a thread failed"));
    }
    let sum = |part: fn(&Seen) -> Duration| read.iter().map(part).sum::<Duration>().as_nanos();
    println!("read_waited_ns {}\nread_held_ns {}", sum(|seen| seen.waited), sum(|seen| seen.held));
    println!("write_waited_ns {}\nwrite_held_ns {}", writer.waited.as_nanos(), writer.held.as_nanos());
    Ok(())
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
