//! `fn:FUNCTION`: the entry of a kernel or user function, by the best supported mechanism.

use std::collections::BTreeSet;

use super::kprobe::{self, FunctionPattern};
use super::{fentry, instead, modules, uprobe};
use crate::ast::AttachPoint;
use crate::catalogue::{DescribedProbe, Files, InFile, Listing, Nature, ProbeKind, SelfTest};
use crate::check::{Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::target::{ProgramType, Target};
use crate::words::probes::{listing, program_probes};

/// `fn`.
#[derive(Debug)]
pub(super) struct Fn;

impl ProbeKind for Fn {
    word!("fn", "probes/fn");

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        if point.parts.len() == 2 {
            return in_program(cx, point);
        }
        let Some(place) = FunctionPattern::of(cx, point, "fn:FUNCTION` or `fn:BINARY:FUNCTION") else {
            return Vec::new();
        };
        let probing = cx.env.target.function_probing();
        if let (Err(kprobe), Err(fentry)) = (&probing.kprobe, &probing.fentry) {
            let message = format!("functions of this kernel cannot be probed: {kprobe}, and {fentry}");
            let help = instead::help(cx, &place, false, None);
            cx.unsupported(point, Diagnostic::error(Code(410), point.span, message).help(help));
            return Vec::new();
        }
        let Some(found) = place.find(cx) else { return Vec::new() };
        let target = cx.env.target;
        let has_types = |btf| found.iter().all(|f| fentry::typed(btf, f, target.kernel()).is_ok());
        // A pattern takes one program and one attachment as a kprobe, but one per function as
        // fentry.
        let wants_fentry = !place.is_pattern() || cx.facts.uses("args");
        let is_one = place.is_pattern() || found.len() == 1;
        let takes_fentry = place.offset_bytes == 0
            && probing.fentry.is_ok()
            && (is_one || probing.kprobe.is_err())
            && (probing.kprobe.is_err() || wants_fentry && (place.is_pattern() || target.btf().is_some_and(has_types)));
        if takes_fentry {
            fentry::seeds(cx, self.name(), &place, &found, false)
        } else {
            kprobe::seeds(cx, self.name(), &place, &found, false)
        }
    }

    fn kernel_modules(&self, target: &dyn Target, point: &AttachPoint) -> Vec<String> {
        if point.parts.len() == 1 { modules::of_functions(target, point) } else { Vec::new() }
    }

    fn listing(&self) -> Listing {
        Listing::ByName(listing::probed_functions)
    }

    fn files(&self) -> Files {
        Files::Sometimes(InFile::Functions)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        listing::function_arguments(target, name, false)
    }

    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        listing::all_function_arguments(target, names, false)
    }

    fn described(&self, target: &dyn Target, name: &str, types: &BTreeSet<ProgramType>) -> Option<DescribedProbe> {
        program_probes::described(target, name, types, false)
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::kernel_function("a call patched into the function, or a breakpoint where that is not possible")
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        Vec::new()
    }
}

fn in_program(cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
    let mut seeds = uprobe::expand(cx, point, "uprobe", false);
    for name in seeds.iter_mut().flat_map(|seed| &mut seed.names) {
        if let Some(rest) = name.strip_prefix("uprobe:") {
            *name = format!("fn:{rest}");
        }
    }
    seeds
}
