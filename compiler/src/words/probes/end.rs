//! `end` (`END`): once, after all other probes have stopped.

use crate::ast::AttachPoint;
use crate::catalogue::{Listing, Nature, ProbeKind, SelfTest};
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::probes::listing;

/// `end`.
#[derive(Debug)]
pub(super) struct End;

impl ProbeKind for End {
    word!("end", "probes/end");

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        match cx.parts::<0>(point, &point.kind.text) {
            Some([]) => vec![Seed::new(point.kind.text.clone(), "raw_tp".into(), ContextKind::Empty, Attach::End)],
            None => Vec::new(),
        }
    }

    fn listed_name(&self) -> &'static str {
        "END"
    }

    fn listing(&self) -> Listing {
        Listing::Always(|_, pattern| listing::select(&[""], pattern))
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::OWN_EVENT
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        Vec::new()
    }
}
