//! `uretprobe:BINARY:FUNCTION`: the return of a function of a program or library.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::words::{Doc, ProbeKind};

/// `uretprobe`.
#[derive(Debug)]
pub struct Uretprobe;

impl ProbeKind for Uretprobe {
    fn name(&self) -> &'static str {
        "uretprobe"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["ur"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "uretprobe:BINARY:FUNCTION",
            summary: "the return of a function of a program or library",
            page: include_str!("../../../../spec/words/probes/uretprobe.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        super::uprobe::expand(cx, point, self.name(), true)
    }
}
