//! Remembers what files processes have mapped while a script runs, for names of addresses when they have ended.
//!
//! In: the records of every CPU, and the processes that are there at the start. Out: [`Recorder::find`].
//! Guarantee: the traced side never waits; without the right to record, nothing is known and nothing fails.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::attach::sampling::online_cpus;
use crate::sys::process_events::ProcessEvents;

use super::processes::{FilePlace, Processes};

/// The records of a CPU have room for five hundred or so between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// The thread reads files of some kilobytes.
const STACK_BYTES: usize = 128 << 10;

/// What runs beside a session.
#[derive(Debug)]
pub(super) struct Recorder {
    recording: Arc<Mutex<Recording>>,
    stop: Arc<AtomicBool>,
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
        let (shared, stopped) = (Arc::clone(&recording), Arc::clone(&stop));
        let builder = thread::Builder::new().name("processes".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || record(&shared, &stopped, process)).ok();
        Recorder { recording, stop, thread }
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
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It cannot panic; if it did, there would be nobody to tell.
            let _ = thread.join();
        }
    }
}

fn record(recording: &Mutex<Recording>, stopped: &AtomicBool, process: Option<u32>) {
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
            lock(recording).processes.add_maps(pid, &text);
        }
    }
    while !stopped.load(Ordering::SeqCst) {
        lock(recording).drain();
        thread::park_timeout(LOOK);
    }
}

fn lock(recording: &Mutex<Recording>) -> MutexGuard<'_, Recording> {
    recording.lock().unwrap_or_else(PoisonError::into_inner)
}

fn maps(pid: u32) -> Option<String> {
    fs::read(format!("/proc/{pid}/maps")).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}
