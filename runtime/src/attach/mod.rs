//! Attaches loaded programs.
//!
//! In: the plan of each program, and the values of the parameters that select processes. Out:
//! [`Links`]; dropping them detaches.
//! Guarantee: when one program cannot be attached, none stays attached, unless a `refused` callback
//! is given.

mod addresses;
mod function;
mod partial;
mod pmu;
pub(crate) mod sampling;
mod tracepoint;
pub mod trap;
mod uprobe;
mod watchpoint;

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

pub use sampling::DueRuns;

use profiler_model::object::{Attach, Object, Program};

use crate::load::Loaded;
use crate::params::Values;
use crate::sys::link;
use crate::sys::perf;

/// The links that keep programs attached.
#[derive(Debug, Default)]
pub struct Links {
    /// Raw tracepoints and sampling events; these detach in microseconds.
    quick: Vec<OwnedFd>,
    /// Perf events that call a program periodically.
    sampled: Vec<sampling::Sampled>,
    /// Watchpoints by address, which `unwatch` names.
    watched: Vec<(u64, OwnedFd)>,
    /// All other links, such as tracepoints and uprobes, which take the kernel 40 to 110 ms each to
    /// detach.
    slow: Vec<OwnedFd>,
    /// Iterators, whose programs run when they are read.
    iterators: Vec<OwnedFd>,
    /// Links to iterators that are to be pinned, each with its file.
    pinned: Vec<(OwnedFd, String)>,
    /// Links to the iterators of programs that visit threads, by program index.
    visits: Vec<(usize, OwnedFd)>,
    /// The parts of programs that could not be attached, by program index.
    skipped: Vec<(usize, Skipped)>,
}

/// The part of a program's plan that could not be attached, although the rest was.
#[derive(Debug, Default)]
pub struct Skipped {
    /// Processes that do not exist.
    pub absent: Vec<u32>,
    /// Sites that the kernel refused, by name, each once.
    pub sites: Vec<(String, io::Error)>,
}

impl Skipped {
    fn add_sites<'n>(&mut self, refused: impl Iterator<Item = (&'n str, io::Error)>) {
        for (name, error) in refused {
            if !self.sites.iter().any(|(known, _)| known == name) {
                self.sites.push((name.to_owned(), error));
            }
        }
    }
}

/// Why a program could not be attached.
#[derive(Debug)]
pub struct AttachError {
    /// Its probe, as written in the script.
    pub probe: String,
    /// The site that was tried.
    pub place: String,
    /// The kernel's answer.
    pub error: io::Error,
    /// An explanation of the error; empty if the error needs none.
    pub meaning: &'static str,
}

/// Callback for each program that cannot be attached, with its index.
pub type Refused<'a> = &'a dyn Fn(usize, AttachError);

/// Why a program could not be attached, and at which site.
struct Failure {
    place: String,
    /// The index of the probe that failed, if the program has several.
    probe: Option<usize>,
    error: io::Error,
}

impl Failure {
    fn new(place: &str, error: io::Error) -> Failure {
        Failure { place: place.to_owned(), probe: None, error }
    }
}

impl From<(String, io::Error)> for Failure {
    fn from((place, error): (String, io::Error)) -> Failure {
        Failure { place, probe: None, error }
    }
}

/// A short description of a program's probes; a single one if the failure is about that one.
fn shown_probes(program: &Program, probe: Option<usize>) -> String {
    match (probe.and_then(|index| program.probes.get(index)), program.probes.as_slice()) {
        (Some(one), _) | (None, [one]) => one.clone(),
        (None, [first, more @ ..]) => format!("{first} and {} more", more.len()),
        (None, []) => program.name.clone(),
    }
}

/// Attaches all programs except those that the session itself runs (`BEGIN`, `END`, timers).
/// Programs that cannot be attached are reported to `refused` and left out; without it, the first
/// failure is returned.
pub fn attach(
    object: &Object,
    loaded: &Loaded,
    values: &Values,
    refused: Option<Refused<'_>>,
) -> Result<Links, AttachError> {
    let mut links = Links::default();
    // Blocks on one event run in the order of the script. Where the kernel runs the most recently
    // attached program first, the last block is attached first. bpftrace has the same order.
    let (reversed, straight): (Vec<(usize, &Program)>, Vec<_>) =
        object.kernel_programs().partition(|(_, program)| runs_newest_first(&program.attach));
    for (index, program) in straight.into_iter().chain(reversed.into_iter().rev()) {
        let failed = |failure: Failure| AttachError {
            probe: shown_probes(program, failure.probe),
            place: failure.place,
            meaning: meaning(&program.attach, &failure.error),
            error: failure.error,
        };
        let missing = || failed(Failure::new("", io::ErrorKind::NotFound.into()));
        let fd = loaded.program(&program.runs_in).ok_or_else(missing)?;
        let counter = program.entry_counter.as_ref().and_then(|name| loaded.program(name));
        match (attach_program((index, program), (fd, counter), values, &mut links).map_err(failed), refused) {
            (Err(error), Some(refused)) => tell(object, index, error, refused),
            (Err(error), None) => return Err(error),
            (Ok(skipped), _) if skipped.absent.is_empty() && skipped.sites.is_empty() => {}
            (Ok(skipped), _) => links.skipped.push((index, skipped)),
        }
    }
    Ok(links)
}

