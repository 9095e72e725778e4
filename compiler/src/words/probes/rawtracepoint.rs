//! `rawtracepoint:EVENT`: a tracepoint with the arguments that the kernel passes to it.

use std::collections::{HashMap, HashSet};

use crate::ast::AttachPoint;
use crate::btf::{self, Btf};
use crate::catalogue::{Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{ArgField, PidFilter, Points, Seed};
use crate::glob;
use crate::object::Attach;
use crate::similar;
use crate::target::{Target, TargetError};
use crate::typed::{ContextKind, ExprKind};
use crate::words::probes::listing;

/// `rawtracepoint`.
#[derive(Debug)]
pub(super) struct RawTracepoint;

impl ProbeKind for RawTracepoint {
    word!("rawtracepoint", "probes/rawtracepoint");

    fn aliases(&self) -> &'static [&'static str] {
        &["rt"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        // Event names are unique in the kernel; the kernel's BTF lacks those of modules.
        let ([event] | [_, event]) = point.parts.as_slice() else {
            cx.wrong_form(point, "rawtracepoint:EVENT");
            return Vec::new();
        };
        let Some(btf) = cx.env.target.btf() else {
            let words = "raw tracepoints are described by the kernel's BTF, which cannot be read here".to_string();
            cx.refused(event.span, &format!("raw tracepoint `{}`", event.text), TargetError::Refused(words));
            return Vec::new();
        };
        if let [module, _] = point.parts.as_slice()
            && !glob::matches(&module.text, "vmlinux")
        {
            let what = format!("raw tracepoint `{}` of the module `{}`", event.text, module.text);
            cx.refused(point.span, &what, TargetError::Missing { near: Vec::new() });
            return Vec::new();
        }
        let found: Vec<btf::RawTracepoint<'_>> = if glob::is_pattern(&event.text) {
            btf.raw_tracepoints().named(|name| glob::matches(&event.text, name))
        } else {
            btf.raw_tracepoints().find(&event.text).into_iter().collect()
        };
        if found.is_empty() {
            let all = || btf.raw_tracepoints().all().map(|tracepoint| tracepoint.name);
            let near = if cx.only_asks { Vec::new() } else { similar::nearest(&event.text, all(), 3) };
            cx.refused(event.span, &format!("raw tracepoint `{}`", event.text), TargetError::Missing { near });
            return Vec::new();
        }
        found.iter().map(|tracepoint| seed(self.name(), tracepoint, btf)).collect()
    }

    fn listing(&self) -> Listing {
        Listing::Always(names)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        let Some(btf) = target.btf() else { return Vec::new() };
        btf.raw_tracepoints().find(name).map_or_else(Vec::new, |tracepoint| listing::parameters(btf, &tracepoint.args))
    }

    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        let [several @ .., _] = names else { return Vec::new() };
        if several.is_empty() {
            return names.iter().map(|name| self.arguments(target, name)).collect();
        }
        // A search for each would read all types as often.
        let Some(btf) = target.btf() else { return vec![Vec::new(); names.len()] };
        let wanted: HashSet<&str> = names.iter().copied().collect();
        let found = btf.raw_tracepoints().named(|name| wanted.contains(name));
        let found: HashMap<&str, Vec<String>> =
            found.iter().map(|tracepoint| (tracepoint.name, listing::parameters(btf, &tracepoint.args))).collect();
        names.iter().map(|name| found.get(name).cloned().unwrap_or_default()).collect()
    }

    fn nature(&self, _name: &str) -> Nature {
        Nature {
            what: "tracepoint with the kernel's own arguments",
            lasts: "the name rarely changes; the structs passed to it change between kernel versions",
            way: "about 20 ns before the block",
        }
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::needed("rawtracepoint", "rawtracepoint:sched_switch / pid == PID /", Trigger::Sleep, "")]
    }
}

fn seed(kind: &str, tracepoint: &btf::RawTracepoint<'_>, btf: &Btf) -> Seed {
    let name = tracepoint.name;
    let attach = Attach::RawTracepoint { names: vec![name.to_string()] };
    let section = format!("raw_tp/{name}");
    let mut seed = Seed::new(format!("{kind}:{name}"), section, ContextKind::RawTracepoint, attach);
    seed.raw_args = true;
    seed.pid_filter = PidFilter::Option;
    seed.args = tracepoint
        .args
        .iter()
        .enumerate()
        .map(|(index, arg)| ArgField {
            name: arg.name.to_string(),
            kind: ExprKind::ContextArg(index as u32),
            ty: btf.to_type(arg.ty),
        })
        .collect();
    seed
}

/// Tracepoints whose arguments the kernel describes.
fn names(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    let btf = listing::btf(target)?;
    if !glob::is_pattern(rest) && btf.raw_tracepoints().find(rest).is_some() {
        return Ok(vec![rest.to_owned()]);
    }
    listing::choose(btf.raw_tracepoints().all().map(|tracepoint| tracepoint.name), rest)
}
