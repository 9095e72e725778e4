//! Progress of a session.
//!
//! In: clocks, counters of the rings and of `.bss`. Out: [`Progress`] for the output, about once
//! a second, until it declines more.
//! Guarantee: no map is read and nothing is measured for this, and a session whose progress is not
//! shown is not woken.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use profiler_compiler::target::Target as _;
use profiler_model::object::{Attach, Storage};
use profiler_model::output::Progress;

use super::Session;
use crate::host::Host;
use crate::ledger;
use crate::spans;

/// The time between two reports.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Reports the progress to the output, if that is due.
    pub(super) fn report_progress(&mut self, now: Instant) {
        if self.progress_due.is_none_or(|due| now < due) {
            return;
        }
        let progress = self.progress();
        self.progress_due = self.actions.output.progress(&progress).then(|| now + PERIOD);
    }

    fn progress(&self) -> Progress {
        let (object, loaded) = (self.actions.object, self.actions.loaded);
        let elapsed = self.windows.whole().length;
        // Map updates are not counted; records and spans are.
        let is_own = |attach: &Attach| {
            let by_us = matches!(attach, Attach::Begin | Attach::End | Attach::Signal | Attach::Timer { .. });
            by_us || attach.is_of_span()
        };
        let sends = |program: usize| object.events.iter().any(|event| event.program == program);
        let mut programs = object.programs.iter().enumerate();
        let is_counted =
            !object.spans.is_empty() || programs.all(|(index, program)| is_own(&program.attach) || sends(index));
        let events = match &self.measuring {
            Some(_) => Some(ledger::costs(object, loaded, elapsed).iter().map(|cost| cost.runs).sum()),
            None => is_counted.then(|| self.received.iter().sum::<u64>() + spans::started(object, loaded)),
        };
        let lost =
            ledger::read(object, loaded, ledger::skipped(object, loaded, &[])).iter().map(|(_, lost)| lost).sum();
        Progress { elapsed, events, lost, memory_bytes: resident_bytes() + self.map_bytes }
    }

    /// The memory that the kernel charges for the maps, in bytes. Maps that grow have less when the
    /// run starts.
    pub(super) fn map_bytes(&self) -> u64 {
        let object = self.actions.object;
        let rings = [&object.data_ring, &object.control_ring].into_iter().flatten().map(String::as_str);
        let maps = object.maps.iter().filter_map(|map| match &map.storage {
            Storage::Map { map, .. } => Some(map.as_str()),
            _ => None,
        });
        rings
            .chain(maps)
            .filter_map(|name| self.actions.loaded.map(name))
            .map(|map| charged_bytes(map.fd().as_raw_fd()))
            .sum()
    }
}

/// `memlock` of a map's descriptor, as in <https://docs.kernel.org/bpf/maps.html>.
fn charged_bytes(fd: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let bytes = text.lines().find_map(|line| line.strip_prefix("memlock:"));
    bytes.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

/// Resident memory of this process: the second number of statm, in pages.
fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * u64::from(Host::new().page_size_bytes())
}
