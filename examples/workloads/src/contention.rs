//! Threads that want one lock, and hold it for a known time.
//!
//! In: how many threads, how often each, for how long. Out: the lock's address, how often it was taken, the sums of the times.
//! Guarantee: the lock is one `pthread_mutex_t`; the clock is read just before and after `pthread_mutex_lock`.

use std::io::{Error, Result};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::sys;

/// What a thread saw.
#[derive(Default)]
struct Seen {
    waited: Duration,
    waited_max: Duration,
    held: Duration,
}

/// Each thread takes the lock `times` times and holds it for so many microseconds.
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
