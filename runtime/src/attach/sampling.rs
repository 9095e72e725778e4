//! Perf events that sample or count.
//!
//! In: an event and how often it fires. Out: a link on each CPU, or on each thread of one process.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use profiler_compiler::object::Rate;

use super::{Links, tie};
use crate::sys::perf::{self, Sampling, Where};

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

#[cfg(test)]
mod tests {
    use super::online_cpus;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(online_cpus("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(online_cpus("0"), [0]);
        assert_eq!(online_cpus(""), [0; 0]);
    }
}
