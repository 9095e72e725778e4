//! Facts about the kernel and the privileges of this process.
//!
//! In: files of /proc and /sys. Out: one row each.

use std::fs;

use profiler_compiler::target::{Target as _, TargetError};

use super::{Row, State};
use profiler_runtime::host::Host;

/// `CAP_*` numbers of include/uapi/linux/capability.h, with what each is for.
static CAPABILITIES: [(u32, &str, &str); 4] = [
    (39, "CAP_BPF", "loading programs"),
    (38, "CAP_PERFMON", "attaching them, reading kernel memory"),
    (2, "CAP_DAC_READ_SEARCH", "reading tracefs and other users' binaries"),
    (19, "CAP_SYS_PTRACE", "symbols of other users' processes"),
];
const CAP_SYS_ADMIN: u32 = 21;

/// The capabilities that loading and attaching need.
pub(super) const LOADING: [u32; 2] = [39, 38];

/// The oldest kernel that the compiler supports.
const OLDEST: (u32, u32) = (5, 17);

/// All rows.
pub(super) fn rows(host: &Host) -> Vec<Row> {
    vec![
        kernel(host),
        capabilities(&CAPABILITIES.map(|(number, ..)| number)),
        lockdown(),
        types(host),
        tracefs(host),
        events(),
        jit(),
    ]
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

pub(super) fn kernel(host: &Host) -> Row {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let found = format!("Linux {release} {}", std::env::consts::ARCH);
    if host.kernel() < OLDEST {
        return Row::fails(
            "kernel",
            State::Broken,
            found,
            "5.17 is the oldest kernel that has all that scripts need (bpf_loop)",
        );
    }
    Row::works("kernel", found)
}

/// The effective capabilities of this process as a bit set.
fn effective() -> u64 {
    let status = read("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The needed capabilities that this process lacks, with their names and purposes.
fn missing(needed: &[u32]) -> Vec<&'static (u32, &'static str, &'static str)> {
    let effective = effective();
    let has = |capability: u32| effective & (1 << capability | 1 << CAP_SYS_ADMIN) != 0;
    CAPABILITIES.iter().filter(|(number, ..)| needed.contains(number) && !has(*number)).collect()
}

/// The names of the capabilities that loading and attaching need and that this process lacks.
pub(super) fn lacking_to_load() -> Vec<&'static str> {
    missing(&LOADING).into_iter().map(|(_, name, _)| *name).collect()
}

/// Whether this process has the needed capabilities.
pub(super) fn capabilities(needed: &[u32]) -> Row {
    let (effective, missing) = (effective(), missing(needed));
    if missing.is_empty() {
        return Row::works(
            "privileges",
            if effective & 1 << CAP_SYS_ADMIN != 0 { "CAP_SYS_ADMIN" } else { "all required capabilities" },
        );
    }
    let words: Vec<String> = missing.iter().map(|(_, name, what)| format!("{name} ({what})")).collect();
    let state = if lacking_to_load().is_empty() { State::Missing } else { State::Broken };
    let advice =
        "run it as root, or: setcap cap_bpf,cap_perfmon,cap_dac_read_search,cap_sys_ptrace+ep $(command -v profiler)";
    Row::fails("privileges", state, format!("missing: {}", words.join(", ")), advice)
}

/// <https://man7.org/linux/man-pages/man7/kernel_lockdown.7.html>
pub(super) fn lockdown() -> Row {
    let modes = read("/sys/kernel/security/lockdown").unwrap_or_default();
    match modes.split(['[', ']']).nth(1) {
        Some("confidentiality") => Row::fails(
            "lockdown",
            State::Broken,
            "the kernel is locked down for confidentiality: programs may not read kernel memory",
            "boot with lockdown=integrity, or disable secure boot",
        ),
        Some(mode) => Row::works("lockdown", format!("{mode}: programs may read kernel memory")),
        None => Row::works("lockdown", "none"),
    }
}

pub(super) fn types(host: &Host) -> Row {
    let size_bytes = fs::metadata("/sys/kernel/btf/vmlinux").map_or(0, |file| file.len());
    match host.btf() {
        Some(_) => Row::works("kernel types (BTF)", format!("/sys/kernel/btf/vmlinux, {} kB", size_bytes / 1000)),
        None => Row::fails(
            "kernel types (BTF)",
            State::Missing,
            "/sys/kernel/btf/vmlinux cannot be read",
            "casts to kernel structs, fentry and iterators need a kernel with CONFIG_DEBUG_INFO_BTF",
        ),
    }
}

pub(super) fn tracefs(host: &Host) -> Row {
    match host.tracefs() {
        Ok(path) => Row::works("tracefs", path.display().to_string()),
        Err(TargetError::Refused(words)) => Row::fails(
            "tracefs",
            State::Missing,
            words,
            "tracepoints with arguments need it; rawtracepoints and uprobes do not",
        ),
        Err(_) => Row::fails("tracefs", State::Missing, "not mounted", "mount -t tracefs nodev /sys/kernel/tracing"),
    }
}

/// <https://docs.kernel.org/admin-guide/perf-security.html>
pub(super) fn events() -> Row {
    match read("/proc/sys/kernel/perf_event_paranoid") {
        Some(level) => {
            let found =
                format!("kernel.perf_event_paranoid is {level}, which does not restrict processes with CAP_PERFMON");
            Row::works("perf events", found)
        }
        None => Row::fails(
            "perf events",
            State::Missing,
            "the kernel has none (CONFIG_PERF_EVENTS)",
            "tracepoints with arguments, uprobes, kprobes and profile need them; rawtracepoints do not",
        ),
    }
}

/// Why an unprivileged user may not use perf events.
pub(super) fn paranoia() -> String {
    let level = read("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    format!("this needs CAP_PERFMON, or root: kernel.perf_event_paranoid is {level}, which keeps others out")
}

fn jit() -> Row {
    match read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Some("0") => Row::fails(
            "BPF JIT compiler",
            State::Missing,
            "disabled: programs are interpreted, about ten times slower",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        Some(_) => Row::works("BPF JIT compiler", "on"),
        // Only root can read it, and kernels that always use the JIT do not have it.
        None => Row::works("BPF JIT compiler", "always on, or the setting is not readable"),
    }
}
