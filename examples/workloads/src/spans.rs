//! Things that begin, pass marks and end, some of them in the wrong order, or never.
//!
//! In: how many threads and rounds. Out: how many of each kind there were, counted as they were done.
//! Guarantee: a round has a key of its own, unless all threads share the keys; then only calls are counted, for nobody knows which
//! end meets which start.

use std::io::{Error, Result};

use crate::sys;

/// What a round is made of.
#[derive(Debug, Clone, Copy)]
enum Call {
    Begin,
    Mark(u64),
    Finish,
}

use Call::{Begin, Finish, Mark};

/// The kinds of rounds, in turn.
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

/// What happened.
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
    /// Does a round, and notes what a reader of its calls must find.
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

/// Each thread does so many rounds. With `shared` keys, all threads take theirs from so many, at the same time.
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

/// Calls a function that calls itself, so deep and so often.
pub fn nest(depth: u64, times: u64) {
    let depth = depth.min(1000);
    let sum: u64 = (0..times).map(|_| sys::workload_nest(depth)).sum();
    println!("calls {}\nsum {sum}", depth * times);
}
