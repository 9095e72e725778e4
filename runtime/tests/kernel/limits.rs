//! Scripts that are too large, and a process that may not load programs.
//!
//! In: generated scripts, users without rights. Out: a diagnostic and its exit code, soon and without gigabytes.

use std::fmt::Write as _;
use std::process::Command;

use super::machine::{self, Ended, Folder, PROFILER, Running, skip};

/// Runs a script with 2 GiB of address space, far more than any script needs.
fn run_bounded(script: &str) -> Ended {
    let folder = Folder::new("limits");
    let path = folder.file("large.prof", script);
    let line = format!("ulimit -v 2097152; exec '{PROFILER}' run -q '{path}'");
    Running::start(Command::new("sh").args(["-c", &line])).end()
}

/// A `BEGIN` of many statements.
fn begin(statements: usize, statement: impl Fn(usize) -> String) -> String {
    let mut script = String::from("BEGIN {\n");
    for index in 0..statements {
        let _ = writeln!(script, "  {}", statement(index));
    }
    script + "  exit();\n}\n"
}

#[test]
fn what_is_too_large_is_told() {
    if skip() {
        return;
    }
    let cases = [
        ("E0510", begin(4000, |n| format!("printf(\"%d {n}\\n\", {n});"))),
        ("E0510", begin(4000, |n| format!("@[{n}] = {n};"))),
        ("E0510", begin(2000, |n| format!("@m{n} = {n}; @k{n}[{n}] = count();"))),
        ("E0108", begin(1, |_| format!("print(1{});", "+1".repeat(500_000)))),
        ("E0107", begin(1, |_| format!("print({}1{});", "(".repeat(500_000), ")".repeat(500_000)))),
        ("E0501", "interval:s:1 { @ = count(); }\n".repeat(2000)),
        ("E0135", "a".repeat(1_000_000)),
        ("E0002", "a".repeat(5_000_000)),
        ("E0004", " \n".repeat(500_000)),
        ("E0101", format!("// {}", "x".repeat(1_000_000))),
        ("E0003", "\0".repeat(1000)),
    ];
    for (code, script) in cases {
        let ended = run_bounded(&script);
        let start: String = script.chars().take(60).collect();
        assert_eq!(ended.code(), 1, "{start}: {}", ended.stderr);
        assert!(ended.stderr.starts_with(&format!("error[{code}]: ")), "{code} {start}: {}", ended.stderr);
        assert!(ended.stderr.len() < 4000, "{start}: {}", ended.stderr);
    }
}

#[test]
fn a_script_of_a_megabyte_runs() {
    if skip() {
        return;
    }
    let script =
        format!("// {}\nBEGIN {{ printf(\"x\\n\"); exit(); }}\n{}", "x".repeat(1_000_000), "// y\n".repeat(10_000));
    let ended = run_bounded(&script);
    assert_eq!((ended.code(), ended.lines("x"), ended.stderr.as_str()), (0, 1, ""));
    let ended = run_bounded(&begin(200, |n| format!("printf(\"%d\\n\", {n}); @[{n}] = {n};")));
    assert_eq!((ended.code(), ended.lines("199"), ended.lines("@[199]: 199")), (0, 1, 1), "{}", ended.stderr);
}

/// `profiler`, copied to where everybody may run it, as somebody without rights.
fn as_nobody(arguments: &[&str]) -> Option<Ended> {
    let folder = Folder::new("nobody");
    let copy = folder.path("profiler");
    machine::copy(PROFILER, &copy);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", &copy]).args(arguments);
    match command.output() {
        Ok(_) => Some(Running::start(&mut command).end()),
        Err(_) => {
            println!("SKIPPED: setpriv is not installed");
            None
        }
    }
}

#[test]
fn missing_rights_are_named() {
    if skip() {
        return;
    }
    let Some(ended) = as_nobody(&["run", "-e", "BEGIN { printf(\"x\\n\"); exit(); }"]) else { return };
    assert_eq!((ended.code(), ended.stdout.as_str()), (3, ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("lacks CAP_BPF and CAP_PERFMON") && ended.stderr.contains("run it as root"));
    let Some(ended) = as_nobody(&["run", "-e", "tracepoint:sched:sched_switch { @ = count(); }"]) else { return };
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error[E0602]: "), "{}", ended.stderr);
    let Some(ended) = as_nobody(&["check", "-e", "BEGIN { print(curtask.comm); exit(); }"]) else { return };
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
}
