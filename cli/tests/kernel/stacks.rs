//! The number of stacks that are kept, and the threads that they belong to.
//!
//! In: a workload that reaches a function by a known number of paths; threads that sleep in a known
//! call. Out: each path once; the stacks of the threads.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::machine::{Running, profiler, run, skip, workload};

/// A path calls from two sites of this function, which are 7 bytes apart on x86 and 12 on arm64.
const PATH: &str = "workload_path+";

const MANY: u64 = 20_000;
const FEW: u64 = 5000;
const THREADS: usize = 3;

fn script(settings: &str, rest: &str) -> String {
    let probe = format!("uprobe:{}:workload_step {{ @calls = count(); @stacks[ustack(fp)] = count(); }}", workload());
    format!("config = {{ max_map_keys = 131072; {settings} }} {probe} {rest}")
}

fn stacks(paths: u64, rounds: u64) -> String {
    format!("{} stacks {paths} {rounds}", workload())
}

/// The path numbers that the printed stacks encode, with duplicates.
fn paths(output: &str) -> Vec<u64> {
    let lines = || output.lines().map(str::trim);
    let places: BTreeSet<u64> = lines().filter_map(|line| line.strip_prefix(PATH)?.parse().ok()).collect();
    // The call of `workload_step` is the function's last call site. It is missing from stacks in
    // which the kernel skips the caller of the probed function.
    let mut calls = places.iter();
    let (left, right) = (calls.next().copied(), calls.next().copied());
    let mut paths = Vec::new();
    let mut path: Option<(u64, u32)> = None;
    for line in lines() {
        match line.strip_prefix(PATH).and_then(|place| place.parse::<u64>().ok()) {
            _ if line == "@stacks[" => path = Some((0, 0)),
            _ if line.starts_with(']') => paths.extend(path.take().map(|(path, _)| path)),
            // The innermost call encodes the highest bit.
            Some(place) if Some(place) == left || Some(place) == right => {
                path = path.map(|(path, bits)| (path << 1 | u64::from(Some(place) == right), bits + 1));
            }
            _ => {}
        }
    }
    paths
}

