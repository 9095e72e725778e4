//! `test:NAME`: once, if tests are requested, with a verdict.

use crate::ast::AttachPoint;
use crate::catalogue::{Listing, Nature, ProbeKind, SelfTest};
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;

/// `test`.
#[derive(Debug)]
pub(super) struct Test;

impl ProbeKind for Test {
    word!("test", "probes/test");

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let Some([name]) = cx.parts::<1>(point, "test:NAME") else { return Vec::new() };
        let attach = Attach::Test { name };
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
