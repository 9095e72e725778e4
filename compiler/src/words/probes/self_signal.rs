//! `self:signal:SIGUSR1`: each time profiler itself receives the signal.

use crate::ast::AttachPoint;
use crate::catalogue::{Listing, Nature, ProbeKind, SelfTest};
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::probes::listing;

/// `self`.
#[derive(Debug)]
pub(super) struct SelfSignal;

impl ProbeKind for SelfSignal {
    word!("self", "probes/self");

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        match point.parts.as_slice() {
            [what, signal] if what.text == "signal" && signal.text == "SIGUSR1" => {
                let name = super::point::full_name(self.name(), point);
                vec![Seed::new(name, "raw_tp".into(), ContextKind::Empty, Attach::Signal)]
            }
            _ => {
                cx.wrong_form(point, "self:signal:SIGUSR1");
                Vec::new()
            }
        }
    }

    fn listing(&self) -> Listing {
        Listing::Always(|_, pattern| listing::select(&["signal:SIGUSR1"], pattern))
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::OWN_EVENT
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        Vec::new()
    }
}
