//! Overload: more events than a run can take.
//!
//! In: a reader without a CPU, a pipe that is not read, maps that overflow on several CPUs. Out:
//! received plus lost equals produced.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use super::super::machine::{
    Directory, PROFILER, Running, attached, copy, held, run, run_beside, skip, wait_for, workload,
};
use super::{lost, number, processors};

const CALLS: u64 = 200_000;

fn flood(pages: u32) -> String {
    format!(
        "config = {{ perf_rb_pages = {pages} }}
         tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == \"workload\"/ {{ printf(\"call\\n\"); @calls = count(); }}
         interval:ms:20 {{ @ticks++; printf(\"tick %d\\n\", @ticks); }}"
    )
}

/// The command without its output: in a shared pipe, its output could split a line of results. The
/// shell calls getppid too.
fn silent(command: &str) -> String {
    format!("sh -c 'exec {command} >/dev/null'")
}

const RING_FULL: &str = "events of tracepoint:syscalls:sys_enter_getppid: ring buffer full";
const TICKS_LOST: &str = "events of interval:ms:20: ring buffer full";

#[test]
fn a_profiler_without_a_processor_loses_only_what_it_reports() {
    if skip() {
        return;
    }
    let workload = workload();
    let elsewhere = processors() - 1;
    // Four busy threads leave at most a fifth of the CPU.
    let _busy: Vec<Running> = (0..4)
        .map(|_| Running::start(Command::new(workload).args(["pinned", "0", workload, "spin", "60000"])))
        .collect();
    for pages in [1, 64] {
        let command = silent(&format!("{workload} pinned {elsewhere} {workload} getppid {CALLS}"));
        let arguments = ["pinned", "0", PROFILER, "run", "-q", "-e", &flood(pages), "-c", &command];
        let ended = Running::start(Command::new(workload).args(arguments)).end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let dropped = lost(&ended, RING_FULL);
        assert!(pages > 1 || dropped > 0, "the ring was never full, so nothing was tested");
        assert_eq!(ended.lines("call") + dropped, CALLS, "{}", ended.stderr);
        assert_eq!(number(&ended.stdout, "@calls"), CALLS);
        let ticks = ended.stdout.lines().filter(|line| line.starts_with("tick ")).count() as u64;
        assert_eq!(ticks + lost(&ended, TICKS_LOST), number(&ended.stdout, "@ticks"));
    }
}

/// The calls of one process: more than a ring buffer of 16 pages has space for.
const SHARE: u64 = 20_000;

/// The pipe is not read until the profiler is blocked in a write and the command has ended, whose
/// last calls no longer fit.
#[test]
fn a_pipe_that_is_read_late_loses_only_what_is_reported() {
    if skip() {
        return;
    }
    let directory = Directory::new("late");
    let is_enough = directory.path("enough");
    let share = format!("{} getppid {SHARE} >/dev/null", workload());
    let command = format!("sh -c 'while [ ! -e {is_enough} ]; do {share}; done; {share}; exit 0'");
    let script = flood(16).replace("/pid == cpid", "/ppid == cpid");
    let child = Command::new(PROFILER)
        .args(["run", "-q", "-e", &script, "-c", &command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("profiler");
    // It sleeps in `poll` while it waits for its reader.
    wait_for("a full pipe", || call(child.id()).starts_with("7 ").then_some(()));
    directory.file("enough", "");
    wait_for("the end of the command", || is_alone(child.id()).then_some(()));
    let output = child.wait_with_output().expect("it ends");
    let ended = super::super::machine::Ended {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let (dropped, calls) = (lost(&ended, RING_FULL), number(&ended.stdout, "@calls"));
    assert!(dropped > 0, "the ring was never full, so nothing was tested");
    assert!(calls > 0 && calls.is_multiple_of(SHARE), "{calls} are not those of whole processes");
    assert_eq!(ended.lines("call") + dropped, calls, "{}", ended.stderr);
}

/// The system call that a process sleeps in: its number and arguments.
fn call(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default()
}

/// Whether the child of a process has ended.
fn is_alone(pid: u32) -> bool {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let has_ended = |child: &str| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat"));
        stat.is_ok_and(|stat| stat.contains(") Z "))
    };
    children.split_whitespace().all(has_ended)
}

/// Each update inserts a new key, from several threads at once.
#[test]
fn maps_that_overflow_on_several_processors_report_each_update_they_refuse() {
    if skip() {
        return;
    }
    let script = "config = { max_map_keys = 100 }
        tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
            @n[tid]++; $n = @n[tid];
            @plain[tid, $n] = 1; @added[tid, $n]++; @counted[tid, $n] = count(); @summed[tid, $n] = sum(5); @spread[tid, $n] = hist(1); @text[tid, $n] = comm;
        }";
    let ended = run(&["-q", "--strict", "-e", script, "-c", &format!("{} getppid 2000 8", workload())]);
    assert_eq!(ended.code(), 4, "{}", ended.stderr);
    for map in ["plain", "added", "counted", "summed", "spread", "text"] {
        let kept = ended.stdout.lines().filter(|line| line.starts_with(&format!("@{map}["))).count() as u64;
        let refused = lost(&ended, &format!("updates of @{map}: map full, it holds 100 keys"));
        assert!((1..=100).contains(&kept), "@{map} holds {kept}");
        assert_eq!((map, kept + refused), (map, 16_000), "{}", ended.stderr);
    }
    let threads = ended.stdout.lines().filter(|line| line.starts_with("@n[") && line.ends_with("]: 2000")).count();
    assert_eq!(threads, 8, "{}", ended.stdout);
}

/// Each process maps the function at a different address, so there is one single-frame stack for
/// each process. The kernel's stack map hashes stacks to 14 bits, and about eight of these stacks
/// collide.
#[test]
fn stacks_whose_places_are_taken_are_not_lost() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let program = directory.path("many");
    copy(workload(), &program);
    let script = format!("uprobe:{program}:workload_step {{ @steps = count(); @stacks[ustack(1), pid] = count(); }}");
    let ended = run_beside(&["-q", "-e", &script], &format!("{program} execs 500 1 2"));
    assert_eq!((ended.code(), number(&ended.stdout, "@steps")), (0, 500), "{}", ended.stderr);
    assert_eq!(lost(&ended, "stacks not taken"), 0, "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().filter(|line| line.starts_with("    ")).count(), 500, "{}", ended.stdout);
}

/// The number of runs that the kernel skipped for these programs, according to bpftool; `None`
/// without bpftool.
fn skipped_by_the_kernel(ids: &BTreeSet<(&'static str, u32)>) -> Option<u64> {
    let programs = ids.iter().filter(|(kind, _)| *kind == "prog");
    let of_one = |id: u32| {
        let output = Command::new("bpftool").args(["prog", "show", "id", &id.to_string()]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count =
            text.split_once("recursion_misses ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        Some(count.unwrap_or(0))
    };
    programs.map(|(_, id)| of_one(*id)).sum()
}

/// The kernel skips a probe that fires in an interrupt while the same probe runs. We do not cause
/// the loss, but it must be reported.
#[test]
fn runs_that_the_kernel_skips_are_reported() {
    if skip() {
        return;
    }
    let script = "tracepoint:kmem:* { @[probe, cpu] = count(); @sizes[probe] = hist(nsecs % 1000); } END { clear(@); clear(@sizes); }";
    let running = attached(&["-q", "--strict", "-e", script]);
    let ids = held(running.pid());
    let mut skipped = skipped_by_the_kernel(&ids);
    for _ in 0..10 {
        if skipped != Some(0) {
            break;
        }
        let storm = Running::start(Command::new(workload()).args(["execs", "500", "1", "4"])).end();
        assert_eq!(storm.code(), 0);
        skipped = skipped_by_the_kernel(&ids);
    }
    running.signal("TERM");
    let ended = running.end();
    match skipped {
        None => println!("SKIPPED: bpftool is not installed, so what the kernel skips is unknown"),
        Some(0) => println!("SKIPPED: no interrupt came while a probe ran"),
        Some(skipped) => {
            let lines = ended.stderr.lines().filter(|line| line.starts_with("  runs of tracepoint:kmem:"));
            let numbers = lines.filter_map(|line| line.rsplit_once(": skipped by the kernel: ")?.1.parse::<u64>().ok());
            let reported = numbers.sum::<u64>();
            assert!(reported >= skipped, "the kernel skipped {skipped}, and {reported} are reported");
            assert_eq!(ended.code(), 4, "{}", ended.stderr);
        }
    }
}
