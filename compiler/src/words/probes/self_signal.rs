//! `self:signal:SIGUSR1`: each time that profiler itself gets the signal.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `self`.
#[derive(Debug)]
pub struct SelfSignal;

impl ProbeKind for SelfSignal {
    fn name(&self) -> &'static str {
        "self"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "self:signal:SIGUSR1",
            summary: "each time that profiler itself gets the signal",
            page: include_str!("../../../../spec/words/probes/self.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        match point.parts.as_slice() {
            [what, signal] if what.text == "signal" && signal.text == "SIGUSR1" => {
                let name = super::full_name(self.name(), point);
                vec![Seed::new(name, "raw_tp".into(), ContextKind::Empty, Attach::Signal)]
            }
            _ => {
                cx.wrong_form(point, "self:signal:SIGUSR1");
                Vec::new()
            }
        }
    }
}
