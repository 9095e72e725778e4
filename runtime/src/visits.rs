//! Rounds of visits to all threads: the probe `wall`.
//!
//! In: links to task iterators with their periods, and the gate. Out: rounds at absolute deadlines,
//! from a separate thread, and an account of them.
//! Guarantee: a round that began and was not ended by the script's `exit` has visited every thread,
//! and is counted once. A round that is more than a period late is left out and counted: rounds
//! that follow one another at once would see the same moment twice. After [`Visits::stop`] none
//! runs.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::load::Loaded;
use crate::sys::bss::BssMapping;
use crate::sys::time;
use crate::sys::{link, sleepable};
use crate::timers::Grid;

/// A program that visits threads.
#[derive(Debug)]
pub(crate) struct Visit {
    /// Its index in the object.
    pub index: usize,
    /// The link to its iterator.
    pub link: OwnedFd,
    /// Time between two rounds.
    pub period: Duration,
}

/// What became of the rounds of one program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rounds {
    /// The program's index in the object.
    pub program: usize,
    /// Rounds that visited every thread.
    pub made: u64,
    /// Rounds that were left out because they would have been too late.
    pub missed: u64,
    /// How late the latest round began.
    pub latest: Duration,
    /// How long the longest round took.
    pub longest: Duration,
}

/// The same, while it is counted.
#[derive(Debug, Default)]
struct Counters {
    program: usize,
    made: AtomicU64,
    missed: AtomicU64,
    latest_ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// The account of all programs that visit threads.
#[derive(Debug, Default)]
pub(crate) struct Account(Vec<Counters>);

impl Account {
    /// The rounds of each program so far.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = Rounds> {
        self.0.iter().map(|counters| {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            Rounds {
                program: counters.program,
                made: read(&counters.made),
                missed: read(&counters.missed),
                latest: Duration::from_nanos(read(&counters.latest_ns)),
                longest: Duration::from_nanos(read(&counters.longest_ns)),
            }
        })
    }
}

/// The thread that makes the rounds.
#[derive(Debug)]
pub(crate) struct Visits {
    ends: Arc<AtomicBool>,
    account: Arc<Account>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Small, because the thread only sleeps and makes system calls.
const STACK_BYTES: usize = 64 << 10;

/// How long a round waits for the session to read what it has printed.
const DRAINED: Duration = Duration::from_millis(1);

impl Visits {
    /// Starts the rounds; without a program, no thread is started.
    pub(crate) fn start(visits: Vec<Visit>, gate_offset: u32, loaded: &Loaded) -> io::Result<Visits> {
        let ends = Arc::new(AtomicBool::new(false));
        let counters = |visit: &Visit| Counters { program: visit.index, ..Counters::default() };
        let account = Arc::new(Account(visits.iter().map(counters).collect()));
        if visits.is_empty() {
            return Ok(Visits { ends, account, thread: None });
        }
        let data = loaded.map(".bss").ok_or(io::ErrorKind::NotFound)?;
        let gate = Gate { words: BssMapping::map(data.fd(), data.value_size_bytes())?, offset: gate_offset };
        let (requested, counted) = (Arc::clone(&ends), Arc::clone(&account));
        let builder = thread::Builder::new().name("visits".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || {
            time::wake_precisely();
            visit(&visits, &gate, &requested, &counted)
        })?;
        Ok(Visits { ends, account, thread: Some(thread) })
    }

    /// The account; it remains readable after the end.
    pub(crate) fn account(&self) -> Arc<Account> {
        Arc::clone(&self.account)
    }

    /// Lets the round that is under way end, and waits for it; `meanwhile` is called until then,
    /// and reads what the round prints. Returns the error of a round that failed.
    pub(crate) fn stop(mut self, mut meanwhile: impl FnMut()) -> io::Result<()> {
        self.end();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            meanwhile();
            thread::sleep(DRAINED);
        }
        self.join()
    }

    fn end(&self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the visits ended early")))
    }
}

impl Drop for Visits {
    fn drop(&mut self) {
        // The results are not wanted any more: the thread ends by itself.
        self.end();
    }
}

/// The word that starts and stops counting.
struct Gate {
    words: BssMapping,
    offset: u32,
}

impl Gate {
    fn is_closed(&self) -> bool {
        self.words.bss_u64(self.offset) != Some(0)
    }
}

fn visit(visits: &[Visit], gate: &Gate, ends: &AtomicBool, account: &Account) -> io::Result<()> {
    let start = Instant::now();
    let mut grids: Vec<Grid> = visits.iter().map(|visit| Grid::new(start, visit.period)).collect();
    loop {
        let now = Instant::now();
        for (grid, counters) in grids.iter_mut().zip(&account.0) {
            counters.missed.fetch_add(grid.leave_out(now, Some(grid.period)), Ordering::Relaxed);
        }
        let next = grids.iter().map(|grid| grid.due).enumerate().min_by_key(|(_, due)| *due);
        let Some((at, due)) = next else { return Ok(()) };
        while !ends.load(Ordering::SeqCst) && Instant::now() < due {
            thread::park_timeout(due.saturating_duration_since(Instant::now()));
        }
        if ends.load(Ordering::SeqCst) {
            return Ok(());
        }
        grids[at].due = due + grids[at].period;
        let begun = Instant::now();
        if !round(&visits[at], gate, ends)? {
            return Ok(());
        }
        let counters = &account.0[at];
        counters.made.fetch_add(1, Ordering::Relaxed);
        counters.latest_ns.fetch_max((begun - due).as_nanos() as u64, Ordering::Relaxed);
        counters.longest_ns.fetch_max(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Visits every thread once. Returns false if the script's `exit` ended the round.
fn round(visit: &Visit, gate: &Gate, ends: &AtomicBool) -> io::Result<bool> {
    let mut iterator = File::from(link::read_iterator(visit.link.as_fd())?);
    // The programs write no text themselves.
    let mut text = [0; 64];
    loop {
        // Not longer: the program may be waiting for a session that waits for a window to end.
        let read = {
            let _under_way = sleepable::read();
            iterator.read(&mut text)
        };
        match read {
            Ok(0) => return Ok(!gate.is_closed()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The program waits for the session to read its records, at the same thread.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if ends.load(Ordering::SeqCst) && gate.is_closed() {
                    return Ok(false);
                }
                thread::park_timeout(DRAINED);
            }
            Err(error) => return Err(error),
        }
    }
}
