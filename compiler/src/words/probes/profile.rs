//! `profile:hz:N`: so many times a second on every CPU.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `profile`.
#[derive(Debug)]
pub struct Profile;

/// `PERF_TYPE_SOFTWARE` and its `PERF_COUNT_SW_CPU_CLOCK`.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;

impl ProbeKind for Profile {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["p"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "profile:hz:N, profile:ms:N",
            summary: "so many times a second on every CPU",
            page: include_str!("../../../../spec/words/probes/profile.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let Some(rate) = cx.rate(point, "profile:hz:N") else { return Vec::new() };
        let attach = Attach::PerfEvent { kind: SOFTWARE, config: CPU_CLOCK, rate, pid: None };
        let name = super::full_name(self.name(), point);
        let mut seed = Seed::new(name, "perf_event".into(), ContextKind::PerfEvent, attach);
        seed.filter_pid = true;
        vec![seed]
    }
}