/// Reports a program that cannot be attached, and each other block that runs in it.
fn tell(object: &Object, index: usize, error: AttachError, refused: Refused<'_>) {
    for (other, program) in object.blocks_with(index).filter(|(other, _)| *other != index) {
        let AttachError { probe, place, error, meaning } = &error;
        let same = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        let probe = program.probes.first().unwrap_or(probe).clone();
        refused(other, AttachError { probe, place: place.clone(), error: same, meaning });
    }
    refused(index, error);
}

fn runs_newest_first(attach: &Attach) -> bool {
    matches!(attach, Attach::Uprobe { .. } | Attach::Kprobe { at_return: false, .. } | Attach::Trampoline { .. })
}

/// Explains the kernel's error for this way of attaching.
pub(crate) fn meaning(attach: &Attach, error: &io::Error) -> &'static str {
    match attach {
        Attach::PerfEvent { kind, .. } => sampling::meaning(*kind, error),
        Attach::Watchpoint { .. } => watchpoint::meaning(error),
        Attach::Uprobe { .. } => uprobe::meaning(error),
        attach => function::meaning(attach, error),
    }
}

/// Attaches one program. The descriptors are the program's and its entry counter's, if it has one.
fn attach_program(
    (index, program): (usize, &Program),
    (fd, counter): (BorrowedFd<'_>, Option<BorrowedFd<'_>>),
    values: &Values,
    links: &mut Links,
) -> Result<Skipped, Failure> {
    match &program.attach {
        Attach::Begin
        | Attach::End
        | Attach::Signal
        | Attach::Timer { .. }
        | Attach::Sweep { .. }
        | Attach::Ended { .. }
        | Attach::Test { .. }
        | Attach::Bench { .. } => {}
        Attach::RawTracepoint { names } => {
            for name in names {
                let failed = |error| (name.clone(), error);
                links.quick.push(c_string(name).and_then(|name| link::raw_tracepoint(fd, &name)).map_err(failed)?);
            }
        }
        Attach::Tracepoint { category, event } => {
            let link =
                tracepoint::attach(fd, category, event).map_err(|error| (format!("{category}:{event}"), error))?;
            links.slow.push(link);
        }
        Attach::Uprobe { path, at_return, sites, multi, scope } => {
            let pids = scope.resolve(&|index| values.get(index));
            let place = uprobe::UprobeTarget { path, at_return: *at_return, pids };
            let skipped = uprobe::attach(fd, &place, sites, *multi, links)?;
            if let Some(counter) = counter {
                let entries = uprobe::UprobeTarget { at_return: false, ..place };
                uprobe::attach(counter, &entries, sites, *multi, links)?;
            }
            return Ok(skipped);
        }
        Attach::Kprobe { at_return, sites, multi } => {
            return function::attach(fd, *at_return, sites, *multi, links);
        }
        Attach::Trampoline { function, .. } => {
            links.slow.push(link::trampoline(fd).map_err(|error| (function.clone(), error))?);
        }
        Attach::Iterator { objects, pids, pin } => {
            for pid in each_or_all(pids) {
                let failed = |error| Failure::new(&format!("the iterator {objects}"), error);
                let link = link::iterator(fd, pid).map_err(failed)?;
                match pin {
                    Some(path) => links.pinned.push((link, path.clone())),
                    None => links.iterators.push(link::read_iterator(link.as_fd()).map_err(failed)?),
                }
            }
        }
        Attach::Visits { .. } => {
            let failed = |error| Failure::new("the iterator task", error);
            links.visits.push((index, link::iterator(fd, None).map_err(failed)?));
        }
        Attach::Watchpoint { address, length_bytes, mode, pids } => {
            for pid in each_or_all(pids) {
                let place =
                    watchpoint::WatchedMemory { address: *address, length_bytes: *length_bytes, mode: *mode, pid };
                let failed = |error| Failure::new(&format!("the memory at {address:#x}"), error);
                watchpoint::attach(fd, place, links).map_err(failed)?;
            }
        }
        Attach::PerfEvent { .. } => {
            let failed = |error| Failure::new("a perf event", error);
            sampling::attach((index, program), fd, links).map_err(failed)?;
        }
    }
    Ok(Skipped::default())
}

