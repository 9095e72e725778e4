//! `interval:UNIT:N`: periodically, on one CPU.

use crate::ast::AttachPoint;
use crate::catalogue::{Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::probes::listing;

/// `interval`.
#[derive(Debug)]
pub(super) struct Interval;

impl ProbeKind for Interval {
    word!("interval", "probes/interval");

    fn aliases(&self) -> &'static [&'static str] {
        &["i"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let Some(period_ns) = cx.period_ns(point, "interval:s:N") else { return Vec::new() };
        let name = super::point::full_name(self.name(), point);
        vec![Seed::new(name, "raw_tp".into(), ContextKind::Empty, Attach::Timer { period_ns })]
    }

    fn listing(&self) -> Listing {
        Listing::Always(|_, pattern| listing::select(&listing::RATES, pattern))
    }

    fn ends_with_rate(&self) -> bool {
        true
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::OWN_EVENT
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::needed("interval", "interval:ms:5", Trigger::Nothing, "")]
    }
}
