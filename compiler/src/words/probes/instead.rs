//! Suggests alternatives to a probe of a kernel function that does not exist or cannot be probed.

use crate::btf::Kind;
use crate::check::Points;

use super::kprobe::FunctionPattern;

/// Maximum number of suggested names.
const MAX_NAMES: usize = 3;

/// Prefixes that kernel functions have before the name of the operation.
const PREFIXES: [&str; 8] =
    ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_", "do_sys_", "sys_", "vfs_"];

/// Functions that bpftrace scripts probe, and tracepoints at the same places under other names.
const SAME_PLACE: [(&str, &str, &str); 6] = [
    ("blk_account_io_start", "block", "block_io_start"),
    ("blk_account_io_done", "block", "block_io_done"),
    ("inet_csk_accept", "sock", "inet_sock_set_state"),
    ("oom_kill_process", "oom", "mark_victim"),
    ("tcp_connect", "sock", "inet_sock_set_state"),
    ("tcp_set_state", "sock", "inet_sock_set_state"),
];

/// Functions that several system calls reach; only some of those calls have a similar name.
const CALLED_BY: [(&str, &[&str]); 5] = [
    ("do_sys_open", &["openat", "open", "openat2"]),
    ("do_sys_openat2", &["openat", "open", "openat2"]),
    ("do_sys_poll", &["poll", "ppoll"]),
    ("do_sys_settimeofday64", &["settimeofday", "clock_settime"]),
    ("vfs_open", &["openat", "open", "openat2"]),
];

/// A mechanism for probing kernel functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// A kprobe, which provides registers.
    Kprobe,
    /// A trampoline, which provides typed arguments.
    Fentry,
}

impl Mechanism {
    /// The probe kind for entries or returns.
    pub(super) fn word(self, at_return: bool) -> &'static str {
        match (self, at_return) {
            (Mechanism::Kprobe, false) => "kprobe",
            (Mechanism::Kprobe, true) => "kretprobe",
            (Mechanism::Fentry, false) => "fentry",
            (Mechanism::Fentry, true) => "fexit",
        }
    }
}

/// Help text: the other mechanism for this function, if the kernel supports it, and tracepoints
/// with similar names; empty if only the existence of a probe is asked.
pub(super) fn help(
    cx: &Points<'_, '_>,
    place: &FunctionPattern<'_>,
    at_return: bool,
    other: Option<Mechanism>,
) -> String {
    if cx.only_asks {
        return String::new();
    }
    let target = cx.env.target;
    let works = match other {
        None => false,
        Some(Mechanism::Kprobe) => target.kernel_functions(place.module, place.function).is_ok(),
        // The other mechanism must know this particular function.
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
        return "there is often a tracepoint at the same place: `profiler list 'tracepoint:*:*NAME*'`, `profiler list \
                'rawtracepoint:*NAME*'`"
            .to_string();
    }
    format!("available here: `{}`", names.join("`, `"))
}

/// The present names of `sys_read`-style functions, as system call functions were called before
/// Linux 4.17.
pub(super) fn system_call(cx: &Points<'_, '_>, function: &str) -> Vec<String> {
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

/// Tracepoints with names like a function's: first that of the system call, then those that contain
/// the words of its name.
fn tracepoints(cx: &Points<'_, '_>, function: &str, at_return: bool) -> Vec<String> {
    let prefix = PREFIXES.iter().find(|prefix| function.starts_with(**prefix));
    let core = prefix.map_or(function, |prefix| &function[prefix.len()..]).trim_matches(['_', '*']);
    if core.is_empty() {
        return Vec::new();
    }
    let target = cx.env.target;
    let find = |category: &str, event: &str, start: &str| {
        let mut found = target.tracepoints(category, event).unwrap_or_default();
        // Prefer names that begin like the function, then shorter ones.
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
    if let Some((_, calls)) = CALLED_BY.iter().find(|(known, _)| *known == function) {
        return calls.iter().flat_map(|call| find("syscalls", &format!("sys_{side}_{call}"), "")).collect();
    }
    let mut names = find("syscalls", &format!("sys_{side}_{core}"), "");
    if prefix.is_some() && !names.is_empty() {
        return names;
    }
    names.extend(find("*", &format!("*{core}*"), core));
    // Try `tcp_retransmit_skb_now`, then `tcp_retransmit_skb`, then `tcp_retransmit`; a single word
    // is too unspecific.
    let mut words = core;
    while names.is_empty()
        && let Some((shorter, _)) = words.rsplit_once('_').filter(|(shorter, _)| shorter.contains('_'))
    {
        words = shorter;
        names = find("*", &format!("{words}*"), words);
    }
    if names.is_empty() {
        // Some tracepoints have no format in tracefs.
        let raw = target.btf().map(|btf| btf.raw_tracepoints().named(|name| name.contains(core))).unwrap_or_default();
        names.extend(raw.iter().map(|found| format!("rawtracepoint:{}", found.name)));
    }
    names
}
