//! Probes that need a partner outside the script: signals to profiler itself, and watched memory of
//! another process.
//!
//! In: a known number of signals and writes. Out: the same number of runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, Command, Stdio};

use super::machine::{profiler, run, skip, workload};

/// A process that is killed if the test fails before the process ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -{name}");
}

/// Starts profiler and waits for its first line on standard error.
fn start(arguments: &[&str]) -> (Killed, BufReader<ChildStderr>, String) {
    let mut tracer =
        Killed(profiler(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("profiler"));
    let mut stderr = BufReader::new(tracer.0.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    (tracer, stderr, line)
}

#[test]
fn each_sigusr1_runs_the_block_once() {
    if skip() {
        return;
    }
    let script = "self:signal:SIGUSR1 { @signals++; printf(\"signal %d\\n\", @signals); } END { print(\"end\"); }";
    let (mut tracer, _stderr, line) = start(&["-e", script]);
    assert_eq!(line, "Attached 2 probes\n");
    let mut lines = BufReader::new(tracer.0.stdout.take().expect("a pipe")).lines();
    // The kernel merges signals that are pending at the same time, so wait for each answer before
    // the next signal.
    for number in 1..=20 {
        signal(&tracer.0, "USR1");
        assert_eq!(lines.next().expect("a line").expect("text"), format!("signal {number}"));
    }
    signal(&tracer.0, "INT");
    let rest: Vec<String> = lines.map(|line| line.expect("text")).filter(|line| !line.is_empty()).collect();
    assert_eq!(rest, ["end", "@signals: 20"]);
    assert_eq!(tracer.0.wait().expect("it ends").code(), Some(0));
}

#[test]
fn every_write_to_watched_memory_is_seen() {
    if skip() {
        return;
    }
    let mut command = Command::new(workload());
    let writer = command.args(["writes", "500"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut writer = Killed(writer.expect("the workload"));
    let mut address = String::new();
    let mut said = BufReader::new(writer.0.stdout.take().expect("a pipe"));
    said.read_line(&mut address).expect("a line");
    let address = address.trim().strip_prefix("address ").expect("an address");
    let script = format!("watchpoint:{address}:8:w {{ @writes = count(); @by[pid] = count(); }}");
    let (mut tracer, mut stderr, line) = start(&["--strict", "-p", &writer.0.id().to_string(), "-e", &script]);
    if line.contains("debug registers") {
        println!("SKIPPED: {line}");
        return;
    }
    assert_eq!(line, "Attached 1 probe\n");
    writer.0.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
    let (mut result, mut errors) = (String::new(), String::new());
    tracer.0.stdout.take().expect("a pipe").read_to_string(&mut result).expect("text");
    stderr.read_to_string(&mut errors).expect("text");
    let lines: Vec<&str> = result.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, [&format!("@by[{}]: 1000", writer.0.id()), "@writes: 1000"], "{errors}");
    assert_eq!(tracer.0.wait().expect("it ends").code(), Some(0), "{errors}");
}

#[test]
fn what_is_watched_no_longer_is_not_seen() {
    if skip() {
        return;
    }
    // The script leaves the watchpoint in place when it passes another address to `unwatch`.
    for (distance, writes) in [(0, None), (8, Some("@writes: 1000"))] {
        let mut command = Command::new(workload());
        let writer = command.args(["writes", "500"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut writer = Killed(writer.expect("the workload"));
        let mut address = String::new();
        let mut said = BufReader::new(writer.0.stdout.take().expect("a pipe"));
        said.read_line(&mut address).expect("a line");
        let address = address.trim().strip_prefix("address ").expect("an address");
        let script = format!(
            "watchpoint:{address}:8:w {{ @writes = count(); }} interval:ms:50 {{ @ticks++; \
             if @ticks == 1 {{ unwatch((uint8 *){address} + {distance}); }} if @ticks == 3 {{ print(\"quiet\"); }} }} END {{ clear(@ticks); }}"
        );
        let (mut tracer, mut stderr, line) = start(&["--strict", "-p", &writer.0.id().to_string(), "-e", &script]);
        if line.contains("debug registers") {
            println!("SKIPPED: {line}");
            return;
        }
        let mut results =
            BufReader::new(tracer.0.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
        assert_eq!(results.by_ref().find(|line| !line.is_empty()).as_deref(), Some("quiet"));
        writer.0.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
        let rest: Vec<String> = results.filter(|line| !line.is_empty()).collect();
        let mut errors = String::new();
        stderr.read_to_string(&mut errors).expect("text");
        assert_eq!(rest.first().map(String::as_str), writes, "{errors}");
        assert_eq!(errors.contains("no watchpoint is at"), distance > 0, "{errors}");
    }
}

#[test]
fn a_hardware_event_counts_or_says_why_not() {
    if skip() {
        return;
    }
    let script = "hardware:instructions:100000 { @ = count(); }";
    let ended = run(&["-q", "-e", script, "-c", &format!("{} spin 50", workload())]);
    if ended.code() == 0 {
        assert!(ended.stdout.contains("@: "), "{}", ended.stdout);
        return;
    }
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("does not count that event") && ended.stderr.contains("profile:hz:99"),
        "{}",
        ended.stderr
    );
}

/// Less than a huge page, which the kernel would map with one fault.
const PAGES: u64 = 400;

/// The truth is the kernel's own count in the task. It includes faults that the kernel resolves for
/// itself while it executes a program, so counting begins after that.
#[test]
fn every_page_fault_is_counted() {
    if skip() {
        return;
    }
    let script = "tracepoint:sched:sched_process_exec / pid == cpid / { @before = curtask.min_flt + curtask.maj_flt; @counts = 1; }
        software:page-faults:1 / pid == cpid && @counts == 1 / { @faults = count(); }
        tracepoint:sched:sched_process_exit / pid == cpid / { @after = curtask.min_flt + curtask.maj_flt; @counts = 0; }";
    let ended = run(&["-q", "--strict", "-e", script, "-c", &format!("{} touches {PAGES}", workload())]);
    let count = |map: &str| {
        let found =
            ended.stdout.lines().find_map(|line| line.strip_prefix(map)?.strip_prefix(": ")?.parse::<u64>().ok());
        found.unwrap_or_else(|| panic!("{map}: {}{}", ended.stdout, ended.stderr))
    };
    let faults = count("@faults");
    assert_eq!(faults, count("@after") - count("@before"), "{}", ended.stdout);
    assert!(faults > PAGES, "{faults}");
}
