//! `begin` (`BEGIN`): once, before all other probes are attached.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `begin`.
#[derive(Debug)]
pub struct Begin;

impl ProbeKind for Begin {
    fn name(&self) -> &'static str {
        "begin"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "begin",
            summary: "once, before all other probes are attached",
            page: include_str!("../../../../spec/words/probes/begin.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        match cx.parts::<0>(point, &point.kind.text) {
            Some([]) => vec![Seed::new(point.kind.text.clone(), "raw_tp".into(), ContextKind::Empty, Attach::Begin)],
            None => Vec::new(),
        }
    }
}
