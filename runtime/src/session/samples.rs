//! Runs of perf-event programs that did not happen.
//!
//! In: the counts of the events, and how often the programs ran. Out: losses.
//! Guarantee: a run that is still under way is not a loss. Late interrupts are distinguished from
//! runs that the kernel skipped if the kernel's types show when the interrupt was due.

use std::collections::BTreeMap;

use profiler_model::object::{Attach, Loss, MERGED_TICKS_BYTES, Object, RunCounter, SOFTWARE};

use crate::attach::{DueRuns, Links};
use crate::host::Host;
use crate::load::Loaded;

/// One tick in this many may be missing, because that does not change a profile: interrupts are
/// late on every virtual machine, and the kernel skips samples during system calls about maps.
/// Programs of the script that are attached through perf do change it.
const TOLERATED_SHARE: u64 = 100;

/// The runs that a program is missing on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shortfall {
    program: usize,
    due: u64,
    /// Ticks that the kernel merged with later ones.
    merged: u64,
    not_run: u64,
}

impl Shortfall {
    fn new(program: usize, due: u64, under_way: u64, (ran, merged): (u64, u64)) -> Shortfall {
        Shortfall { program, due, merged, not_run: due.saturating_sub(under_way).saturating_sub(ran + merged) }
    }

    /// The smaller of two readings: a tick that was under way at one of them no longer is at the
    /// other.
    fn least(self, other: &Shortfall) -> Shortfall {
        Shortfall { merged: self.merged.min(other.merged), not_run: self.not_run.min(other.not_run), ..self }
    }

    fn add(&mut self, other: &Shortfall) {
        self.due += other.due;
        self.merged += other.merged;
        self.not_run += other.not_run;
    }
}

/// The smaller of two readings of the same events.
pub(super) fn least(first: Vec<Shortfall>, second: &[Shortfall]) -> Vec<Shortfall> {
    first.into_iter().zip(second).map(|(first, second)| first.least(second)).collect()
}

/// The losses of all CPUs together. `tells_merged`: whether the programs count the ticks that the
/// kernel merged.
pub(super) fn losses(object: &Object, shortfalls: &[Shortfall], tells_merged: bool) -> Vec<(Loss, u64)> {
    let mut programs: BTreeMap<usize, Shortfall> = BTreeMap::new();
    for shortfall in shortfalls {
        let zero = Shortfall { program: shortfall.program, due: 0, merged: 0, not_run: 0 };
        programs.entry(shortfall.program).or_insert(zero).add(shortfall);
    }
    let attach = |program: usize| object.programs.get(program).map(|program| &program.attach);
    let holds_up = object.programs.iter().any(|program| program.attach.holds_up_samples());
    let mut losses = Vec::new();
    for (program, Shortfall { due, merged, not_run, .. }) in programs {
        let tolerated = due / TOLERATED_SHARE;
        let (loss, is_exact) = match attach(program) {
            Some(attach) if attach.clock_period_ns().is_some() => (Loss::Ticks { program }, tells_merged && holds_up),
            // Interrupts of hardware counters can be late as well.
            Some(Attach::PerfEvent { kind, .. }) => (Loss::Skipped { program }, *kind == SOFTWARE),
            _ => continue,
        };
        if not_run > if is_exact { 0 } else { tolerated } {
            losses.push((loss, not_run));
        }
        if merged > tolerated {
            losses.push((Loss::MergedTicks { program }, merged));
        }
    }
    losses
}

/// The runs of programs that are attached through perf events.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a> {
    pub object: &'a Object,
    pub loaded: &'a Loaded,
}

impl Samples<'_> {
    /// Gives the programs the offset at which an event stores its due time.
    pub(super) fn prepare(self) {
        let Some(word) = self.object.expiry_offset else { return };
        if let Some(offset) = Host::new().timer_expiry_offset() {
            self.loaded.globals().set_bss_u64(word, offset.into());
        }
    }

    /// Whether the programs can detect the ticks that the kernel merged.
    pub(super) fn tells_merged(self) -> bool {
        let word = self.object.expiry_offset.and_then(|word| self.loaded.globals().bss_u64(word));
        word.is_some_and(|offset| offset > 0)
    }

    /// The missing runs of each program on each CPU. `under_way` returns how many runs may still
    /// come.
    pub(super) fn shortfalls(self, links: &Links, under_way: impl Fn(&DueRuns) -> u64) -> Vec<Shortfall> {
        let read = |due: &DueRuns| {
            let counter = self.object.run_counters.iter().find(|counter| counter.program == due.program)?;
            Some(Shortfall::new(due.program, due.runs, under_way(due), self.counted(counter, due.cpu)?))
        };
        // All events are read before all counters, so that a run in between is counted once too
        // often rather than missed.
        links.due_runs().iter().filter_map(read).collect()
    }

    fn counted(self, counter: &RunCounter, cpu: u32) -> Option<(u64, u64)> {
        let globals = self.loaded.globals();
        let copy = counter.offset_bytes + cpu.checked_rem(counter.copies)? * counter.stride_bytes;
        Some((globals.bss_u64(copy)?, globals.bss_u64(copy + MERGED_TICKS_BYTES)?))
    }
}

#[cfg(test)]
mod tests {
    use super::{Shortfall, least};

    /// The shortfall after this many due ticks, one of them under way.
    fn of(due: u64, ran: u64, merged: u64) -> Shortfall {
        Shortfall::new(0, due, 1, (ran, merged))
    }

    #[test]
    fn a_tick_that_is_under_way_is_not_missing() {
        assert_eq!((of(100, 99, 0).not_run, of(100, 100, 0).not_run, of(0, 0, 0).not_run), (0, 0, 0));
        assert_eq!((of(100, 89, 10).not_run, of(100, 79, 10).not_run), (0, 10));
    }

    #[test]
    fn of_two_readings_the_smaller_counts() {
        // At the first reading an interrupt was late; by the second it had merged twenty ticks.
        let at_end = least(vec![of(100, 80, 0)], &[of(110, 89, 20)]);
        assert_eq!(at_end, [Shortfall { program: 0, due: 100, merged: 0, not_run: 0 }]);
        let lost = least(vec![of(100, 50, 0)], &[of(110, 60, 0)]);
        assert_eq!(lost.first().map(|lost| lost.not_run), Some(49));
    }
}
