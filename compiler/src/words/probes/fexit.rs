//! `fexit:FUNCTION`: the exit of a kernel function, with typed arguments and result.

use super::modules;
use crate::ast::AttachPoint;
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::target::Target;
use crate::words::probes::listing;

/// `fexit`.
#[derive(Debug)]
pub(super) struct Fexit;

impl ProbeKind for Fexit {
    word!("fexit", "probes/fexit");

    fn aliases(&self) -> &'static [&'static str] {
        &["fr", "kretfunc"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        super::fentry::expand(cx, point, self.name(), true)
    }

    fn kernel_modules(&self, target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        modules::of_functions(target, point)
    }

    fn listing(&self) -> Listing {
        Listing::ByName(listing::functions)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        listing::function_arguments(target, name, true)
    }

    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        listing::all_function_arguments(target, names, true)
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::kernel_function("a call patched into the function: the cheapest kind of function probe")
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional("fexit", "fexit:vfs_read / pid == PID /", Trigger::Read, Advice::OtherFunctionProbes)]
    }
}
