//! `software:EVENT[:COUNT]`: every COUNT-th software event of the kernel's perf subsystem.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::typed::ContextKind;
use crate::words::probes::perf_seed;
use crate::words::{Doc, ProbeKind};

/// `software`.
#[derive(Debug)]
pub struct Software;

/// `PERF_TYPE_SOFTWARE`.
const KIND: u32 = 1;

/// Name, `PERF_COUNT_*`, and the count after which it fires when none is given; as in bpftrace.
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
    fn name(&self) -> &'static str {
        "software"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["s"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "software:EVENT[:COUNT]",
            summary: "every COUNT-th software event",
            page: include_str!("../../../../spec/words/probes/software.md"),
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
