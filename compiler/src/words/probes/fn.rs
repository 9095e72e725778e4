//! `fn:FUNCTION`: the entry of a function of the kernel or of a program, in the best way that the machine has.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::target::Target;
use crate::words::{Doc, ProbeKind};

use super::kprobe::Place;
use super::{fentry, instead, kprobe, modules, uprobe};

/// `fn`.
#[derive(Debug)]
pub struct Fn;

impl ProbeKind for Fn {
    fn name(&self) -> &'static str {
        "fn"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "fn:[BINARY:]FUNCTION",
            summary: "the entry of a function of the kernel or of a program, in the best way that this machine has",
            page: include_str!("../../../../spec/words/probes/fn.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        if point.parts.len() == 2 {
            return in_program(cx, point);
        }
        let Some(place) = Place::of(cx, point, "fn:FUNCTION` or `fn:BINARY:FUNCTION") else { return Vec::new() };
        let probing = cx.env.target.function_probing();
        if let (Err(kprobe), Err(fentry)) = (&probing.kprobe, &probing.fentry) {
            let message = format!("functions of this kernel cannot be probed: {kprobe}, and {fentry}");
            let help = instead::help(cx, &place, false, None);
            cx.error(Diagnostic::error(Code(410), point.span, message).help(help));
            return Vec::new();
        }
        let Some(found) = place.find(cx) else { return Vec::new() };
        let target = cx.env.target;
        let has_types = |btf| found.iter().all(|f| fentry::typed(btf, f, target.kernel()).is_ok());
        // A pattern is one program and one attachment as a kprobe, and one for each function as fentry.
        let wants_fentry = !place.is_pattern() || cx.facts.uses("args");
        let takes_fentry = place.offset_bytes == 0
            && probing.fentry.is_ok()
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
