//! `rawtracepoint:EVENT`: a tracepoint with the arguments that the kernel passes to it.

use crate::ast::AttachPoint;
use crate::btf::{self, Btf};
use crate::check::{ArgField, Points, Seed};
use crate::glob;
use crate::object::Attach;
use crate::similar;
use crate::target::TargetError;
use crate::typed::{ContextKind, ExprKind};
use crate::words::{Doc, ProbeKind};

/// `rawtracepoint`.
#[derive(Debug)]
pub struct RawTracepoint;

impl ProbeKind for RawTracepoint {
    fn name(&self) -> &'static str {
        "rawtracepoint"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["rt"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "rawtracepoint:EVENT",
            summary: "a tracepoint with the arguments that the kernel passes to it",
            page: include_str!("../../../../spec/words/probes/rawtracepoint.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        // Event names are unique in the kernel; those of modules are not in its BTF.
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
            btf.raw_tracepoints_named(|name| glob::matches(&event.text, name))
        } else {
            btf.raw_tracepoint(&event.text).into_iter().collect()
        };
        if found.is_empty() {
            let near = similar::nearest(&event.text, btf.raw_tracepoints().map(|t| t.name), 3);
            cx.refused(event.span, &format!("raw tracepoint `{}`", event.text), TargetError::Missing { near });
            return Vec::new();
        }
        found.iter().map(|tracepoint| seed(self.name(), tracepoint, btf)).collect()
    }
}

fn seed(kind: &str, tracepoint: &btf::RawTracepoint<'_>, btf: &Btf) -> Seed {
    let name = tracepoint.name;
    let attach = Attach::RawTracepoint { names: vec![name.to_string()] };
    let section = format!("raw_tp/{name}");
    let mut seed = Seed::new(format!("{kind}:{name}"), section, ContextKind::RawTracepoint, attach);
    seed.raw_args = true;
    seed.filter_pid = true;
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