#[test]
fn a_hundred_thousand_different_stacks_are_kept() {
    if skip() {
        return;
    }
    let end = "END { printf(\"different %d\\n\", len(@stacks)); clear(@stacks); }";
    for (count, rounds) in [(65_536, 1), (100_000, 1), (30_000, 2)] {
        let ended = run(&["-q", "--strict", "-e", &script("", end), "-c", &stacks(count, rounds)]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert_eq!(ended.lines(&format!("different {count}")), 1, "{}", ended.stdout);
        assert_eq!(ended.lines(&format!("@calls: {}", count * rounds)), 1, "{}", ended.stdout);
    }
}

/// More stacks than the kernel's table has buckets, so that some are stored elsewhere.
#[test]
fn each_stack_keeps_its_frames() {
    if skip() {
        return;
    }
    let ended = run(&["-q", "--strict", "-e", &script("", ""), "-c", &stacks(MANY, 2)]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!(ended.lines("]: 2"), MANY);
    let mut found = paths(&ended.stdout);
    found.sort_unstable();
    assert!(found.iter().copied().eq(0..MANY), "{} paths, the last one {:?}", found.len(), found.last());
}

#[test]
fn stacks_beyond_the_bound_are_counted_with_the_setting_to_raise() {
    if skip() {
        return;
    }
    let ended = run(&["-q", "--strict", "-e", &script("max_stacks = 100", ""), "-c", &stacks(FEW, 1)]);
    assert_eq!(ended.code(), 4, "{}", ended.stderr);
    let line = ended.stderr.lines().find_map(|line| line.trim().strip_prefix("stacks not taken: "));
    let lost: u64 = line.expect("a loss").parse().expect("a number");
    // Lost stacks share one row, with an empty stack.
    let kept = ended.lines("]: 1");
    assert_eq!(kept + lost, FEW, "{}", ended.stderr);
    assert!(kept >= 100, "{kept}");
    assert!(
        ended.stderr.contains("100 different ones are kept: write `config = { max_stacks = 400 }`"),
        "{}",
        ended.stderr
    );
    let mut command = profiler(&["run", "-q", "--strict", "-e", &script("", ""), "-c", &stacks(FEW, 1)]);
    let ended = Running::start(command.env("BPFTRACE_MAX_STACKS", "100")).end();
    assert_eq!(ended.code(), 4, "{}", ended.stderr);
    let mut command =
        profiler(&["run", "-q", "--strict", "-e", &script("max_stacks = 100", ""), "-c", &stacks(FEW, 1)]);
    let ended = Running::start(command.env("BPFTRACE_MAX_STACKS", "5000")).end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
}

/// Starts a process with this many sleeping threads in addition to its first, which waits for them.
fn sleepers(threads: usize) -> Running {
    let process = Running::start(Command::new(workload()).args(["sleepers", &threads.to_string(), "600000"]));
    super::iterators::await_sleepers(process.pid(), threads);
    process
}

#[test]
fn an_iterator_has_the_kernel_stack_of_its_task() {
    if skip() {
        return;
    }
    let process = sleepers(THREADS);
    let pid = process.pid();
    // Visit the mappings once per process, with its first thread.
    for (iterator, once) in [("task", ""), ("task_vma", "&& !@seen[ctx.task.pid]")] {
        let script = format!(
            "iter:{iterator} / ctx.task.tgid == {pid} {once} / {{
                @seen[ctx.task.pid] = 1; @stacks[kstack] = count(); printf(\"depth %d\\n\", len(kstack)); }}
             END {{ clear(@seen); }}"
        );
        let ended = run(&["-q", "--strict", "-e", &script]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let text = &ended.stdout;
        let with = |word: &str| text.split("@stacks[").skip(1).filter(|stack| stack.contains(word)).count();
        assert_eq!((with("nanosleep"), with("futex")), (usize::from(iterator == "task"), 1), "{text}");
        assert!(!text.contains("bpf_"), "frames of the iterator itself: {text}");
        if iterator == "task" {
            assert_eq!(ended.lines(&format!("]: {THREADS}")), 1, "{text}");
        }
        assert_eq!(ended.lines("depth 0"), 0, "{text}");
    }
}

/// The kernel's stack of a sleeping thread equals the stack that an iterator finds. The thread is
/// our own, because those of the kernel may run at any time.
#[test]
fn an_iterator_has_the_stack_that_proc_shows() {
    if skip() {
        return;
    }
    let process = sleepers(1);
    let pid = process.pid();
    let Ok(shown) = fs::read_to_string(format!("/proc/{pid}/stack")) else {
        println!("SKIPPED: stacks in /proc are not to be read here");
        return;
    };
    let ended = run(&["-q", "-e", &format!("iter:task / ctx.task.pid == {pid} / {{ printf(\"%s\", kstack); }}")]);
    let found: Vec<&str> = ended
        .stdout
        .lines()
        .map(str::trim)
        .filter_map(|line| line.split('+').next())
        .filter(|name| !name.is_empty())
        .collect();
    // `[<0>] kthreadd+0x2f0/0x350`
    let expected: Vec<&str> = shown.lines().filter_map(|line| line.split_once("] ")?.1.split('+').next()).collect();
    assert!(!expected.is_empty());
    assert_eq!(found, expected, "{shown}");
}

/// The code for each stack is separate, and the verifier follows all of it.
#[test]
fn many_stacks_in_one_block_are_not_too_much() {
    if skip() {
        return;
    }
    let all: Vec<String> = (0..60).map(|number| format!("@stacks[ustack, {number}] = count();")).collect();
    let script = format!("uprobe:{}:workload_step {{ {} }}", workload(), all.join(" "));
    let ended = run(&["-q", "--strict", "-e", &script, "-c", &format!("{} functions 2", workload())]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    // The first call may come before the tables of the new process: then it has a stack of its own.
    for number in 0..60 {
        let key_ends = format!("\n, {number}]: ");
        let counts = ended.stdout.split(&key_ends).skip(1);
        let counts = counts.map(|rest| rest.lines().next().and_then(|line| line.parse::<u64>().ok()).unwrap_or(0));
        assert_eq!(counts.sum::<u64>(), 2, "{number}: {}", ended.stdout);
    }
}

/// Between a tracepoint and a program are functions of the kernel's tracing. Which ones depends on
/// the kernel, and on how many programs are attached to the tracepoint.
#[test]
fn a_kernel_stack_begins_at_the_traced_code() {
    if skip() {
        return;
    }
    let probes = [
        "rawtracepoint:sched_switch",
        "tracepoint:sched:sched_switch",
        "rawtracepoint:sched_process_exit",
        "tracepoint:sched:sched_process_exit",
        "rawtracepoint:sys_enter",
        "tracepoint:raw_syscalls:sys_enter",
        "tracepoint:syscalls:sys_enter_getppid",
        "tracepoint:syscalls:sys_exit_getppid",
        "rawtracepoint:sys_exit",
    ];
    let others = probes.map(|probe| format!("{probe} {{ @others = count(); }}")).join(" ");
    for probe in probes {
        for beside in ["", &others] {
            let script = format!(
                "{probe} /pid == cpid/ {{ @of_one[kstack(1)] = count(); @of_two[kstack(2)] = count(); @all[kstack] = count(); @two = min(len(kstack(2))); @events = count(); }} {beside}"
            );
            let ended = run(&["-q", "--strict", "-e", &script, "-c", &format!("{} getppid 10", workload())]);
            assert_eq!(ended.code(), 0, "{script}\n{}", ended.stderr);
            let events = counted(&ended.stdout, "@events: ");
            assert!(events > 0, "{script}");
            assert_eq!(ended.lines("@two: 2"), 1, "{script}\n{}", ended.stdout);
            for (map, depth) in [("@of_one[", 1), ("@of_two[", 2), ("@all[", 0)] {
                let stacks = stacks_of(&ended.stdout, map);
                assert_eq!(stacks.iter().map(|(_, count)| count).sum::<u64>(), events, "{script}\n{}", ended.stdout);
                for (frames, _) in stacks {
                    let is_deep = if depth == 0 { frames.len() > 2 } else { frames.len() == depth };
                    assert!(is_deep, "{script}\n{}", ended.stdout);
                    let is_expected = match probe.rsplit(':').next() {
                        Some("sched_switch") => frames[0].starts_with("__schedule+"),
                        Some("sched_process_exit") => frames[0].starts_with("do_exit+"),
                        // The kernel's entry of system calls, which has other names in each kernel.
                        _ => ["syscall_", "do_syscall_", "el0_svc"].iter().any(|name| frames[0].starts_with(name)),
                    };
                    assert!(is_expected, "{script}\n{}", ended.stdout);
                }
            }
        }
    }
}

/// The number after the text that a line begins with.
fn counted(output: &str, text: &str) -> u64 {
    let number = output.lines().find_map(|line| line.strip_prefix(text)?.parse().ok());
    number.unwrap_or_else(|| panic!("no `{text}`: {output}"))
}

/// The stacks that are keys of a map, each with its count.
fn stacks_of<'a>(output: &'a str, map: &str) -> Vec<(Vec<&'a str>, u64)> {
    let mut lines = output.lines();
    let mut found = Vec::new();
    while lines.find(|line| *line == map).is_some() {
        let mut frames = Vec::new();
        for line in lines.by_ref() {
            if let Some(count) = line.strip_prefix("]: ") {
                found.push((frames, count.parse().expect("a count")));
                break;
            }
            frames.push(line.trim());
        }
    }
    found
}
