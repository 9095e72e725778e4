//! From loaded programs to programs that run.
//!
//! In: the plan of each program. Out: [`Links`], whose dropping detaches.
//! Guarantee: when one program cannot be attached, none stays attached.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use profiler_compiler::object::{Attach, Object, Program, Rate, Site};

use crate::load::Loaded;
use crate::sys::link::{self, UprobeSites};
use crate::sys::perf::{self, Sampling, Where};

/// What keeps programs attached.
#[derive(Debug, Default)]
pub struct Links {
    /// Raw tracepoints and sampling events: detached in microseconds.
    quick: Vec<OwnedFd>,
    /// Tracepoints and uprobes: 40 to 110 ms each, in the kernel.
    slow: Vec<OwnedFd>,
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
}

/// Attaches all programs but those that the session itself runs (`BEGIN`, `END`, timers).
pub fn attach(object: &Object, loaded: &Loaded) -> Result<Links, AttachError> {
    let mut links = Links::default();
    for program in &object.programs {
        let failed = |place: &str, error| AttachError {
            probe: program.probes.first().unwrap_or(&program.name).clone(),
            place: place.to_owned(),
            error,
        };
        let fd = loaded.program(&program.name).ok_or_else(|| failed("", io::ErrorKind::NotFound.into()))?;
        attach_program(program, fd, &mut links).map_err(|(place, error)| failed(&place, error))?;
    }
    Ok(links)
}

type Failure = (String, io::Error);

fn attach_program(program: &Program, fd: BorrowedFd<'_>, links: &mut Links) -> Result<(), Failure> {
    match &program.attach {
        Attach::Begin | Attach::End | Attach::Timer { .. } => {}
        Attach::RawTracepoint { names } => {
            for name in names {
                let failed = |error| (name.clone(), error);
                links.quick.push(c_string(name).and_then(|name| link::raw_tracepoint(fd, &name)).map_err(failed)?);
            }
        }
        Attach::Tracepoint { category, event } => {
            let link =
                attach_tracepoint(fd, category, event).map_err(|error| (format!("{category}:{event}"), error))?;
            links.slow.push(link);
        }
        Attach::Uprobe { path, at_return, sites, multi, pid } => {
            let place = UprobePlace { path, at_return: *at_return, pid: *pid };
            if *multi {
                links.slow.push(attach_uprobe_multi(fd, &place, sites).map_err(|error| (path.clone(), error))?);
            } else {
                attach_uprobes(fd, &place, sites, links)?;
            }
        }
        Attach::PerfEvent { kind, config, rate, pid } => {
            attach_sampling(fd, *kind, *config, *rate, *pid, links).map_err(|error| ("a perf event".into(), error))?;
        }
    }
    Ok(())
}

fn attach_tracepoint(program: BorrowedFd<'_>, category: &str, event: &str) -> io::Result<OwnedFd> {
    let id = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .map(|root| fs::read_to_string(format!("{root}/events/{category}/{event}/id")))
        .reduce(Result::or)
        .unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))?;
    let id = id.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    tie(perf::open_tracepoint(id)?, program, 0)
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

/// The file of a uprobe and whom it concerns.
struct UprobePlace<'a> {
    path: &'a str,
    at_return: bool,
    pid: Option<u32>,
}

fn attach_uprobe_multi(program: BorrowedFd<'_>, place: &UprobePlace<'_>, sites: &[Site]) -> io::Result<OwnedFd> {
    let path = c_string(place.path)?;
    let offsets: Vec<u64> = sites.iter().map(|site| site.file_offset).collect();
    let cookies: Vec<u64> = sites.iter().map(|site| site.cookie).collect();
    let (at_return, pid) = (place.at_return, place.pid);
    link::uprobe_multi(program, &UprobeSites { path: &path, offsets: &offsets, cookies: &cookies, at_return, pid })
}

/// One perf event a site, for kernels without multi links.
fn attach_uprobes(
    program: BorrowedFd<'_>,
    place: &UprobePlace<'_>,
    sites: &[Site],
    links: &mut Links,
) -> Result<(), Failure> {
    let at = |name: &str| format!("{} of {}", name, place.path);
    let setup = || -> io::Result<(u32, u64, CString)> {
        let pmu = "/sys/bus/event_source/devices/uprobe";
        let kind = number(&fs::read_to_string(format!("{pmu}/type"))?)?;
        let bit = if place.at_return { return_bit(&fs::read_to_string(format!("{pmu}/format/retprobe"))?)? } else { 0 };
        Ok((kind, bit, c_string(place.path)?))
    };
    let (kind, config, path) = setup().map_err(|error| (at("functions"), error))?;
    for site in sites {
        let link = perf::open_uprobe(kind, config, &path, site.file_offset, place.pid)
            .and_then(|event| tie(event, program, site.cookie))
            .map_err(|error| (at(&site.name), error))?;
        links.slow.push(link);
    }
    Ok(())
}

/// The bit that asks for a return probe: the file says `config:0`.
fn return_bit(format: &str) -> io::Result<u64> {
    let bit = format.trim().strip_prefix("config:").ok_or(io::ErrorKind::InvalidData)?;
    1u64.checked_shl(number(bit)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn number(text: &str) -> io::Result<u32> {
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

fn attach_sampling(
    program: BorrowedFd<'_>,
    kind: u32,
    config: u64,
    rate: Rate,
    pid: Option<u32>,
    links: &mut Links,
) -> io::Result<()> {
    let sampling = match rate {
        Rate::Hertz(frequency) => Sampling::Hertz(frequency),
        Rate::Period(period) => Sampling::Period(period),
    };
    let places: Vec<Where> = match pid {
        // An event watches one thread; those that it starts later inherit it.
        Some(pid) => threads(pid)?.into_iter().map(Where::Thread).collect(),
        None => {
            online_cpus(&fs::read_to_string("/sys/devices/system/cpu/online")?).into_iter().map(Where::Cpu).collect()
        }
    };
    for place in places {
        let event = match perf::open_sampling(kind, config, sampling, place) {
            // A thread that has ended since the list was read, or a CPU that went offline, has nothing to sample.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => continue,
            event => event?,
        };
        links.quick.push(tie(event, program, 0)?);
    }
    Ok(())
}

fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The CPUs in a list such as `0-3,8`.
fn online_cpus(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<u32>().ok()?..=high.parse::<u32>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Most threads that detach at a time.
const DETACHERS: usize = 8;

impl Links {
    /// Detaches what detaches at once.
    pub fn drop_quick(&mut self) {
        self.quick.clear();
    }

    /// Detaches everything, the slow ones side by side.
    fn drop_all(&mut self) {
        self.quick.clear();
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
    fn lists_of_cpus() {
        assert_eq!(online_cpus("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(online_cpus("0"), [0]);
        assert_eq!(online_cpus(""), [0; 0]);
    }

    #[test]
    fn the_bit_of_return_probes() {
        assert_eq!(return_bit("config:0\n").unwrap(), 1);
        assert_eq!(return_bit("config:5").unwrap(), 32);
        assert!(return_bit("config:64").is_err() && return_bit("nonsense").is_err());
    }

    #[test]
    fn an_error_says_what_to_do() {
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        let text = AttachError { probe: "uprobe:x:*".into(), place: "f of /bin/x".into(), error }.to_string();
        assert!(
            text.starts_with("cannot attach uprobe:x:* to f of /bin/x: ") && text.ends_with("(ulimit -n)"),
            "{text}"
        );
    }
}
