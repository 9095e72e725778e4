//! `kretprobe:FUNCTION`: the return of a kernel function.

use super::modules;
use crate::ast::AttachPoint;
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, Reads, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::target::Target;
use crate::words::probes::listing;

/// `kretprobe`.
#[derive(Debug)]
pub(super) struct Kretprobe;

impl ProbeKind for Kretprobe {
    word!("kretprobe", "probes/kretprobe");

    fn aliases(&self) -> &'static [&'static str] {
        &["kr"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        super::kprobe::expand(cx, point, self.name(), true)
    }

    fn stand_in(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Option<Seed> {
        super::kprobe::stand_in(cx, point, self.name(), true)
    }

    fn kernel_modules(&self, _target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        modules::named(point)
    }

    fn listing(&self) -> Listing {
        Listing::ByName(super::kprobe::names)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        listing::function_arguments(target, name, true)
    }

    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        listing::all_function_arguments(target, names, true)
    }

    fn reads(&self) -> Reads {
        Reads::Text("retval: return value, as an integer; `fexit` has the arguments as well")
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::kernel_function("a call patched into the function, or a breakpoint where that is not possible")
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional(
            "kretprobe",
            "kretprobe:vfs_read / pid == PID /",
            Trigger::Read,
            Advice::OtherFunctionProbes,
        )]
    }
}
