//! `test:NAME`: once when tests are asked for, with a verdict.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::object::Attach;
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `test`.
#[derive(Debug)]
pub struct Test;

impl ProbeKind for Test {
    fn name(&self) -> &'static str {
        "test"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "test:NAME",
            summary: "once under `--test`, which tells whether it passed",
            page: include_str!("../../../../spec/words/probes/test.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let Some([name]) = cx.parts::<1>(point, "test:NAME") else { return Vec::new() };
        let attach = Attach::Test { name };
        vec![Seed::new(super::full_name(self.name(), point), "raw_tp".into(), ContextKind::Empty, attach)]
    }
}
