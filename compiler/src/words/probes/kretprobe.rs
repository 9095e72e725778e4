//! `kretprobe:FUNCTION`: the return of a function of the kernel.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::target::Target;
use crate::words::{Doc, ProbeKind};

use super::modules;

/// `kretprobe`.
#[derive(Debug)]
pub struct Kretprobe;

impl ProbeKind for Kretprobe {
    fn name(&self) -> &'static str {
        "kretprobe"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["kr"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "kretprobe:[MODULE:]FUNCTION",
            summary: "the return of a function of the kernel",
            page: include_str!("../../../../spec/words/probes/kretprobe.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        super::kprobe::expand(cx, point, self.name(), true)
    }

    fn kernel_modules(&self, _target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        modules::named(point)
    }
}
