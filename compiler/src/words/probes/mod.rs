//! The registry of probe kinds: one line each, sorted by name.

use super::ProbeKind;

mod begin;
mod bench;
mod end;
mod fentry;
mod fexit;
mod r#fn;
mod hardware;
mod instead;
mod interval;
mod iter;
mod kprobe;
mod kretprobe;
mod modules;
mod profile;
mod rawtracepoint;
mod self_signal;
mod software;
mod syscall;
mod test;
mod tracepoint;
mod uprobe;
mod uretprobe;
mod usdt;
mod watchpoint;

/// All probe kinds.
pub const ALL: &[&dyn ProbeKind] = &[
    &begin::Begin,
    &bench::Bench,
    &end::End,
    &fentry::Fentry,
    &fexit::Fexit,
    &r#fn::Fn,
    &hardware::Hardware,
    &interval::Interval,
    &iter::Iter,
    &kprobe::Kprobe,
    &kretprobe::Kretprobe,
    &profile::Profile,
    &rawtracepoint::RawTracepoint,
    &self_signal::SelfSignal,
    &software::Software,
    &test::Test,
    &tracepoint::Tracepoint,
    &uprobe::Uprobe,
    &uretprobe::Uretprobe,
    &usdt::Usdt,
    &watchpoint::Watchpoint,
];

/// Kinds that are missing, sorted by name.
pub const ABSENT: &[(&str, &str)] =
    &[("asyncwatchpoint", "bpftrace has removed them too; `watchpoint:ADDRESS:LENGTH:MODE` watches memory")];

/// A probe's name with its kind in full: `interval:s:1`.
fn full_name(kind: &str, point: &crate::ast::AttachPoint) -> String {
    let parts = point.parts.iter().map(|p| p.text.as_str());
    std::iter::once(kind).chain(parts).collect::<Vec<_>>().join(":")
}

/// A number as the language writes whole ones: `1000`, `1_000`, `1e3`.
fn whole_number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    let (digits, zeros) = text.split_once('e').unwrap_or((&text, "0"));
    digits.parse::<u64>().ok()?.checked_mul(10u64.checked_pow(zeros.parse().ok()?)?)
}

/// The attachment of a counted perf event, from a table of (name, number, default count).
fn perf_seed(
    cx: &mut crate::check::Points<'_, '_>,
    point: &crate::ast::AttachPoint,
    kind: u32,
    events: &[(&str, u64, u64)],
) -> Option<crate::object::Attach> {
    let form = format!("{}:EVENT:COUNT", point.kind.text);
    let (event, count) = match point.parts.as_slice() {
        [event] => (event, None),
        [event, count] => match whole_number(&count.text) {
            Some(count) if count > 0 => (event, Some(count)),
            _ => {
                cx.wrong_form(point, &form);
                return None;
            }
        },
        _ => {
            cx.wrong_form(point, &form);
            return None;
        }
    };
    let Some((_, config, default)) = events.iter().find(|(name, _, _)| *name == event.text) else {
        let near = crate::similar::nearest(&event.text, events.iter().map(|(name, _, _)| *name), 3);
        cx.refused(event.span, &format!("event `{}`", event.text), crate::target::TargetError::Missing { near });
        return None;
    };
    let rate = crate::object::Rate::Period(count.unwrap_or(*default));
    Some(crate::object::Attach::PerfEvent { kind, config: *config, rate, pid: None })
}
