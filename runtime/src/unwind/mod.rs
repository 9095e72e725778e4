//! Gives programs the tables with which they unwind stacks of user code.
//!
//! In: requests of programs for processes, in a ring buffer. Out: unwind tables and mappings, in
//! maps.
//! Guarantee: processes never wait. What cannot be read is code without unwind information.
//! Stopping takes at most [`PATIENCE`], whatever file is being read.

mod busy;
mod cache;
mod files;
mod mappings;
pub(crate) mod reading;
mod recent;
mod requests;
mod rows;
mod rule;
mod sections;
mod segments;
mod server;
mod store;
pub(crate) mod used;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use profiler_model::unwind::{REQUEST_BYTES, Unwinding};

use crate::attach::sampling::online_cpus;
use crate::background::{Background, End, PATIENCE};
use crate::load::Loaded;
use crate::reader::Reader;
use crate::ring::Rings;
use crate::symbols::processes::LOST;
use crate::sys::map::OwnedMap;
use crate::sys::perf_buffer::PerfBuffer;
use crate::sys::poll;
use crate::sys::ring::MappedRing;
use cache::Cache;
use files::Files;
use server::Server;
use store::{Maps, open};
use used::{Used, Written};

/// gimli keeps rows of up to 192 registers on the stack.
const STACK_BYTES: usize = 512 << 10;
/// How long a run is delayed for the tables of busy processes.
const PREPARATION: Duration = Duration::from_millis(100);
/// How long an unfinished record is waited for, and others after records of mappings.
const UNFINISHED: Duration = Duration::from_millis(1);

/// The thread that answers requests. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Unwinder {
    written: Arc<Written>,
    orders: Sender<Order>,
    /// Wakes the thread for an order.
    wake: PipeWriter,
    thread: Background,
}

impl Unwinder {
    /// Starts the thread for a loaded object. Files are read by `reader`. Tables of large files are
    /// kept in the private directory `cache`, if there is one. Returns when these
    /// processes have tables, or the busiest ones if none is named, and the files of a process that
    /// is about to run them; but waits no longer than [`PATIENCE`] or
    /// [`PREPARATION`] for a thread that is stuck.
    pub(crate) fn start(
        unwinding: &Unwinding,
        loaded: &Loaded,
        (processes, expected): (&[u32], Option<(u32, Vec<PathBuf>)>),
        (cache, reader): (Option<PathBuf>, Reader),
    ) -> io::Result<Unwinder> {
        let maps = Maps::open(unwinding, loaded)?;
        let requests = open(&unwinding.requests, loaded)?;
        let written = Arc::new(Written::default());
        let counted = Arc::clone(&written);
        let (named, (prepared, is_prepared)) = (processes.to_vec(), channel());
        let ((orders, ordered), (woken, wake)) = (channel(), io::pipe()?);
        // Without an answer, stacks say that there is no table yet.
        let thread = Background::start("unwinder", STACK_BYTES, move |end| {
            let first = if named.is_empty() { busy::busiest() } else { named };
            let cache = cache.and_then(|directory| Cache::open(&directory).ok());
            let mut server = Server::new(maps, Files::new(cache, &reader), counted);
            let mut early: VecDeque<Early> = first.into_iter().map(Early::Process).collect();
            if let Some((pid, files)) = expected {
                server.expect(pid);
                files.into_iter().rev().for_each(|file| early.push_front(Early::File(file)));
            }
            let ahead = Ahead { early, is_done: Some(prepared) };
            drop(listen(server, &requests, ahead, (&ordered, woken), end));
        })?;
        let patience = if processes.is_empty() { PREPARATION } else { PATIENCE };
        // The thread drops its end when it is done.
        thread.await_end(&is_prepared, patience);
        Ok(Unwinder { written, orders, wake, thread })
    }

    /// Makes tables for what a process has mapped now. Waits until they are there, but no longer
    /// than [`PATIENCE`] if the thread is stuck.
    pub(crate) fn prepare(&self, pid: u32) {
        let (done, is_done) = channel();
        if self.orders.send(Order { pid, _done: done }).is_ok() && (&self.wake).write_all(&[1]).is_ok() {
            // The thread drops its end when it is done.
            self.thread.await_end(&is_done, PATIENCE);
        }
    }

