//! Which processes will probably take the first stacks.
//!
//! In: `/proc`. Out: process ids, the busiest first.
//! Guarantee: at most [`MAX_BUSY`]. Idle processes are not among them, so nothing is done for them.

use std::cmp::Reverse;
use std::fs;

use crate::host::stat::{MEMORY_BYTES, STARTED_TICKS, SYSTEM_TICKS, Stat, USER_TICKS};
use crate::sys::poll::boot_clock_ns;
use crate::sys::process::ticks_per_second;

/// Limit of processes that are prepared.
const MAX_BUSY: usize = 64;
/// CPU time from which a process counts, in seconds; or its share of its life, in percent.
const MIN_CPU_S: u64 = 1;
const MIN_SHARE_PERCENT: u64 = 1;

/// The busy processes, except for this one and the kernel's threads.
pub(super) fn busiest() -> Vec<u32> {
    let second = ticks_per_second();
    let now_ticks = boot_clock_ns() / (1_000_000_000 / second);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = std::process::id();
    let busy = pids.filter(|pid| *pid != own).filter_map(|pid| Some((rank(&Stat::of(pid)?, now_ticks, second)?, pid)));
    let mut busy: Vec<_> = busy.collect();
    busy.sort_unstable_by_key(|(rank, pid)| (Reverse(*rank), *pid));
    busy.into_iter().take(MAX_BUSY).map(|(_, pid)| pid).collect()
}

/// Whether it runs now, and its share of a CPU in its life, in thousandths; `None` if it is idle.
fn rank(stat: &Stat, now_ticks: u64, second: u64) -> Option<(bool, u64)> {
    stat.number(MEMORY_BYTES).filter(|bytes| *bytes > 0)?;
    let cpu_ticks = stat.number(USER_TICKS)?.saturating_add(stat.number(SYSTEM_TICKS)?);
    let life_ticks = now_ticks.saturating_sub(stat.number(STARTED_TICKS)?).max(1);
    let share = cpu_ticks.saturating_mul(1000) / life_ticks;
    let is_busy = stat.is_running() || cpu_ticks >= MIN_CPU_S * second || share >= MIN_SHARE_PERCENT * 10;
    is_busy.then_some((stat.is_running(), share))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State, CPU time in user space and in the kernel, start, memory.
    fn ranked(state: char, [user, system, started, memory]: [u64; 4]) -> Option<(bool, u64)> {
        let mut fields = vec!["0".to_owned(); 50];
        for (field, number) in
            [(USER_TICKS, user), (SYSTEM_TICKS, system), (STARTED_TICKS, started), (MEMORY_BYTES, memory)]
        {
            fields[field - 4] = number.to_string();
        }
        rank(&Stat::parsed(&format!("7 (a) b) {state} {}\n", fields.join(" ")))?, 10_000, 100)
    }

    #[test]
    fn busy_is_who_runs_or_has_run_for_long() {
        assert_eq!(ranked('R', [0, 0, 0, 1]), Some((true, 0)));
        assert_eq!(ranked('S', [60, 40, 0, 1]), Some((false, 10)));
        assert_eq!(ranked('S', [6, 4, 9000, 1]), Some((false, 10)));
        assert_eq!(ranked('S', [50, 0, 0, 1]), None, "half a second in 100");
        assert_eq!(ranked('R', [500, 0, 0, 0]), None, "a thread of the kernel");
    }

    #[test]
    fn who_computes_is_found() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        while !busiest().contains(&child.id()) {
            std::thread::yield_now();
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(!busiest().contains(&std::process::id()));
    }
}
