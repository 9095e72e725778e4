//! What does the job of a probe in a kernel function, where the kernel has none.

use crate::btf::Kind;
use crate::check::Points;

use super::kprobe::Place;

/// Most names that are proposed.
const MAX_NAMES: usize = 3;

/// What the kernel's developers put before the name of what a function does.
const PREFIXES: [&str; 8] =
    ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_", "do_sys_", "sys_", "vfs_"];

/// Functions that scripts of bpftrace probe, and tracepoints in the same places under other names.
const SAME_PLACE: [(&str, &str, &str); 6] = [
    ("blk_account_io_start", "block", "block_io_start"),
    ("blk_account_io_done", "block", "block_io_done"),
    ("inet_csk_accept", "sock", "inet_sock_set_state"),
    ("oom_kill_process", "oom", "mark_victim"),
    ("tcp_connect", "sock", "inet_sock_set_state"),
    ("tcp_set_state", "sock", "inet_sock_set_state"),
];

/// A way of probing functions of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Through registers.
    Kprobe,
    /// Through a trampoline, with types.
    Fentry,
}

impl Mechanism {
    /// Its kind of probe at entries or returns.
    pub fn word(self, at_return: bool) -> &'static str {
        match (self, at_return) {
            (Mechanism::Kprobe, false) => "kprobe",
            (Mechanism::Kprobe, true) => "kretprobe",
            (Mechanism::Fentry, false) => "fentry",
            (Mechanism::Fentry, true) => "fexit",
        }
    }
}

/// Advice: the other way of probing the function when the kernel has one, and tracepoints with a name like its.
pub fn help(cx: &Points<'_, '_>, place: &Place<'_>, at_return: bool, other: Option<Mechanism>) -> String {
    let target = cx.env.target;
    let works = match other {
        None => false,
        Some(Mechanism::Kprobe) => target.kernel_functions(place.module, place.function).is_ok(),
        // The other way must know this very function.
        Some(Mechanism::Fentry) => target.btf().is_some_and(|btf| btf.find(Kind::Function, place.function).is_some()),
    };
    let mut names = Vec::new();
    if let Some(other) = other.filter(|_| works) {
        names.push(format!("{}:{}", other.word(at_return), place.function));
    }
    names.extend(tracepoints(cx, place.function, at_return));
    names.dedup();
    names.truncate(MAX_NAMES);
    if names.is_empty() {
        return "a tracepoint often sits in the same place: `profiler list 'tracepoint:*:*NAME*'`, `profiler list \
                'rawtracepoint:*NAME*'`"
            .to_string();
    }
    format!("this exists here: `{}`", names.join("`, `"))
}

/// What has become of `sys_read`, the name that functions of system calls had before Linux 4.17.
pub fn system_call(cx: &Points<'_, '_>, function: &str) -> Vec<String> {
    let Some(call) = function.strip_prefix("sys_") else { return Vec::new() };
    let target = cx.env.target;
    let exists = |event: &String| target.tracepoints("syscalls", event).is_ok_and(|found| !found.is_empty());
    let tracepoints = ["enter", "exit"].map(|side| format!("sys_{side}_{call}"));
    let mut names: Vec<String> =
        tracepoints.into_iter().filter(exists).map(|event| format!("tracepoint:syscalls:{event}")).collect();
    let functions = ["__x64_sys_", "__arm64_sys_"].map(|prefix| format!("{prefix}{call}"));
    names.extend(functions.into_iter().filter(|name| target.kernel_functions(None, name).is_ok()));
    names
}

/// Tracepoints that are called like a function: that of the system call first, then those that contain the words of its name.
fn tracepoints(cx: &Points<'_, '_>, function: &str, at_return: bool) -> Vec<String> {
    let prefix = PREFIXES.iter().find(|prefix| function.starts_with(**prefix));
    let core = prefix.map_or(function, |prefix| &function[prefix.len()..]).trim_matches(['_', '*']);
    if core.is_empty() {
        return Vec::new();
    }
    let target = cx.env.target;
    let find = |category: &str, event: &str, start: &str| {
        let mut found = target.tracepoints(category, event).unwrap_or_default();
        // Best is what begins like the function and has the least else in it.
        found.sort_by_key(|(_, event)| (!event.starts_with(start), event.len()));
        let names = found.into_iter().map(|(category, event)| format!("tracepoint:{category}:{event}"));
        names.take(MAX_NAMES).collect::<Vec<_>>()
    };
    if let Some((_, category, event)) = SAME_PLACE.iter().find(|(known, ..)| *known == core) {
        let names = find(category, event, event);
        if !names.is_empty() {
            return names;
        }
    }
    let side = if at_return { "exit" } else { "enter" };
    let mut names = find("syscalls", &format!("sys_{side}_{core}"), "");
    if prefix.is_some() && !names.is_empty() {
        return names;
    }
    names.extend(find("*", &format!("*{core}*"), core));
    // `tcp_retransmit_skb_now`, then `tcp_retransmit_skb`, `tcp_retransmit`; a single word says too little.
    let mut words = core;
    while names.is_empty()
        && let Some((shorter, _)) = words.rsplit_once('_').filter(|(shorter, _)| shorter.contains('_'))
    {
        words = shorter;
        names = find("*", &format!("{words}*"), words);
    }
    if names.is_empty() {
        // Some have no record in tracefs.
        let raw = target.btf().map(|btf| btf.raw_tracepoints_named(|name| name.contains(core))).unwrap_or_default();
        names.extend(raw.iter().map(|found| format!("rawtracepoint:{}", found.name)));
    }
    names
}
