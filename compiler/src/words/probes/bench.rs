//! `bench:NAME`: again and again when benchmarks are asked for, to measure its code.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `bench`.
#[derive(Debug)]
pub struct Bench;

impl ProbeKind for Bench {
    fn name(&self) -> &'static str {
        "bench"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "bench:NAME",
            summary: "again and again under `--bench`, which tells how long one run takes",
            page: include_str!("../../../../spec/words/probes/bench.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let Some([name]) = cx.parts::<1>(point, "bench:NAME") else { return Vec::new() };
        let attach = Attach::Bench { name };
        vec![Seed::new(super::full_name(self.name(), point), "raw_tp".into(), ContextKind::Empty, attach)]
    }
}
