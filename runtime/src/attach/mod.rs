//! From loaded programs to programs that run.
//!
//! In: the plan of each program. Out: [`Links`], whose dropping detaches.
//! Guarantee: when one program cannot be attached, none stays attached, unless somebody wants to be told of it instead.

mod function;
mod iter;
mod pmu;
pub(crate) mod sampling;
mod tracepoint;
mod uprobe;
mod watchpoint;

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use profiler_compiler::object::{Attach, Object, Program};

use crate::load::Loaded;
use crate::sys::link;
use crate::sys::perf;

/// What keeps programs attached.
#[derive(Debug, Default)]
pub struct Links {
    /// Raw tracepoints and sampling events: detached in microseconds.
    quick: Vec<OwnedFd>,
    /// Watchpoints by their addresses, which `unwatch` names.
    watched: Vec<(u64, OwnedFd)>,
    /// Tracepoints and uprobes: 40 to 110 ms each, in the kernel.
    slow: Vec<OwnedFd>,
    /// Iterators, which run when they are read.
    iterators: Vec<OwnedFd>,
}

/// Why a program could not be attached.
#[derive(Debug)]
pub struct AttachError {
    /// Its probe, as the script names it.
    pub probe: String,
    /// What was tried.
    pub place: String,
    /// The kernel's answer.
    pub error: io::Error,
    /// What the answer means there; empty when it speaks for itself.
    pub meaning: &'static str,
}

/// Is told of a program that cannot be attached, by its number.
pub type Refused<'a> = &'a dyn Fn(usize, AttachError);

/// Attaches all programs but those that the session itself runs (`BEGIN`, `END`, timers); those that cannot be, where somebody
/// wants to be told, are left out.
pub fn attach(object: &Object, loaded: &Loaded, refused: Option<Refused<'_>>) -> Result<Links, AttachError> {
    let mut links = Links::default();
    // Blocks on one event run in the order of the script: where the kernel runs first what was attached last, the last goes
    // first. bpftrace has the same order.
    let (reversed, straight): (Vec<(usize, &Program)>, Vec<_>) =
        object.programs.iter().enumerate().partition(|(_, program)| runs_newest_first(&program.attach));
    for (index, program) in straight.into_iter().chain(reversed.into_iter().rev()) {
        let failed = |place: &str, error: io::Error| AttachError {
            probe: program.probes.first().unwrap_or(&program.name).clone(),
            place: place.to_owned(),
            meaning: meaning(&program.attach, &error),
            error,
        };
        let fd = loaded.program(&program.name).ok_or_else(|| failed("", io::ErrorKind::NotFound.into()))?;
        let outcome = attach_program(program, fd, &mut links).map_err(|(place, error)| failed(&place, error));
        match (outcome, refused) {
            (Err(error), Some(refused)) => refused(index, error),
            (outcome, _) => outcome?,
        }
    }
    Ok(links)
}

fn runs_newest_first(attach: &Attach) -> bool {
    matches!(attach, Attach::Uprobe { .. } | Attach::Kprobe { at_return: false, .. } | Attach::Trampoline { .. })
}

/// What the kernel's answer means for a way of attaching.
fn meaning(attach: &Attach, error: &io::Error) -> &'static str {
    match attach {
        Attach::PerfEvent { kind, .. } => sampling::meaning(*kind, error),
        Attach::Watchpoint { .. } => watchpoint::meaning(error),
        attach => function::meaning(attach, error),
    }
}

type Failure = (String, io::Error);

fn attach_program(program: &Program, fd: BorrowedFd<'_>, links: &mut Links) -> Result<(), Failure> {
    match &program.attach {
        Attach::Begin
        | Attach::End
        | Attach::Signal
        | Attach::Timer { .. }
        | Attach::Sweep { .. }
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
        Attach::Uprobe { path, at_return, sites, multi, pid } => {
            let place = uprobe::Place { path, at_return: *at_return, pid: *pid };
            uprobe::attach(fd, &place, sites, *multi, links)?;
        }
        Attach::Kprobe { at_return, sites, multi: true } => function::attach_multi(fd, *at_return, sites, links)?,
        Attach::Kprobe { at_return, sites, multi: false } => function::attach_each(fd, *at_return, sites, links)?,
        Attach::Trampoline { function, .. } => {
            links.slow.push(link::trampoline(fd).map_err(|error| (function.clone(), error))?);
        }
        Attach::Iterator { objects, pid } => {
            links.iterators.push(iter::open(fd, *pid).map_err(|error| (format!("the iterator {objects}"), error))?);
        }
        Attach::Watchpoint { address, length_bytes, mode, pid } => {
            let place = watchpoint::Place { address: *address, length_bytes: *length_bytes, mode: *mode, pid: *pid };
            watchpoint::attach(fd, place, links).map_err(|error| (format!("the memory at {address:#x}"), error))?;
        }
        Attach::PerfEvent { kind, config, rate, pid } => {
            sampling::attach(fd, *kind, *config, *rate, *pid, links).map_err(|error| ("a perf event".into(), error))?;
        }
    }
    Ok(())
}

/// Ties a program to a perf event; the result detaches it when closed.
fn tie(event: OwnedFd, program: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    match link::perf_event(program, event.as_fd(), cookie) {
        // Since 5.15: links to perf events. Before, the event itself holds the program, without a cookie.
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

/// Most threads that detach at a time.
const DETACHERS: usize = 8;

impl Links {
    /// The iterators, to be read once.
    pub fn take_iterators(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.iterators)
    }

    /// Programs by their numbers, and how often the kernel did not call them where they are attached.
    pub fn missed_runs(&self) -> Vec<(u32, u64)> {
        self.slow.iter().filter_map(|fd| link::missed_runs(fd.as_fd())).filter(|(_, missed)| *missed > 0).collect()
    }

    /// Closes the watchpoints at an address.
    pub fn unwatch(&mut self, address: u64) {
        self.watched.retain(|(watched, _)| *watched != address);
    }

    /// Detaches what detaches at once.
    pub fn drop_quick(&mut self) {
        self.quick.clear();
        self.watched.clear();
    }

    /// Detaches everything, the slow ones side by side.
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
                // Without a thread the share is dropped, and so detached, by the failed call itself.
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
