//! Descriptors that are opened, used, replaced and closed at random, so that their numbers are
//! reused often.
//!
//! In: number of threads and rounds, a seed. Out: counts of each operation, taken when it was done.
//! Guarantee: the threads share one descriptor table, and each uses only its own descriptors. The
//! threads are named `descriptor`; the process does nothing else under that name.

use std::io::{Error, Result};
use std::thread;

use crate::sys;

/// A number that no descriptor has.
const NEVER_OPEN: i64 = 900;
/// Maximum number of descriptors of a thread.
const MOST: usize = 12;

/// A descriptor and its identity, a number that no other open of the thread has.
#[derive(Debug, Clone, Copy)]
struct Held {
    fd: i64,
    identity: u64,
}

/// Counts of what happened.
#[derive(Debug, Default)]
struct Truth {
    opened: u64,
    refused: u64,
    duplicated: u64,
    reads: u64,
    closed: u64,
    closed_in_vain: u64,
    open: u64,
}

/// The state of a thread.
struct Worker {
    random: u64,
    next_identity: u64,
    held: Vec<Held>,
    truth: Truth,
}

impl Worker {
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % bound.max(1)
    }

    /// Records a new descriptor and reads from it, so that a tracer sees its identity.
    fn hold(&mut self, fd: i64) {
        self.next_identity += 1;
        let held = Held { fd, identity: self.next_identity };
        self.read(held);
        self.held.push(held);
    }

    fn read(&mut self, held: Held) {
        sys::read_nothing(held.fd, held.identity);
        self.truth.reads += 1;
    }

    fn round(&mut self) -> Result<()> {
        let at = self.below(self.held.len());
        let some = self.held.get(at).copied();
        match (self.below(8), some) {
            (0, _) => {
                let refused = sys::open(c"/dev/there-is-no-such-device").is_err();
                self.truth.refused += u64::from(refused);
            }
            (1, _) => {
                let refused = sys::close(NEVER_OPEN).is_err();
                self.truth.closed_in_vain += u64::from(refused);
            }
            (2, Some(old)) => {
                let from = self.below(self.held.len());
                // A descriptor cannot be duplicated onto itself.
                if let Some(from) = self.held.get(from).filter(|from| from.fd != old.fd).copied() {
                    let fd = sys::duplicate_to(from.fd, old.fd)?;
                    self.truth.duplicated += 1;
                    self.held.swap_remove(at);
                    self.hold(fd);
                }
            }
            (3 | 4, Some(held)) => self.read(held),
            (5, Some(held)) => self.close(held, at)?,
            (_, Some(held)) if self.held.len() >= MOST => self.close(held, at)?,
            _ => {
                let fd = sys::open(c"/dev/zero")?;
                self.truth.opened += 1;
                self.hold(fd);
            }
        }
        Ok(())
    }

    fn close(&mut self, held: Held, at: usize) -> Result<()> {
        sys::close(held.fd)?;
        self.truth.closed += 1;
        self.held.swap_remove(at);
        Ok(())
    }
}

/// Each thread does `rounds` rounds.
pub fn descriptors(threads: u64, rounds: u64, seed: u64) -> Result<()> {
    let threads = threads.clamp(1, 32);
    let work = |thread: u64| {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(thread);
        let mut worker =
            Worker { random, next_identity: (thread + 1) << 32, held: Vec::new(), truth: Truth::default() };
        for _ in 0..rounds {
            worker.round()?;
        }
        worker.truth.open = worker.held.len() as u64;
        Ok::<Truth, Error>(worker.truth)
    };
    let work = &work;
    let truths = thread::scope(|scope| {
        let start = |thread| thread::Builder::new().name("descriptor".into()).spawn_scoped(scope, move || work(thread));
        let running: Vec<_> = (0..threads).map(start).collect::<Result<_>>()?;
        let ended = running.into_iter().map(|thread| thread.join().map_err(|_| Error::other("a thread failed"))?);
        ended.collect::<Result<Vec<Truth>>>()
    })?;
    let sum = |of: fn(&Truth) -> u64| truths.iter().map(of).sum::<u64>();
    println!("opened {}\nrefused {}\nduplicated {}", sum(|t| t.opened), sum(|t| t.refused), sum(|t| t.duplicated));
    println!("reads {}\nclosed {}", sum(|t| t.reads), sum(|t| t.closed));
    println!("closed_in_vain {}\nleft_open {}", sum(|t| t.closed_in_vain), sum(|t| t.open));
    Ok(())
}

/// Closes a sequence of numbers that no descriptor has.
pub fn closes(from: u64, to: u64) -> Result<()> {
    if from < NEVER_OPEN as u64 || to > 1 << 31 {
        return Err(Error::other("only numbers from 900 to 2147483648 are surely no descriptor's"));
    }
    let refused = (from..to).filter(|fd| sys::close(*fd as i64).is_err()).count();
    println!("closes {refused}");
    Ok(())
}
