//! Which scripts a test runs.
//!
//! In: `PROFILER_ONLY` and `PROFILER_TURN`; the text of a script. Out: whether the script is left
//! out, and whether it probes functions of the kernel.

/// Whether a script probes functions of the kernel, which not every kernel can.
pub fn probes_functions(script: &str) -> bool {
    ["kprobe:", "kretprobe:", "fentry:", "fexit:", "fn:"].iter().any(|kind| script.contains(kind))
}

/// Whether scripts that probe no function of the kernel are left out: with
/// `PROFILER_ONLY=functions`, a VM runs only what the host's kernel lacks.
pub fn has_functions_only() -> bool {
    std::env::var("PROFILER_ONLY").is_ok_and(|only| only == "functions")
}
