//! `fentry:bpf:[ID:]PROGRAM` and `fexit:bpf:[ID:]PROGRAM`: BPF programs that are loaded, and their
//! subprograms.
//!
//! In: an attach point whose first part is `bpf`. Out: a program per function that it matches.
//! Guarantee: nothing of the function's arguments and result is readable: the kernel types them
//! only for functions whose types it has verified, and does not say which these are.

use crate::ast::AttachPoint;
use crate::check::{PidFilter, Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::glob;
use crate::object::Attach;
use crate::similar;
use crate::target::{BpfFunction, Target, TargetError};
use crate::typed::ContextKind;

/// The first part of such an attach point.
pub(super) const BPF: &str = "bpf";

/// Limit of suggested similar names.
const NEAR_NAMES: usize = 3;

/// The programs of such an attach point; `None` for other attach points.
pub(super) fn expand(cx: &mut Points<'_, '_>, point: &AttachPoint, kind: &str, at_return: bool) -> Option<Vec<Seed>> {
    let (id, name) = match point.parts.as_slice() {
        [bpf, name] if bpf.text == BPF => ("*", name),
        [bpf, id, name] if bpf.text == BPF => (id.text.as_str(), name),
        _ => return None,
    };
    if let Err(reason) = cx.env.target.function_probing().fentry {
        let message = format!("`{kind}` probes do not work on this kernel: {reason}");
        let help = "`bpftool prog profile` counts the runs of a program";
        cx.unsupported(point, Diagnostic::error(Code(410), point.span, message).help(help));
        return Some(Vec::new());
    }
    let found = match cx.env.target.bpf_functions() {
        Ok(all) => matching(&all, id, &name.text),
        Err(error) => Err(error),
    };
    Some(match found {
        Ok(functions) => functions.iter().map(|function| seed((kind, at_return), function)).collect(),
        Err(error) => {
            cx.refused(name.span, &format!("BPF program `{}`", name.text), error);
            Vec::new()
        }
    })
}

fn matching(all: &[BpfFunction], id: &str, name: &str) -> Result<Vec<BpfFunction>, TargetError> {
    let fits = |function: &&BpfFunction| glob::matches(id, &function.program.to_string());
    let found: Vec<BpfFunction> =
        all.iter().filter(fits).filter(|function| glob::matches(name, &function.name)).cloned().collect();
    if found.is_empty() {
        return Err(TargetError::Missing {
            near: similar::nearest(name, all.iter().map(|function| function.name.as_str()), NEAR_NAMES),
        });
    }
    Ok(found)
}

fn seed((kind, at_return): (&str, bool), function: &BpfFunction) -> Seed {
    let BpfFunction { program, name } = function;
    let section = format!("{}/{name}", if at_return { "fexit" } else { "fentry" });
    let attach = Attach::Trampoline { function: name.clone(), at_return, program: Some(*program) };
    let shown = format!("{kind}:{BPF}:{program}:{name}");
    let mut seed = Seed::new(shown, section, ContextKind::RawTracepoint, attach);
    seed.functions = vec![name.clone()];
    seed.pid_filter = PidFilter::Option;
    seed.no_args = "the arguments of BPF programs cannot be read";
    seed
}

/// The functions that match `bpf:[ID:]NAME`, with their programs' ids; `None` for other patterns.
pub(super) fn listed(target: &dyn Target, rest: &str) -> Option<Result<Vec<String>, TargetError>> {
    let rest = rest.strip_prefix(BPF)?.strip_prefix(':')?;
    let (id, name) = rest.split_once(':').unwrap_or(("*", rest));
    let line = |function: &BpfFunction| format!("{BPF}:{}:{}", function.program, function.name);
    let found = target.bpf_functions().and_then(|all| matching(&all, id, name));
    Some(found.map(|functions| functions.iter().map(line).collect()))
}
