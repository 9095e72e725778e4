//! `hardware:EVENT[:COUNT]`: every COUNT-th hardware event of the kernel's perf subsystem.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::typed::ContextKind;
use crate::words::probes::perf_seed;
use crate::words::{Doc, ProbeKind};

/// `hardware`.
#[derive(Debug)]
pub struct Hardware;

/// `PERF_TYPE_HARDWARE`.
const KIND: u32 = 0;

/// Name, `PERF_COUNT_*`, and the count after which it fires when none is given; as in bpftrace.
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
    fn name(&self) -> &'static str {
        "hardware"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["h"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "hardware:EVENT[:COUNT]",
            summary: "every COUNT-th hardware event",
            page: include_str!("../../../../spec/words/probes/hardware.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let attach = perf_seed(cx, point, KIND, EVENTS);
        let name = super::full_name(self.name(), point);
        attach.into_iter().map(|attach| seed(name.clone(), attach)).collect()
    }
}

fn seed(name: String, attach: crate::object::Attach) -> Seed {
    let mut seed = Seed::new(name, "perf_event".into(), ContextKind::PerfEvent, attach);
    seed.filter_pid = true;
    seed
}
