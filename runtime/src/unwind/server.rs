//! Answers requests of processes.
//!
//! In: process ids, and the identities of their memory. Out: entries of a [`Store`].
//! Guarantee: a process is written after the segments that it refers to, so whatever a program
//! finds is complete. Work is bounded: a process that asks for what it cannot get asks less often,
//! and tables that do not fit are dropped rarely.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use profiler_model::unwind::{FileVersion, MAX_FILES, UNCLAIMED};

use super::files::{Files, Mapped, SharedFile};
use super::mappings::{self, Program};
use super::recent::Recent;
use super::requests::Requests;
use super::store::Store;
use super::used::Written;
use crate::symbols::naming::read_maps;
use crate::symbols::regions::{Region, Regions};
use crate::sys::process::exists;
use crate::sys::time::monotonic_ns;

/// How often entries of ended processes are removed.
const PRUNE: Duration = Duration::from_secs(5);
/// The shortest time from one start to the next: filling all segments takes about a second.
const RESTART: Duration = Duration::from_secs(30);

/// The tables, and the processes that have them.
#[derive(Debug)]
pub(super) struct Server<S> {
    store: S,
    files: Files,
    recent: Recent,
    requests: Requests,
    /// The files that are in the store.
    shared: HashSet<FileVersion>,
    /// The version of the last value written. It is never reset: programs remember rules by it.
    version: u64,
    pruned: Instant,
    /// When all tables were last dropped.
    restarted: Option<Instant>,
    written: Arc<Written>,
}

impl<S: Store> Server<S> {
    /// Nothing is in the store yet. What will be is counted in `written`.
    pub(super) fn new(store: S, files: Files, written: Arc<Written>) -> Server<S> {
        Server {
            store,
            files,
            recent: Recent::default(),
            requests: Requests::default(),
            shared: HashSet::new(),
            version: 0,
            pruned: Instant::now(),
            restarted: None,
            written,
        }
    }

    /// Answers a request. After an error, the process asks again.
    pub(super) fn serve(&mut self, pid: u32, identity: u64) -> io::Result<()> {
        let maps = read_maps(pid).unwrap_or_default();
        let regions = Regions::parse(&maps);
        let program = Program::of(pid, &regions);
        let verdict = self.requests.ask(pid, identity, &program);
        if let Some(pause) = verdict.pause {
            self.store.pause((pid, identity), monotonic_ns().saturating_add(pause.as_nanos() as u64))?;
        }
        if verdict.is_new && !program.code.is_empty() {
            self.answer(pid, identity, &program)?;
        }
        // A process without code has just ended, or is hidden from us. Through one that has ended
        // meanwhile, its files could not be opened.
        let has_ended = || read_maps(pid).is_none_or(|maps| maps.is_empty());
        if program.code.is_empty() || verdict.is_new && has_ended() { self.share_recent(pid) } else { Ok(()) }
    }

    /// Sees the kernel's record of a mapping of code.
    pub(super) fn mapped(&mut self, pid: u32, record: &[u8]) {
        self.recent.add(pid, record);
    }

    /// Reads the files that a process had mapped before it ended, for the next one that maps them.
    fn share_recent(&mut self, pid: u32) -> io::Result<()> {
        for (file, path) in self.recent.take(pid) {
            let found = self.files.at_path(file, &path);
            self.write_segments()?;
            self.share(found)?;
        }
        Ok(())
    }

    /// Makes tables for a process that has not asked yet.
    pub(super) fn prepare(&mut self, pid: u32) -> io::Result<()> {
        if self.requests.knows(pid) { Ok(()) } else { self.serve(pid, UNCLAIMED) }
    }

    /// A process is about to run another program. It gets tables when it has mapped its code.
    pub(super) fn expect(&mut self, pid: u32) {
        let maps = read_maps(pid).unwrap_or_default();
        self.requests.expect(pid, &Program::of(pid, &Regions::parse(&maps)));
    }

    /// A process that was expected runs its program now.
    pub(super) fn begun(&mut self, pid: u32) -> io::Result<()> {
        self.requests.begun(pid);
        self.refresh(pid)
    }

