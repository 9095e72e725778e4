//! `hardware:EVENT[:COUNT]`: every COUNT-th hardware event of the kernel's perf subsystem.

use crate::ast::AttachPoint;
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::words::probes::counted::perf_seeds;

/// `hardware`.
#[derive(Debug)]
pub(super) struct Hardware;

/// `PERF_TYPE_HARDWARE`.
const KIND: u32 = 0;

/// Name, `PERF_COUNT_*` constant, and the default count, as in bpftrace.
const EVENTS: &[(&str, u64, u64)] = &[
    ("backend-stalls", 8, 1_000_000),
    ("branch-instructions", 4, 100_000),
    ("branches", 4, 100_000),
    ("branch-misses", 5, 100_000),
    ("bus-cycles", 6, 100_000),
    ("cache-misses", 3, 1_000_000),
    ("cache-references", 2, 1_000_000),
    ("cpu-cycles", 0, 1_000_000),
    ("cycles", 0, 1_000_000),
    ("frontend-stalls", 7, 1_000_000),
    ("instructions", 1, 1_000_000),
    ("ref-cycles", 9, 1_000_000),
];

impl ProbeKind for Hardware {
    word!("hardware", "probes/hardware");

    fn aliases(&self) -> &'static [&'static str] {
        &["h"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        perf_seeds(self, cx, point, KIND, EVENTS)
    }

    fn listing(&self) -> Listing {
        Listing::Always(|_, pattern| super::counted::events(EVENTS, pattern))
    }

    fn ends_with_rate(&self) -> bool {
        true
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::COUNTED_EVENT
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional(
            "hardware event",
            "hardware:cpu-cycles:100000 / pid == PID /",
            Trigger::Compute,
            Advice::Text("virtual machines often have no counters; `profile:hz:99` samples by the clock"),
        )]
    }
}