    /// The memory of its tables so far.
    pub(crate) fn used(&self) -> Used {
        Used::of(&self.written)
    }
}

/// A process that gets tables at once.
#[derive(Debug)]
struct Order {
    pid: u32,
    /// Dropped when it has them.
    _done: Sender<()>,
}

/// What gets tables before anything asks.
#[derive(Debug)]
enum Early {
    /// A file that will be mapped.
    File(PathBuf),
    Process(u32),
}

/// What is left of it.
#[derive(Debug)]
struct Ahead {
    early: VecDeque<Early>,
    /// Dropped as soon as all of them have tables.
    is_done: Option<Sender<()>>,
}

impl Ahead {
    /// The next of them.
    fn next(&mut self) -> Option<Early> {
        let next = self.early.pop_front();
        if next.is_none() {
            self.is_done = None;
        }
        next
    }
}

/// Answers requests until the run ends; in between, makes the tables ahead.
fn listen(
    mut server: Server<Maps>,
    requests: &OwnedMap,
    mut ahead: Ahead,
    (ordered, mut woken): (&Receiver<Order>, PipeReader),
    end: &End,
) -> io::Result<()> {
    let requests = requests.borrow();
    let mut rings = Rings::new(Some(MappedRing::new(&requests, REQUEST_BYTES)?), None);
    let cpus = online_cpus().unwrap_or_default();
    // Without them, new code at the address of old code is noticed when a stack ends there.
    let mut mapped: Vec<PerfBuffer> = cpus.into_iter().map_while(|cpu| PerfBuffer::of_mappings(cpu).ok()).collect();
    let wakes = mapped.iter().map(PerfBuffer::wake_fd).collect::<io::Result<Vec<_>>>()?;
    let mut fds = vec![requests.fd(), end.pipe.as_fd()];
    fds.extend(wakes.iter().map(AsFd::as_fd));
    let orders = woken.try_clone()?;
    fds.push(orders.as_fd());
    while !end.is_over() {
        let early = ahead.next();
        poll::wait_for_any(&fds, early.is_some().then_some(Duration::ZERO))?;
        let (mut changed, mut is_lossy) = (BTreeSet::new(), false);
        for events in &mut mapped {
            events.drain(&mut |record| match kind_of(record) {
                Some(LOST) => is_lossy = true,
                _ => {
                    let Some(pid) = process_of(record) else { return };
                    changed.insert(pid);
                    server.mapped(pid, record);
                }
            });
        }
        if is_lossy {
            changed.extend(server.processes());
        }
        // A process that is new here has just mapped code, so there is always a next time.
        let _ = server.prune_sometimes();
        for &pid in &changed {
            let _ = server.refresh(pid);
        }
        for order in ordered.try_iter() {
            woken.read_exact(&mut [0])?;
            let _ = server.begun(order.pid);
        }
        // Of several requests of a process, the last one counts.
        let mut asked = BTreeMap::new();
        rings.drain(&mut |_, record| asked.extend(request(record)));
        match early {
            Some(Early::Process(pid)) => drop(server.prepare(pid)),
            Some(Early::File(path)) => drop(server.read(&path)),
            // Processes that only start and end must not keep a CPU busy here.
            None if asked.is_empty() => drop(poll::wait(&[end.pipe.as_fd()], Some(UNFINISHED))?),
            None => {}
        }
        for (pid, identity) in asked {
            if end.is_over() {
                break;
            }
            // After an error the process has no entry and asks again.
            let _ = server.serve(pid, identity);
        }
    }
    Ok(())
}

/// The type of a perf record.
fn kind_of(record: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*record.first_chunk()?))
}

/// The process of a record of a mapping: the words after the header.
fn process_of(record: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*record.get(8..)?.first_chunk()?))
}

/// The process and its identity in a record.
fn request(record: &[u8]) -> Option<(u32, u64)> {
    let word = |at: usize| Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?));
    Some((u32::try_from(word(0)?).ok()?, word(8)?))
}

#[cfg(test)]
mod tests {
    use super::request;

    #[test]
    fn a_request_is_two_words() {
        let record: Vec<u8> = [7_u64, 9].into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(request(&record), Some((7, 9)));
        assert_eq!((request(&record[..15]), request(&[0xff; 16])), (None, None));
    }
}
