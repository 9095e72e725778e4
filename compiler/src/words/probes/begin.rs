//! `begin` (`BEGIN`): once, before all other probes are attached.

use crate::ast::AttachPoint;
use crate::catalogue::{Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::probes::listing;

/// `begin`.
#[derive(Debug)]
pub(super) struct Begin;

impl ProbeKind for Begin {
    word!("begin", "probes/begin");

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        match cx.parts::<0>(point, &point.kind.text) {
            Some([]) => vec![Seed::new(point.kind.text.clone(), "raw_tp".into(), ContextKind::Empty, Attach::Begin)],
            None => Vec::new(),
        }
    }

    fn listed_name(&self) -> &'static str {
        "BEGIN"
    }

    fn listing(&self) -> Listing {
        Listing::Always(|_, pattern| listing::select(&[""], pattern))
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::OWN_EVENT
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::needed("begin", "BEGIN", Trigger::Nothing, "")]
    }
}
