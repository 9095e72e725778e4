//! `software:EVENT[:COUNT]`: every COUNT-th software event of the kernel's perf subsystem.

use crate::ast::AttachPoint;
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::words::probes::counted::perf_seeds;

/// `software`.
#[derive(Debug)]
pub(super) struct Software;

/// `PERF_TYPE_SOFTWARE`.
const KIND: u32 = 1;

/// Name, `PERF_COUNT_*` constant, and the default count, as in bpftrace.
const EVENTS: &[(&str, u64, u64)] = &[
    ("alignment-faults", 7, 1),
    ("bpf-output", 10, 1),
    ("context-switches", 3, 1000),
    ("cs", 3, 1000),
    ("cpu-clock", 0, 1_000_000),
    ("cpu", 0, 1_000_000),
    ("cpu-migrations", 4, 1),
    ("dummy", 9, 1),
    ("emulation-faults", 8, 1),
    ("major-faults", 6, 1),
    ("minor-faults", 5, 100),
    ("page-faults", 2, 100),
    ("faults", 2, 100),
    ("task-clock", 1, 1),
];

impl ProbeKind for Software {
    word!("software", "probes/software");

    fn aliases(&self) -> &'static [&'static str] {
        &["s"]
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
            "software event",
            "software:page-faults:1 / pid == PID /",
            Trigger::Touch,
            Advice::Text(""),
        )]
    }
}
