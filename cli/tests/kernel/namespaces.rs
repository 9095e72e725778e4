//! Pids inside a pid namespace: scripts see the namespace's numbers.
//!
//! In: `unshare`, which creates a namespace. Out: the pids that scripts report in it.

use std::process::Command;

use super::machine::{Ended, PROFILER, Running, skip};

/// Runs `profiler` as the first process of a new pid namespace; `None` if namespaces cannot be
/// created.
fn run_in_namespace(script: &str, options: &[&str]) -> Option<Ended> {
    let namespace = ["--pid", "--fork", "--mount-proc"];
    let possible = Command::new("unshare").args(namespace).arg("true").status().is_ok_and(|status| status.success());
    if !possible {
        println!("SKIPPED: no pid namespace can be made here");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(namespace).args([PROFILER, "run", "-q", "-e", script]).args(options);
    Some(Running::start(&mut command).end())
}

#[test]
fn a_process_has_the_number_of_the_namespace() {
    if skip() {
        return;
    }
    let script = "BEGIN { print((\"begin\", pid, tid, pid(init) == pid)); }
        tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ { print((\"child\", pid, cpid, pid(init) == cpid)); }";
    let Some(ended) = run_in_namespace(script, &["-c", "true"]) else { return };
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["(begin, 1, 1, false)", "(child, 2, 2, false)"], "{}", ended.stderr);
}

#[test]
fn processes_elsewhere_have_the_number_0() {
    if skip() {
        return;
    }
    let script = "tracepoint:syscalls:sys_enter_getppid /comm == \"workload\"/ {
        @[pid] = count(); @calls++; if (@calls >= 1000) { exit(); } }";
    let _outside = Running::start(Command::new(super::machine::workload()).args(["getppid", "1000000000000"]));
    let Some(ended) = run_in_namespace(script, &[]) else { return };
    let keys: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("@[")).collect();
    assert!(!keys.is_empty() && keys.iter().all(|line| line.starts_with("@[0]: ")), "{keys:?}");
}
