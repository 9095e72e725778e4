//! Test timeouts that adapt to the speed of the machine.
//!
//! In: the timeout on an idle machine, and the kernel's CPU accounting of this thread. Out:
//! [`Limit`], [`slowness`].
//! Guarantee: a limit advances only as fast as this process gets CPU time. If other programs leave
//! a thread a tenth of a processor, ten seconds count as one.

#![allow(dead_code, reason = "each suite uses a part")]

use std::fs;
use std::time::{Duration, Instant};

/// Processor time of one speed measurement.
const WORK: Duration = Duration::from_millis(20);
/// Interval between measurements while a limit runs.
const ROUND: Duration = Duration::from_secs(1);

/// How many times slower this machine is than real hardware: `PROFILER_PATIENCE=N`, set for
/// emulated machines.
pub fn patience() -> u32 {
    std::env::var("PROFILER_PATIENCE").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Wall time divided by processor time of a busy thread, measured now; at least 1.
pub fn slowness() -> f64 {
    let (start, Some(before)) = (Instant::now(), processor_time()) else { return 1.0 };
    loop {
        let got = processor_time().unwrap_or(before + WORK).saturating_sub(before);
        if got >= WORK {
            return (start.elapsed().as_secs_f64() / got.as_secs_f64()).max(1.0);
        }
    }
}

/// The processor time of this thread; `None` if the kernel does not account for it.
fn processor_time() -> Option<Duration> {
    let account = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    account.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// A timeout after which a test counts as hung.
#[derive(Debug)]
pub struct Limit {
    left: Duration,
    since: Instant,
}

impl Limit {
    /// A limit that is this long on an idle machine.
    pub fn of(quiet: Duration) -> Limit {
        Limit { left: quiet * patience(), since: Instant::now() }
    }

    /// Whether time is left.
    pub fn lasts(&mut self) -> bool {
        let elapsed = self.since.elapsed();
        if elapsed >= ROUND {
            self.spend(elapsed, slowness());
            self.since = Instant::now();
        }
        !self.left.is_zero()
    }

    fn spend(&mut self, elapsed: Duration, slowness: f64) {
        self.left = self.left.saturating_sub(elapsed.div_f64(slowness));
    }
}

#[test]
fn a_limit_runs_as_fast_as_the_machine_works() {
    let ten = Duration::from_secs(10);
    let mut busy = Limit { left: ten, since: Instant::now() };
    busy.spend(Duration::from_secs(60), 10.0);
    assert_eq!(busy.left, Duration::from_secs(4));
    busy.spend(Duration::from_secs(4), 1.0);
    assert!(!busy.lasts(), "{busy:?}");
    assert!(slowness() >= 1.0);
}
