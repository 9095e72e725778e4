//! Perf events that sample or count.
//!
//! In: an event and how often it fires. Out: a link on each CPU; how often each should have called
//! its program. Programs limited to some processes filter by process themselves: a per-thread event
//! counts only its own time, so threads that live shorter than a period would never be sampled.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use profiler_model::object::{Attach, Program, Rate};

use super::{Links, tie};
use crate::sys::perf::{self, Sampling, Where};

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;

/// A perf event that a program is attached to on one CPU.
#[derive(Debug)]
pub(super) struct Sampled {
    /// The program's index.
    program: usize,
    cpu: u32,
    event: OwnedFd,
    pace: Pace,
}

/// How often an event calls its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Once per this many nanoseconds.
    ClockNs(u64),
    /// Once per this many events.
    Events(u64),
}

/// How often a program should have run on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRuns {
    /// The program's index.
    pub program: usize,
    pub cpu: u32,
    /// Number of runs due so far.
    pub runs: u64,
    /// The period in nanoseconds, if a clock drives the event.
    period_ns: Option<u64>,
}

/// How late a timer interrupt may be.
const SLACK_NS: u64 = 2_000_000;

impl DueRuns {
    /// How many of these runs may not have reached the program yet.
    pub fn under_way(&self) -> u64 {
        1 + self.period_ns.map_or(0, |period_ns| SLACK_NS / period_ns.max(1))
    }
}

impl Sampled {
    /// Enables the event.
    pub(super) fn start(&self) -> io::Result<()> {
        perf::start(self.event.as_fd())
    }

    /// How often the event should have called its program so far.
    pub(super) fn due(&self) -> DueRuns {
        // An event that cannot be read counts as zero: its CPU has gone offline.
        let counted = perf::counted(self.event.as_fd()).unwrap_or_default();
        let (runs, period_ns) = match self.pace {
            Pace::ClockNs(period_ns) => (counted.running_ns / period_ns.max(1), Some(period_ns)),
            Pace::Events(period) => (counted.events / period.max(1), None),
        };
        DueRuns { program: self.program, cpu: self.cpu, runs, period_ns }
    }
}

/// Attaches a program, with its index, to an event on each CPU. The events are created disabled:
/// one that fired before its program was attached would count runs that never happened.
pub(super) fn attach((index, program): (usize, &Program), fd: BorrowedFd<'_>, links: &mut Links) -> io::Result<()> {
    let Attach::PerfEvent { kind, config, rate } = program.attach else { return Ok(()) };
    let (sampling, counts) = match rate {
        Rate::Hertz(frequency) => (Sampling::Hertz(frequency), None),
        Rate::Period(period) => (Sampling::Period(period), Some(Pace::Events(period))),
    };
    let pace = program.attach.clock_period_ns().map(Pace::ClockNs).or(counts);
    for cpu in online_cpus()? {
        let event = match perf::open_sampling(kind, config, sampling, cpu) {
            Err(error) if is_gone(&error) => continue,
            event => event?,
        };
        if let Some(pace) = pace {
            links.sampled.push(Sampled { program: index, cpu, event: event.try_clone()?, pace });
        }
        links.quick.push(tie(event, fd, 0)?);
    }
    Ok(())
}

/// The threads of a process, or all CPUs.
pub(super) fn places(pid: Option<u32>) -> io::Result<Vec<Where>> {
    Ok(match pid {
        // An event watches one thread; threads that it creates later inherit the event.
        Some(pid) => threads(pid)?.into_iter().map(Where::Thread).collect(),
        None => online_cpus()?.into_iter().map(Where::Cpu).collect(),
    })
}

/// Whether the error only means that there is nothing to sample: a thread that has ended since the
/// list was read, or a CPU that went offline.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

/// Explains the kernel's error for this type of event.
pub(super) fn meaning(kind: u32, error: &io::Error) -> &'static str {
    match (kind, error.raw_os_error()) {
        (HARDWARE, Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EINVAL)) => {
            "this machine does not count that event: virtual machines often have no hardware counters; `profile:hz:99` samples by \
             the clock, and `software:cpu-clock` counts its nanoseconds"
        }
        _ => "",
    }
}

fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The CPUs that are online.
pub(crate) fn online_cpus() -> io::Result<Vec<u32>> {
    Ok(cpus(&fs::read_to_string("/sys/devices/system/cpu/online")?))
}

/// The CPUs in a list such as `0-3,8`.
fn cpus(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<u32>().ok()?..=high.parse::<u32>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::cpus;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cpus("0"), [0]);
        assert_eq!(cpus(""), [0; 0]);
    }
}
