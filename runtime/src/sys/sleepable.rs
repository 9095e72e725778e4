//! Runs of programs that may sleep.
//!
//! In: the reads of iterators by which this process runs such programs. Out: a wait for those that
//! are under way.
//! Guarantee: the wait ends with the reads that had begun before it, however many begin meanwhile.
//!
//! The kernel's grace periods wait for programs that run under RCU's read lock, which these do not.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Reads by number, in the order in which they began.
#[derive(Debug)]
struct Reads {
    next: u64,
    under_way: Vec<u64>,
}

static READS: Mutex<Reads> = Mutex::new(Reads { next: 0, under_way: Vec::new() });
static ENDED: Condvar = Condvar::new();

fn reads() -> MutexGuard<'static, Reads> {
    // No code that can panic runs with the lock.
    READS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A read, until it is dropped.
#[derive(Debug)]
pub struct Read(u64);

/// Begins a read.
pub fn read() -> Read {
    let mut reads = reads();
    let number = reads.next;
    reads.next += 1;
    reads.under_way.push(number);
    Read(number)
}

impl Drop for Read {
    fn drop(&mut self) {
        reads().under_way.retain(|number| *number != self.0);
        ENDED.notify_all();
    }
}

/// Waits until all reads that have begun have ended.
pub fn wait() {
    let mut reads = reads();
    let later = reads.next;
    while reads.under_way.iter().any(|number| *number < later) {
        reads = ENDED.wait(reads).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::{read, wait};

    #[test]
    fn a_wait_ends_with_the_reads_that_began_before_it() {
        let (first, (begun, has_begun)) = (read(), channel());
        let waiter = thread::spawn(move || {
            begun.send(()).expect("the test is there");
            wait();
        });
        has_begun.recv().expect("the thread is there");
        // One that is always under way, though never the same.
        let mut other = read();
        for _ in 0..100 {
            other = read();
            thread::yield_now();
        }
        drop(first);
        // Reads that began before the waiter looked end as soon as another one has begun.
        for _ in 0..60_000 {
            if waiter.is_finished() {
                return;
            }
            other = read();
            thread::sleep(Duration::from_millis(1));
        }
        drop(other);
        panic!("it waits for reads that began later");
    }
}
