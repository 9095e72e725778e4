//! `profiler doctor` compared with what the kernel reports elsewhere.
//!
//! In: this kernel, with and without privileges. Out: rows that agree with its files.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use super::machine::skip;

fn doctor() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command.arg("doctor");
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The mark and the text of a row.
fn row<'a>(report: &'a str, name: &str) -> (&'a str, &'a str) {
    let rows = report.lines().filter_map(|line| line.trim().split_once("  "));
    let mut found =
        rows.filter_map(|(mark, rest)| Some((mark, rest.trim().strip_prefix(name)?.strip_prefix("  ")?.trim())));
    found.next_back().unwrap_or_else(|| panic!("{name} is not in\n{report}"))
}

#[test]
fn rows_are_what_the_kernel_s_files_promise() {
    if skip() {
        return;
    }
    let output = doctor().output().expect("it runs");
    let report = text(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    for name in ["begin", "interval", "system call tracepoint", "tracepoint with arguments", "rawtracepoint", "profile"]
    {
        assert_eq!(row(&report, name).0, "ok", "{report}");
    }
    let has = |device: &str| Path::new("/sys/bus/event_source/devices").join(device).exists();
    let mark = |works: bool| if works { "ok" } else { "--" };
    assert_eq!(row(&report, "kprobe").0, mark(has("kprobe")), "{report}");
    assert_eq!(row(&report, "kretprobe").0, mark(has("kprobe")), "{report}");
    assert_eq!(row(&report, "uprobe").0, mark(has("uprobe")), "{report}");
    assert!(row(&report, "uprobe").1.starts_with("event after "), "{report}");
    // Nothing that fails here is recommended.
    let can_probe_functions = ["kprobe", "fentry"].iter().any(|name| row(&report, name).0 == "ok");
    assert_eq!(
        report.contains("`fn:NAME` uses"),
        can_probe_functions && !(has("kprobe") && row(&report, "fentry").0 == "ok"),
        "{report}"
    );
    assert!(!report.contains("FAIL") && report.ends_with(" 0 failed\n"), "{report}");
}

#[test]
fn a_program_can_read_it() {
    if skip() {
        return;
    }
    let report = text(&doctor().arg("--json").output().expect("it runs"));
    assert!(report.starts_with("{\"type\": \"doctor\", \"data\": {\"machine\": [{\"name\": \"kernel\", "), "{report}");
    assert!(
        report.contains("{\"name\": \"rawtracepoint\", \"state\": \"works\", \"finding\": \"event after "),
        "{report}"
    );
    assert_eq!(report.matches(['{', '[']).count(), report.matches(['}', ']']).count(), "{report}");
}

#[test]
fn without_rights_it_says_which_are_missing() {
    if skip() {
        return;
    }
    let output = doctor().uid(65534).gid(65534).output().expect("it runs");
    let report = text(&output);
    assert_eq!(output.status.code(), Some(3), "{report}");
    let (mark, finding) = row(&report, "privileges");
    assert_eq!(mark, "FAIL", "{report}");
    assert!(finding.contains("CAP_BPF (loading programs), CAP_PERFMON ("), "{finding}");
    assert_eq!(row(&report, "rawtracepoint").0, "FAIL", "{report}");
}
