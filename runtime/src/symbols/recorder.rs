//! Remembers what files processes have mapped while a script runs, for names of addresses when they have ended.
//!
//! In: the records of every CPU, and the processes that are there at the start. Out: [`Recorder::find`].
//! Guarantee: the traced side never waits; without the right to record, nothing is known and nothing fails.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::attach::sampling::online_cpus;
use crate::sys::poll;
use crate::sys::process_events::ProcessEvents;

use super::processes::{FilePlace, Processes};

/// The thread reads files of some kilobytes.
const STACK_BYTES: usize = 128 << 10;

/// What runs beside a session.
#[derive(Debug)]
pub(super) struct Recorder {
    recording: Arc<Mutex<Recording>>,
    stop: Arc<AtomicBool>,
    /// The thread sees that its other end is closed.
    alive: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Recording {
    cpus: Vec<ProcessEvents>,
    processes: Processes,
}

impl Recording {
    fn drain(&mut self) {
        let mut records: Vec<Vec<u8>> = Vec::new();
        for cpu in &mut self.cpus {
            cpu.drain(&mut |record| records.push(record.to_vec()));
        }
        // A process moves between CPUs: by the time at their ends, its records are in order.
        let time = |record: &Vec<u8>| record.last_chunk().map_or(0, |time| u64::from_ne_bytes(*time));
        records.sort_by_key(time);
        for record in records {
            self.processes.add(&record, &mut maps);
        }
    }
}

impl Recorder {
    /// Starts to record all processes; those that are there already are looked at beside the session, or only `process`.
    pub fn start(process: Option<u32>) -> Recorder {
        let cpus = online_cpus().unwrap_or_default();
        let cpus = cpus.into_iter().map_while(|cpu| ProcessEvents::open(cpu).ok()).collect();
        let recording = Arc::new(Mutex::new(Recording { cpus, processes: Processes::default() }));
        let stop = Arc::new(AtomicBool::new(false));
        let mut recorder = Recorder { recording, stop, alive: None, thread: None };
        // Without a thread, what fits into the rings is known.
        let _ = recorder.start_thread(process);
        recorder
    }

    fn start_thread(&mut self, process: Option<u32>) -> io::Result<()> {
        let (ended, alive) = pipe()?;
        let wakes = lock(&self.recording).cpus.iter().map(ProcessEvents::wake_fd).collect::<io::Result<Vec<_>>>()?;
        let (shared, stopped) = (Arc::clone(&self.recording), Arc::clone(&self.stop));
        let builder = thread::Builder::new().name("processes".into()).stack_size(STACK_BYTES);
        let work = move || {
            look(&shared, &stopped, process);
            listen(&shared, &stopped, &wakes, &ended);
        };
        self.thread = Some(builder.spawn(work)?);
        self.alive = Some(alive);
        Ok(())
    }

    /// Where addresses of a process are, or were when it ended.
    pub fn find(&self, pid: u32, addresses: &[u64]) -> Vec<Option<FilePlace>> {
        let mut recording = lock(&self.recording);
        recording.drain();
        addresses.iter().map(|address| recording.processes.find(pid, *address)).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            // It cannot panic; if it did, there would be nobody to tell.
            let _ = thread.join();
        }
    }
}

/// Looks at the processes that are there.
fn look(recording: &Mutex<Recording>, stopped: &AtomicBool, process: Option<u32>) {
    let there: Vec<u32> = match process {
        Some(pid) => vec![pid],
        None => pids(),
    };
    for pid in there {
        if stopped.load(Ordering::SeqCst) {
            return;
        }
        let known = lock(recording).processes.knows(pid);
        if let (false, Some(text)) = (known, maps(pid)) {
            let mut recording = lock(recording);
            recording.processes.add_maps(pid, &text);
            recording.drain();
        }
    }
}

/// Takes records when many wait.
fn listen(recording: &Mutex<Recording>, stopped: &AtomicBool, wakes: &[OwnedFd], ended: &PipeReader) {
    let mut fds: Vec<BorrowedFd<'_>> = wakes.iter().map(AsFd::as_fd).collect();
    fds.push(ended.as_fd());
    while !stopped.load(Ordering::SeqCst) && poll::wait_for_any(&fds).is_ok() {
        lock(recording).drain();
    }
}

fn lock(recording: &Mutex<Recording>) -> MutexGuard<'_, Recording> {
    recording.lock().unwrap_or_else(PoisonError::into_inner)
}

fn maps(pid: u32) -> Option<String> {
    fs::read(format!("/proc/{pid}/maps")).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The highest number first: most often the youngest, which ends soonest.
fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by(|a, b| b.cmp(a));
    pids
}
