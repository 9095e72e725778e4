//! Records the file mappings of processes while a script runs, to resolve addresses of processes
//! that have ended.
//!
//! In: the perf records of every CPU, and the processes that run at the start. Out:
//! `Recorder::find`.
//! Guarantee: traced processes never wait; without the privilege to record, nothing is known and
//! nothing fails. However much processes map, recording costs a small part of a CPU: the rate of
//! draining the ring buffers is limited, and dropped records are counted.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::attach::sampling::online_cpus;
use crate::background::{Background, End};
use crate::host::mapped::read_maps;
use crate::sys::perf_buffer::PerfBuffer;
use crate::sys::{poll, time};

use super::processes::{FilePlace, Processes};

/// The thread reads files of some kilobytes.
const STACK_BYTES: usize = 128 << 10;
/// Minimum pause between drains: with 64 KiB per CPU, that is about 25,000 records a second on each
/// CPU.
const PAUSE: Duration = Duration::from_millis(20);

/// The background recorder of a session.
#[derive(Debug)]
pub(super) struct Recorder {
    recording: Recording,
    /// Without a thread, only what fits into the ring buffers is known.
    _thread: Option<Background>,
}

/// The mappings recorded so far; all clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Recording {
    state: Arc<Mutex<State>>,
    /// Records dropped because the kernel's buffer was full.
    lost: Arc<AtomicU64>,
    /// When recording began, in seconds since 1970.
    began: i64,
}

#[derive(Debug, Default)]
struct State {
    cpus: Vec<PerfBuffer>,
    processes: Processes,
}

impl State {
    fn drain(&mut self) {
        let mut records: Vec<Vec<u8>> = Vec::new();
        for cpu in &mut self.cpus {
            cpu.drain(&mut |record| records.push(record.to_vec()));
        }
        // A process moves between CPUs: sorting by the time at the end of each record restores
        // their order.
        let time = |record: &Vec<u8>| record.last_chunk().map_or(0, |time| u64::from_ne_bytes(*time));
        records.sort_by_key(time);
        for record in records {
            self.processes.add(&record, &mut read_maps);
        }
    }
}

impl Recording {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self, state: &mut State) {
        state.drain();
        self.lost.store(state.processes.lost, Ordering::Relaxed);
    }

    /// The file positions of addresses of a process, or the positions when it ended.
    pub(super) fn find(&self, pid: u32, addresses: &[u64]) -> Vec<Option<FilePlace>> {
        let mut state = self.lock();
        self.drain(&mut state);
        addresses.iter().map(|address| state.processes.find(pid, *address)).collect()
    }

    /// The jitdump that a process has mapped, or had when it ended.
    pub(super) fn dump(&self, pid: u32) -> Option<FilePlace> {
        let mut state = self.lock();
        self.drain(&mut state);
        state.processes.dump(pid)
    }

    /// When recording began, in seconds since 1970.
    pub(super) fn began(&self) -> i64 {
        self.began
    }
}

impl Recorder {
    /// Starts recording all processes; scans the processes that already run in the background, or
    /// only `processes`.
    pub(super) fn start(processes: &[u32]) -> Recorder {
        let cpus = online_cpus().unwrap_or_default();
        let cpus = cpus.into_iter().map_while(|cpu| PerfBuffer::of_processes(cpu).ok()).collect();
        let state = Arc::new(Mutex::new(State { cpus, processes: Processes::default() }));
        let began = i64::try_from(time::realtime_ns() / 1_000_000_000).unwrap_or_default();
        let recording = Recording { state, lost: Arc::default(), began };
        let thread = start_thread(&recording, processes.to_vec()).ok();
        Recorder { recording, _thread: thread }
    }

    /// A shared handle to the recorded mappings, for another thread.
    pub(super) fn recording(&self) -> Recording {
        self.recording.clone()
    }

    /// Records dropped so far because the kernel's buffer was full.
    pub(super) fn lost(&self) -> u64 {
        self.recording.lost.load(Ordering::Relaxed)
    }
}

fn start_thread(recording: &Recording, processes: Vec<u32>) -> io::Result<Background> {
    let wakes = recording.lock().cpus.iter().map(PerfBuffer::wake_fd).collect::<io::Result<Vec<_>>>()?;
    let shared = recording.clone();
    Background::start("processes", STACK_BYTES, move |end| {
        look(&shared, end, processes);
        listen(&shared, end, &wakes);
    })
}

/// Scans the processes that already run.
fn look(recording: &Recording, end: &End, processes: Vec<u32>) {
    let there = if processes.is_empty() { pids() } else { processes };
    for pid in there {
        if end.is_over() {
            return;
        }
        let known = recording.lock().processes.knows(pid);
        if let (false, Some(text)) = (known, read_maps(pid)) {
            let mut state = recording.lock();
            state.processes.add_maps(pid, &text);
            recording.drain(&mut state);
        }
    }
}

/// Drains the ring buffers whenever enough records are pending.
fn listen(recording: &Recording, end: &End, wakes: &[OwnedFd]) {
    let mut fds: Vec<BorrowedFd<'_>> = wakes.iter().map(AsFd::as_fd).collect();
    fds.push(end.pipe.as_fd());
    while !end.is_over() && poll::wait_for_any(&fds, None).is_ok() {
        recording.drain(&mut recording.lock());
        // Returns as soon as the session ends.
        let _ = poll::wait(&[end.pipe.as_fd()], Some(PAUSE));
    }
}

/// Highest PID first: usually the youngest process, which tends to end soonest.
fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by(|a, b| b.cmp(a));
    pids
}