/// Each of these processes, or `None` for all processes.
fn each_or_all(pids: &[u32]) -> Vec<Option<u32>> {
    if pids.is_empty() { vec![None] } else { pids.iter().copied().map(Some).collect() }
}

/// Attaches a program to a perf event; closing the result detaches it.
fn tie(event: OwnedFd, program: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    match link::perf_event(program, event.as_fd(), cookie) {
        // Since 5.15: links to perf events. Before, the event itself refers to the program, without
        // a cookie.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && cookie == 0 => {
            perf::set_program(event.as_fd(), program)?;
            Ok(event)
        }
        link => link,
    }
}

fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The most threads that detach at the same time.
const DETACHERS: usize = 8;

impl Links {
    /// Takes the iterators, each to be read once.
    pub fn take_iterators(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.iterators)
    }

    /// Takes the links to iterators that are to be pinned, each with its file.
    pub fn take_pinned(&mut self) -> Vec<(OwnedFd, String)> {
        std::mem::take(&mut self.pinned)
    }

    /// Takes the links of programs that visit threads; each round opens and reads an iterator.
    pub fn take_visits(&mut self) -> Vec<(usize, OwnedFd)> {
        std::mem::take(&mut self.visits)
    }

    /// Takes the programs that could not be attached completely.
    pub fn take_skipped(&mut self) -> Vec<(usize, Skipped)> {
        std::mem::take(&mut self.skipped)
    }

    /// Whether nothing is attached.
    pub fn is_empty(&self) -> bool {
        self.quick.is_empty() && self.watched.is_empty() && self.slow.is_empty()
    }

    /// Ids of programs, each with the number of times that the kernel did not call it at its links.
    pub fn missed_runs(&self) -> Vec<(u32, u64)> {
        self.slow.iter().filter_map(|fd| link::missed_runs(fd.as_fd())).filter(|(_, missed)| *missed > 0).collect()
    }

    /// Enables the perf events that call a program periodically.
    pub fn start_sampling(&self) -> io::Result<()> {
        self.sampled.iter().try_for_each(sampling::Sampled::start)
    }

    /// How often programs should have run so far, according to their perf events.
    pub fn due_runs(&self) -> Vec<DueRuns> {
        self.sampled.iter().map(sampling::Sampled::due).collect()
    }

    /// Closes the watchpoints at an address.
    pub fn unwatch(&mut self, address: u64) {
        self.watched.retain(|(watched, _)| *watched != address);
    }

    /// Drops the links that detach at once.
    pub fn drop_quick(&mut self) {
        self.quick.clear();
        self.sampled.clear();
        self.watched.clear();
    }

    /// Detaches everything, the slow links in parallel.
    fn drop_all(&mut self) {
        self.drop_quick();
        let rest = std::mem::take(&mut self.slow);
        if rest.len() < 2 {
            return;
        }
        let mut batches: Vec<Vec<OwnedFd>> = (0..DETACHERS.min(rest.len())).map(|_| Vec::new()).collect();
        let count = batches.len();
        for (index, slow_link) in rest.into_iter().enumerate() {
            batches[index % count].push(slow_link);
        }
        thread::scope(|scope| {
            for share in batches {
                // If the thread cannot be created, the failed call drops its links, which detaches
                // them.
                let _ = thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, move || drop(share));
            }
        });
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.drop_all();
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot attach {}", self.probe)?;
        if !self.place.is_empty() {
            write!(f, " to {}", self.place)?;
        }
        write!(f, ": {}", self.error)?;
        if !self.meaning.is_empty() {
            return write!(f, "; {}", self.meaning);
        }
        match self.error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => f.write_str("; this needs CAP_PERFMON, or root"),
            Some(libc::ENOENT) => f.write_str("; there is no such probe here"),
            Some(libc::EMFILE) => f.write_str("; raise the limit of open files (ulimit -n)"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for AttachError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do() {
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        let text =
            AttachError { probe: "uprobe:x:*".into(), place: "f of /bin/x".into(), error, meaning: "" }.to_string();
        assert!(
            text.starts_with("cannot attach uprobe:x:* to f of /bin/x: ") && text.ends_with("(ulimit -n)"),
            "{text}"
        );
    }
}
