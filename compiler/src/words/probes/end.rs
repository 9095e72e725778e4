//! `end` (`END`): once, after all other probes are detached.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `end`.
#[derive(Debug)]
pub struct End;

impl ProbeKind for End {
    fn name(&self) -> &'static str {
        "end"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "end",
            summary: "once, after all other probes are detached",
            page: include_str!("../../../../spec/words/probes/end.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        match cx.parts::<0>(point, &point.kind.text) {
            Some([]) => vec![Seed::new(point.kind.text.clone(), "raw_tp".into(), ContextKind::Empty, Attach::End)],
            None => Vec::new(),
        }
    }
}
