//! A thread that works beside a run, and ends with it.
//!
//! In: its work, which gets a flag and a pipe. Out: a handle; dropping it ends the thread.
//! Guarantee: dropping takes at most [`PATIENCE`], whatever the thread is reading.

use std::io::{self, PipeReader, PipeWriter, pipe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::starved;

/// Time limit for waiting for a thread, which may be reading a file, or about a process whose
/// memory is locked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A running thread.
#[derive(Debug)]
pub(crate) struct Background {
    end: Arc<End>,
    /// The thread notices when this end is closed.
    alive: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// How the thread learns that it is to end.
#[derive(Debug)]
pub(crate) struct End {
    is_over: AtomicBool,
    /// The thread in procfs.
    place: OnceLock<PathBuf>,
    /// Readable as soon as the thread is to end.
    pub pipe: PipeReader,
}

impl End {
    /// Whether the thread is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

impl Background {
    /// Starts a thread with this name and stack.
    pub(crate) fn start(
        name: &str,
        stack_bytes: usize,
        work: impl FnOnce(&End) + Send + 'static,
    ) -> io::Result<Background> {
        let (ended, alive) = pipe()?;
        let end = Arc::new(End { is_over: AtomicBool::new(false), place: OnceLock::new(), pipe: ended });
        let shared = Arc::clone(&end);
        let builder = thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
        let thread = builder.spawn(move || {
            // A thread has one place, and says it once.
            let _ = shared.place.set(starved::own());
            work(&shared);
        })?;
        Ok(Background { end, alive: Some(alive), thread: Some(thread) })
    }
}

impl Background {
    /// Waits until the thread has dropped the sender of `done`. It waits no longer than `patience`
    /// for a thread that is stuck, and [`starved::LONGEST`] for one that lacks a CPU.
    pub(crate) fn await_end(&self, done: &Receiver<()>, patience: Duration) {
        let place = self.end.place.get().cloned().unwrap_or_default();
        starved::await_end(done, &place, patience);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end.is_over.store(true, Ordering::SeqCst);
        drop(self.alive.take());
        let Some(thread) = self.thread.take() else { return };
        let until = Instant::now() + PATIENCE;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            // It cannot panic; if it did, there would be nowhere to report it.
            let _ = thread.join();
        }
    }
}
