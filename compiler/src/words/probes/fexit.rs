//! `fexit:FUNCTION`: the exit of a function of the kernel, with typed arguments and result.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::target::Target;
use crate::words::{Doc, ProbeKind};

use super::modules;

/// `fexit`.
#[derive(Debug)]
pub struct Fexit;

impl ProbeKind for Fexit {
    fn name(&self) -> &'static str {
        "fexit"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["fr", "kretfunc"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "fexit:[MODULE:]FUNCTION",
            summary: "the exit of a function of the kernel, with typed arguments and result",
            page: include_str!("../../../../spec/words/probes/fexit.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        super::fentry::expand(cx, point, self.name(), true)
    }

    fn kernel_modules(&self, target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        modules::of_functions(target, point)
    }
}
