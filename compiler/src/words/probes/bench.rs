//! `bench:NAME`: repeatedly, if benchmarks are requested, to measure its code.

use crate::ast::AttachPoint;
use crate::catalogue::{Listing, Nature, ProbeKind, SelfTest};
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;

/// `bench`.
#[derive(Debug)]
pub(super) struct Bench;

impl ProbeKind for Bench {
    word!("bench", "probes/bench");

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let Some([name]) = cx.parts::<1>(point, "bench:NAME") else { return Vec::new() };
        let attach = Attach::Bench { name };
        vec![Seed::new(super::point::full_name(self.name(), point), "raw_tp".into(), ContextKind::Empty, attach)]
    }

    fn listing(&self) -> Listing {
        Listing::Form
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::OWN_EVENT
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        Vec::new()
    }
}
