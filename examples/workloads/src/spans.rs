//! Operations that begin, pass marks and end, some of them out of order, or never.
//!
//! In: number of threads and rounds. Out: counts of each kind, taken when they were done.
//! Guarantee: each round has its own key, unless all threads share the keys. Then only calls are
//! counted, because it is unknown which end matches which start.

use std::io::{Error, Result};

use crate::sys;

/// A step of a round.
#[derive(Debug, Clone, Copy)]
enum Call {
    Begin,
    Mark(u64),
    Finish,
}

use Call::{Begin, Finish, Mark};

/// The kinds of rounds, used in turn.
const ROUNDS: [&[Call]; 8] = [
    &[Begin, Finish],
    &[Begin, Mark(1), Finish],
    &[Begin, Mark(1), Mark(2), Finish],
    &[Begin, Begin, Finish],
    &[Finish],
    &[Begin, Mark(1)],
    &[Begin, Finish, Finish],
    &[Mark(2), Begin, Mark(2), Mark(2), Finish],
];

/// Counts of what happened.
#[derive(Debug, Default)]
struct Truth {
    begins: u64,
    marks: u64,
    finishes: u64,
    replaced: u64,
    matched: u64,
    unmatched_ends: u64,
    unmatched_marks: u64,
    open: u64,
}

impl Truth {
    /// Does a round, and counts what a tracer of its calls must find.
    fn round(&mut self, key: u64, calls: &[Call]) {
        let mut is_open = false;
        for call in calls {
            match call {
                Begin => {
                    sys::workload_begin(key);
                    self.begins += 1;
                    self.replaced += u64::from(is_open);
                    is_open = true;
                }
                Mark(mark) => {
                    sys::workload_mark(key, *mark);
                    self.marks += 1;
                    self.unmatched_marks += u64::from(!is_open);
                }
                Finish => {
                    sys::workload_finish(key);
                    self.finishes += 1;
                    self.matched += u64::from(is_open);
                    self.unmatched_ends += u64::from(!is_open);
                    is_open = false;
                }
            }
        }
        self.open += u64::from(is_open);
    }

    fn add(&mut self, other: &Truth) {
        self.begins += other.begins;
        self.marks += other.marks;
        self.finishes += other.finishes;
        self.replaced += other.replaced;
        self.matched += other.matched;
        self.unmatched_ends += other.unmatched_ends;
        self.unmatched_marks += other.unmatched_marks;
        self.open += other.open;
    }
}

/// Each thread does `rounds` rounds. If `shared` is not 0, all threads use the same `shared` keys
/// at the same time.
pub fn spans(threads: u64, rounds: u64, shared: u64) -> Result<()> {
    let work = |thread: u64| {
        let mut truth = Truth::default();
        for round in 0..rounds {
            let key = if shared > 0 { round % shared } else { (thread << 32) | round };
            truth.round(key, ROUNDS[(round % ROUNDS.len() as u64) as usize]);
        }
        truth
    };
    let work = &work;
    let truths: Vec<Truth> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.clamp(1, 64)).map(|thread| scope.spawn(move || work(thread))).collect();
        running.into_iter().map_while(|thread| thread.join().ok()).collect()
    });
    if (truths.len() as u64) < threads.clamp(1, 64) {
        return Err(Error::other("a thread failed"));
    }
    let mut all = Truth::default();
    for truth in &truths {
        all.add(truth);
    }
    println!("begins {}\nmarks {}\nfinishes {}", all.begins, all.marks, all.finishes);
    if shared == 0 {
        println!("matched {}\nreplaced {}\nopen {}", all.matched, all.replaced, all.open);
        println!("unmatched_ends {}\nunmatched_marks {}", all.unmatched_ends, all.unmatched_marks);
    }
    Ok(())
}

/// Begins key 0. Then `threads` threads, one after another, begin one key each and exit. Key 0 is
/// finished when the input ends.
pub fn linger(threads: u64) -> Result<()> {
    sys::workload_begin(0);
    for key in 1..=threads {
        let thread = std::thread::spawn(move || sys::workload_begin(key));
        thread.join().map_err(|_| Error::other("a thread failed"))?;
    }
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    sys::workload_finish(0);
    Ok(())
}

/// Calls a recursive function of this depth, `times` times: each time twice so that a jump leaves
/// all calls, and once so that they return.
pub fn leaps(depth: u64, times: u64) {
    let depth = depth.min(1000);
    for _ in 0..times {
        sys::dive(depth, true);
        sys::dive(depth, true);
        sys::dive(depth, false);
    }
    println!("calls {}\nreturns {}", 3 * depth * times, depth * times);
}

/// Runs `threads` threads, one after another, that exit without returning from a recursive function
/// of this depth. Then this thread calls the function.
pub fn stranded(depth: u64, threads: u64) -> Result<()> {
    let depth = depth.min(1000);
    for _ in 0..threads {
        sys::stranded_thread(depth)?;
    }
    sys::dive(depth, false);
    Ok(())
}

/// Calls a function that ends in a jump to `workload_step`, `times` times.
pub fn relays(times: u64) {
    println!("sum {}", (0..times).map(sys::relay).sum::<u64>());
}

/// Calls a function by `paths` different call paths, `rounds` times each.
pub fn stacks(paths: u64, rounds: u64) {
    let sum: u64 = (0..rounds).flat_map(|_| 0..paths).map(sys::by_path).sum();
    println!("stacks {paths}\ncalls {}\nsum {sum}", paths * rounds);
}

/// Calls a recursive function of this depth, `times` times.
pub fn nest(depth: u64, times: u64) {
    let depth = depth.min(1000);
    let sum: u64 = (0..times).map(|_| sys::workload_nest(depth)).sum();
    println!("calls {}\nsum {sum}", depth * times);
}
