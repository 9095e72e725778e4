//! Perf events that sample or count.
//!
//! In: an event and how often it fires. Out: a link on each CPU, or on each thread of one process.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use profiler_compiler::object::Rate;

use super::{Links, tie};
use crate::sys::perf::{self, Sampling, Where};

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;

/// Attaches a program to an event on each CPU, or on each thread of a process.
pub(super) fn attach(
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
    for place in places(pid)? {
        let event = match perf::open_sampling(kind, config, sampling, place) {
            Err(error) if is_gone(&error) => continue,
            event => event?,
        };
        links.quick.push(tie(event, program, 0)?);
    }
    Ok(())
}

/// The threads of a process, or all CPUs.
pub(super) fn places(pid: Option<u32>) -> io::Result<Vec<Where>> {
    Ok(match pid {
        // An event watches one thread; those that it starts later inherit it.
        Some(pid) => threads(pid)?.into_iter().map(Where::Thread).collect(),
        None => online_cpus()?.into_iter().map(Where::Cpu).collect(),
    })
}

/// Whether an answer only says that the place has nothing to sample: a thread that has ended since the list was read, or a CPU that
/// went offline.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

/// What the kernel's answer means for an event of this kind.
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

/// The CPUs that run.
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
