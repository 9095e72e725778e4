//! `iter:OBJECTS`: once for each kernel object of a kind, when the script starts.
//! `iter:OBJECTS:FILE`: whenever the file is read, which stays when profiler ends.

use crate::ast::AttachPoint;
use crate::btf::{Btf, BtfId, describe_in_c};
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, Reads, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::glob;
use crate::object::Attach;
use crate::similar;
use crate::target::{Target, TargetError};
use crate::typed::ContextKind;
use crate::words::probes::listing;

/// `iter`.
#[derive(Debug)]
pub(super) struct Iter;

/// Iterators that the kernel can limit to one process.
const OF_PROCESSES: [&str; 3] = ["task", "task_file", "task_vma"];
const OF_ONE_PROCESS_SINCE: (u32, u32) = (6, 1);

/// Iterators that need a parameter: by name, with what they need.
const WITHIN: [(&str, &str); 4] = [
    ("bpf_map_elem", "a map"),
    ("bpf_sk_storage_map", "a map"),
    ("sockmap", "a map"),
    ("cgroup", "a part of the tree of cgroups"),
];

impl ProbeKind for Iter {
    word!("iter", "probes/iter");

    fn aliases(&self) -> &'static [&'static str] {
        &["it"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let (objects, pin) = match point.parts.as_slice() {
            [objects] => (objects, None),
            [objects, file] if !file.text.is_empty() => (objects, Some(pinned_to(&file.text))),
            _ => {
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
        let Some(context) = btf.iterators().find(&objects.text) else {
            // Iterators differ in their `ctx`, so a pattern only lists candidates.
            let near = if glob::is_pattern(&objects.text) {
                btf.iterators().names().filter(|name| glob::matches(&objects.text, name)).map(str::to_owned).collect()
            } else {
                similar::nearest(&objects.text, btf.iterators().names(), 3)
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
        let is_of_processes = OF_PROCESSES.contains(&objects.text.as_str());
        let pids = if is_of_processes { cx.env.options.pids.clone() } else { Vec::new() };
        if let Some(pid) = pids.first().filter(|_| cx.env.target.kernel() < OF_ONE_PROCESS_SINCE) {
            let message = "this kernel cannot limit an iterator to one process; it can since Linux 6.1";
            let help = format!("leave `-p` out and write `/ctx.task.tgid == {pid}/`");
            cx.error(Diagnostic::error(Code(431), point.span, message).help(help));
            return Vec::new();
        }
        if pin.is_some() && pids.len() > 1 {
            let message = "an iterator can be pinned for one process only";
            let help = "leave `-p` out and compare `ctx.task.tgid` in a predicate";
            cx.error(Diagnostic::error(Code(431), point.span, message).help(help));
            return Vec::new();
        }
        let attach = Attach::Iterator { objects: objects.text.clone(), pids, pin };
        vec![seed(self.name(), &objects.text, context, attach, btf)]
    }

    fn listing(&self) -> Listing {
        Listing::Always(names)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        let Some(btf) = target.btf() else { return Vec::new() };
        let Some(iterator) = btf.iterators().find(name) else { return Vec::new() };
        btf.iterators()
            .fields(iterator)
            .into_iter()
            .map(|(name, ty)| format!("{} {name}", describe_in_c(btf, ty)))
            .collect()
    }

    fn reads(&self) -> Reads {
        Reads::Members("ctx")
    }

    fn nature(&self, _name: &str) -> Nature {
        Nature {
            what: "iterator over the kernel's current objects of a kind",
            lasts: "the name is stable; fields are those of this kernel version",
            way: "",
        }
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional(
            "task iterator",
            "iter:task / ctx.task.tgid == PID /",
            Trigger::Nothing,
            Advice::Text("needs BTF and a kernel since 5.8"),
        )]
    }
}

/// The whole path of the file; as in bpftrace, others are in the usual BPF file system.
fn pinned_to(file: &str) -> String {
    if file.starts_with('/') { file.to_owned() } else { format!("/sys/fs/bpf/{file}") }
}

fn seed(kind: &str, objects: &str, context: BtfId, attach: Attach, btf: &Btf) -> Seed {
    let mut seed = Seed::new(format!("{kind}:{objects}"), format!("iter/{objects}"), ContextKind::Iterator, attach);
    // The program runs in profiler's own thread, where other programs can preempt it.
    seed.context.preemptible = true;
    seed.context_struct = Some(context);
    seed.context.typed_words = btf.iterators().pointers(context);
    seed.no_args = "an iterator has `ctx` instead: `ctx.task.pid`";
    seed
}

/// Iterators of this kernel.
fn names(target: &dyn Target, rest: &str) -> Result<Vec<String>, TargetError> {
    let btf = listing::btf(target)?;
    if !glob::is_pattern(rest) && btf.iterators().find(rest).is_some() {
        return Ok(vec![rest.to_owned()]);
    }
    listing::choose(btf.iterators().names(), rest)
}
