//! `iter:OBJECTS`: once for each object of a kind that the kernel has when the script starts.

use crate::ast::AttachPoint;
use crate::btf::BtfId;
use crate::check::{Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::glob;
use crate::object::Attach;
use crate::similar;
use crate::target::TargetError;
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `iter`.
#[derive(Debug)]
pub struct Iter;

/// Iterators that the kernel can limit to one process, and since when.
const OF_PROCESSES: [&str; 3] = ["task", "task_file", "task_vma"];
const OF_ONE_PROCESS_SINCE: (u32, u32) = (6, 1);

/// Iterators that must be told where: by name, with what they need.
const WITHIN: [(&str, &str); 4] = [
    ("bpf_map_elem", "a map"),
    ("bpf_sk_storage_map", "a map"),
    ("sockmap", "a map"),
    ("cgroup", "a part of the tree of cgroups"),
];

impl ProbeKind for Iter {
    fn name(&self) -> &'static str {
        "iter"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["it"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "iter:OBJECTS",
            summary: "once for each object of a kind that the kernel has when the script starts",
            page: include_str!("../../../../spec/words/probes/iter.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let objects = match point.parts.as_slice() {
            [objects] => objects,
            [_, path, ..] => {
                let message = "an iterator cannot be pinned to a file";
                let help =
                    format!("write `{}:{}`; it runs when the script starts", point.kind.text, point.parts[0].text);
                cx.error(Diagnostic::error(Code(430), path.span, message).help(help));
                return Vec::new();
            }
            [] => {
                cx.wrong_form(point, "iter:task");
                return Vec::new();
            }
        };
        let what = format!("iterator `{}`", objects.text);
        let Some(btf) = cx.env.target.btf() else {
            let words = "iterators are described by the kernel's BTF, which cannot be read here".to_string();
            cx.refused(objects.span, &what, TargetError::Refused(words));
            return Vec::new();
        };
        let Some(context) = btf.iterator(&objects.text) else {
            // Each has a `ctx` of its own, so that a pattern only proposes them.
            let near = if glob::is_pattern(&objects.text) {
                btf.iterators().filter(|name| glob::matches(&objects.text, name)).map(str::to_owned).collect()
            } else {
                similar::nearest(&objects.text, btf.iterators(), 3)
            };
            cx.refused(objects.span, &what, TargetError::Missing { near });
            return Vec::new();
        };
        if let Some((name, whose)) = WITHIN.iter().find(|(name, _)| *name == objects.text) {
            let message = format!("`{name}` iterates over what is in {whose}, which a script cannot name");
            let help = "`iter:task`, `iter:task_file` and `iter:task_vma` need nothing more; `profiler list 'iter:*'`";
            cx.error(Diagnostic::error(Code(432), objects.span, message).help(help));
            return Vec::new();
        }
        let pid = cx.env.options.pid.filter(|_| OF_PROCESSES.contains(&objects.text.as_str()));
        if let Some(pid) = pid.filter(|_| cx.env.target.kernel() < OF_ONE_PROCESS_SINCE) {
            let message = "this kernel cannot limit an iterator to one process; it can since Linux 6.1";
            let help = format!("leave `-p` out and write `/ctx.task.tgid == {pid}/`");
            cx.error(Diagnostic::error(Code(431), point.span, message).help(help));
            return Vec::new();
        }
        vec![seed(self.name(), &objects.text, context, pid)]
    }
}

fn seed(kind: &str, objects: &str, context: BtfId, pid: Option<u32>) -> Seed {
    let attach = Attach::Iterator { objects: objects.to_string(), pid };
    let mut seed = Seed::new(format!("{kind}:{objects}"), format!("iter/{objects}"), ContextKind::Iterator, attach);
    // It runs in profiler's own thread, in the middle of which other programs may run.
    seed.context.preemptible = true;
    seed.context_struct = Some(context);
    seed.no_args = "an iterator has `ctx` instead: `ctx.task.pid`";
    seed
}