    /// Reads a file that processes will map.
    pub(super) fn read(&mut self, path: &Path) -> io::Result<()> {
        self.files.read_ahead(path);
        self.write_segments()
    }

    /// The processes that have asked.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.requests.processes()
    }

    /// A process has mapped code: if it has asked before, its mappings are written again.
    pub(super) fn refresh(&mut self, pid: u32) -> io::Result<()> {
        if !self.requests.knows(pid) {
            return Ok(());
        }
        let maps = read_maps(pid).unwrap_or_default();
        let regions = Regions::parse(&maps);
        let program = Program::of(pid, &regions);
        let changed = self.requests.changed(pid, &program);
        let Some(identity) = changed.filter(|_| !program.code.is_empty()) else { return Ok(()) };
        self.requests.ask(pid, identity, &program);
        self.answer(pid, identity, &program)
    }

    fn answer(&mut self, pid: u32, identity: u64, program: &Program<'_>) -> io::Result<()> {
        let mut mapped = self.map(pid, &program.code)?;
        if !mapped.is_complete && self.restarted.is_none_or(|at| at.elapsed() >= RESTART) {
            self.restart()?;
            // This process was forgotten as well.
            self.requests.ask(pid, identity, program);
            mapped = self.map(pid, &program.code)?;
        }
        let is_complete = mapped.is_complete;
        self.version += 1;
        self.write(pid, &mappings::value((identity, program.start_stack), self.version, mapped.mappings))?;
        if is_complete {
            self.requests.answered(pid);
        }
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        let Written { files, processes, segments } = &*self.written;
        files.store(self.files.count() as u64, Ordering::Relaxed);
        processes.store(self.requests.processes().count() as u64, Ordering::Relaxed);
        segments.store(self.files.segments().count().into(), Ordering::Relaxed);
    }

    /// The mappings of a process, whose segments are written. Its files are, too, for other
    /// processes that map them.
    fn map(&mut self, pid: u32, code: &[Region<'_>]) -> io::Result<Mapped> {
        let mut mapped = self.files.map(pid, code);
        self.write_segments()?;
        self.share(std::mem::take(&mut mapped.files))?;
        Ok(mapped)
    }

    /// Writes the values of files whose segments are written. Without space for more, processes
    /// have only their own mappings until all tables are dropped.
    fn share(&mut self, files: impl IntoIterator<Item = SharedFile>) -> io::Result<()> {
        for (version, tables) in files {
            let is_new = self.shared.len() < MAX_FILES as usize && self.shared.insert(version);
            if let Some(value) = is_new.then(|| mappings::file_value(&tables)).flatten() {
                self.store.write_file(&version.bytes(), &value)?;
            }
        }
        Ok(())
    }

    /// Writes the tables that were read since the last time.
    fn write_segments(&mut self) -> io::Result<()> {
        for segment in self.files.segments().take() {
            let written = self.store.write_segment(segment.number, &segment.words);
            // Files whose rows are not in the store must not be taken for known.
            written.inspect_err(|_| self.files.forget())?;
        }
        Ok(())
    }

    fn write(&mut self, pid: u32, value: &[u8]) -> io::Result<()> {
        match self.store.write_process(pid, value) {
            Err(error) if error.raw_os_error() == Some(libc::E2BIG) => {
                self.prune()?;
                self.store.write_process(pid, value)
            }
            result => result,
        }
    }

    /// Forgets ended processes, from time to time. Without space for it, a process cannot ask.
    pub(super) fn prune_sometimes(&mut self) -> io::Result<()> {
        if self.pruned.elapsed() >= PRUNE { self.prune() } else { Ok(()) }
    }

    fn prune(&mut self) -> io::Result<()> {
        self.pruned = Instant::now();
        self.requests.retain(exists);
        self.store.prune(&exists)
    }

    /// Drops all tables. A process without an entry asks for it, so whatever is still in use comes
    /// back. Segments are written again only when no program can be reading them: none finds them
    /// without the entry of a process or a file.
    fn restart(&mut self) -> io::Result<()> {
        self.restarted = Some(Instant::now());
        self.store.clear()?;
        self.files.clear();
        self.shared.clear();
        self.requests.clear();
        Ok(())
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
