//! The registry of probe kinds: one line each, sorted by name.

use crate::catalogue::ProbeKind;

mod begin;
mod bench;
mod bpf_programs;
mod counted;
mod described;
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
mod listing;
mod modules;
mod nature;
mod point;
mod profile;
mod program_probes;
mod rawtracepoint;
mod self_signal;
mod software;
mod source_line;
mod syscall;
mod test;
mod tracepoint;
mod uprobe;
mod uretprobe;
mod usdt;
mod wall;
mod watchpoint;

/// All probe kinds.
pub(super) const ALL: &[&dyn ProbeKind] = &[
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
    &wall::Wall,
    &watchpoint::Watchpoint,
];

/// Probe kinds that are missing, sorted by name.
pub(super) const ABSENT: &[(&str, &str)] =
    &[("asyncwatchpoint", "bpftrace has removed them too; `watchpoint:ADDRESS:LENGTH:MODE` watches memory")];
