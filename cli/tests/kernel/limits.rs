//! Oversized scripts, and a process that may not load programs.
//!
//! In: generated scripts, users without privileges. Out: a diagnostic and its exit code, quickly
//! and without gigabytes of memory.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::machine::{self, Directory, Ended, Limit, PROFILER, Running, skip, workload};

/// Runs a script with a limit of 2 GiB of address space, far more than any script needs.
fn run_bounded(script: &str) -> Ended {
    let directory = Directory::new("limits");
    let path = directory.file("large.prof", script);
    let line = format!("ulimit -v 2097152; exec '{PROFILER}' run -q '{path}'");
    Running::start(Command::new("sh").args(["-c", &line])).end()
}

/// A `BEGIN` block of `statements` statements.
fn begin(statements: usize, statement: impl Fn(usize) -> String) -> String {
    let mut script = String::from("BEGIN {\n");
    for index in 0..statements {
        let _ = writeln!(script, "  {}", statement(index));
    }
    script + "  exit();\n}\n"
}

/// Spans that each attach to all events of the previous one, so each doubles what the first event
/// triggers.
fn spans_on_spans(count: usize) -> String {
    let mut script = String::from(
        "span s0 by tid { start tracepoint:syscalls:sys_enter_read end tracepoint:syscalls:sys_exit_read }\n",
    );
    for n in 1..count {
        let (start, end) = (format!("s{}:start", n - 1), format!("s{}:end", n - 1));
        let _ = writeln!(script, "span s{n} by tid {{ start {start}, {end} end {end}, {start} }}");
    }
    script
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
        ("E0510", spans_on_spans(20)),
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

/// Processor time of a process, in clock ticks.
fn ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

#[test]
fn loading_can_be_interrupted() {
    if skip() {
        return;
    }
    // 2^10 paths that the verifier cannot merge, because it must know the length that is copied: it
    // gives up after a million instructions.
    let mut script = format!("uprobe:{}:workload_step {{ $x = 0;\n", workload());
    for bit in 0..10 {
        let _ = writeln!(script, "if ((nsecs >> {bit}) & 1) {{ $x += {}; }}", 1 << bit);
    }
    for map in 'a'..='x' {
        let _ = writeln!(script, "@{map}[buf(arg0, $x % 60)] = 1;");
    }
    script += "}";
    for signal in ["INT", "TERM"] {
        // On a busy machine, the signal may come when the verifier has given up.
        let mut limit = Limit::of(Duration::from_secs(60));
        let ended = loop {
            let running = Running::start(&mut machine::profiler(&["-q", "-e", &script]));
            let pid = running.pid();
            machine::wait_for("loading", || (ticks(pid)? > 30).then_some(()));
            running.signal(signal);
            let ended = running.end();
            if !ended.stderr.contains("E0510") || !limit.lasts() {
                break ended;
            }
        };
        assert!(!ended.stderr.contains("E0510"), "{signal}: {}", ended.stderr);
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (if signal == "INT" { 130 } else { 143 }, ""),
            "{}",
            ended.stderr
        );
    }
}

/// Copies `profiler` to a directory that is accessible to all users, and runs it as `nobody`.
fn as_nobody(arguments: &[&str]) -> Option<Ended> {
    let directory = Directory::new("nobody");
    let copy = directory.path("profiler");
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

#[test]
fn whoever_may_not_read_tracefs_can_check_scripts() {
    if skip() {
        return;
    }
    let right = [
        "tracepoint:syscalls:sys_enter_openat { @[str(args.filename)] = count(); }",
        "tracepoint:syscalls:sys_exit_read { @ = hist(args.ret); }",
        "tracepoint:sched:sched_switch { @[args.next_comm] = sum(args.next_pid); }",
        "tracepoint:sched:sched_wakeup { @[args.comm] = count(); }",
        "tracepoint:sched:* { @[probe] = count(); }",
    ];
    let wrong = [
        "tracepoint:syscalls:sys_enter_openat { print(args.filname); }",
        "tracepoint:syscalls:sys_enter_opent { @ = count(); }",
        "tracepoint:sched:sched_switch { print(args.nothing); }",
        "tracepoint:sched:sched_swich { @ = count(); }",
    ];
    for (script, code) in right.iter().map(|script| (script, 0)).chain(wrong.iter().map(|script| (script, 1))) {
        let Some(ended) = as_nobody(&["check", "-e", script]) else { return };
        assert_eq!(ended.code(), code, "{script}\n{}", ended.stderr);
    }
}

/// A control group with a limit of memory.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Makes one; `None` if that is not possible here.
    fn new(megabytes: usize) -> Option<MemoryGroup> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let is_for_memory = |mount: &Vec<&str>| match mount[2] {
            "cgroup" => mount[3].split(',').any(|option| option == "memory"),
            "cgroup2" => fs::write(format!("{}/cgroup.subtree_control", mount[1]), "+memory").is_ok(),
            _ => false,
        };
        let root = PathBuf::from(fields.find(is_for_memory)?[1]);
        let group = MemoryGroup(root.join(format!("profiler-{}-{megabytes}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        let limit = (megabytes << 20).to_string();
        let names = ["memory.limit_in_bytes", "memory.max"];
        names.iter().any(|name| fs::write(group.0.join(name), &limit).is_ok()).then_some(group)
    }

    /// Runs a script in it.
    fn run(&self, script: &str) -> Ended {
        let line = format!("echo $$ > '{}/cgroup.procs'; exec '{PROFILER}' run -q -e '{script}'", self.0.display());
        Running::start(Command::new("sh").args(["-c", &line])).end()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel may still count a process that has just ended.
        machine::wait_for("an empty group", || fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn stacks_of_all_processes_fit_into_a_small_control_group() {
    if skip() {
        return;
    }
    let Some(group) = MemoryGroup::new(64) else {
        println!("SKIPPED: no control group with a limit of memory can be made here");
        return;
    };
    let _busy = Running::start(Command::new(workload()).args(["getppid", "1000000000000"]));
    let ended = group.run("profile:hz:99 { @[comm, ustack] = count(); } interval:s:2 { exit(); }");
    assert!(ended.status.success() && ended.stdout.contains("@[workload,"), "{:?}: {}", ended.status, ended.stderr);
}

#[test]
fn too_little_memory_for_stacks_is_an_error_that_says_so() {
    if skip() {
        return;
    }
    let Some(group) = MemoryGroup::new(24) else {
        println!("SKIPPED: no control group with a limit of memory can be made here");
        return;
    };
    let ended = group.run("profile:hz:99 { @[comm, ustack] = count(); } interval:s:2 { exit(); }");
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    let words = "too little memory: the control group of this process leaves ";
    assert!(ended.stderr.contains(words) && ended.stderr.contains("memory.max"), "{}", ended.stderr);
    let ended = group.run("BEGIN { @ = 7; exit(); }");
    assert!(ended.status.success() && ended.stdout.contains("@: 7"), "{:?}: {}", ended.status, ended.stderr);
}
