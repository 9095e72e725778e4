//! States of threads: with the threads, and gone with them.
//!
//! In: processes with known threads. Out: their states, printed and cleared by the profiler itself.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::machine::{Running, run, skip, wait_for, workload};

const THREADS: usize = 7;

#[test]
fn records_are_exact() {
    if !skip() {
        super::run("records.cases", include_str!("records.cases"));
    }
}

fn threads(pid: u32) -> BTreeSet<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).expect("a process").filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A process with so many threads beside its first, all asleep.
fn sleepers() -> Running {
    let sleepers = Running::start(Command::new(workload()).args(["sleepers", &THREADS.to_string(), "600000"]));
    wait_for("the threads", || (threads(sleepers.pid()).len() == THREADS + 1).then_some(()));
    sleepers
}

#[test]
fn states_of_live_threads_are_printed_and_cleared() {
    if skip() {
        return;
    }
    let process = sleepers();
    let pid = process.pid();
    let script = format!(
        "state thread by tid {{ calls: u64, name: comm }}
        iter:task / ctx.task.tgid == {pid} / {{ thread.calls += 5; thread.name = ctx.task.comm; }}
        END {{ print(thread); clear(thread); print(thread); printf(\"cleared\\n\"); }}"
    );
    let ended = run(&["-q", "--strict", "-e", &script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    let comm = |thread: &String| fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).expect("a thread");
    let shown = |id: &String| format!("thread[{id}]: {{ .calls = 5, .name = {} }}", comm(id).trim());
    let expected: BTreeSet<String> = threads(pid).iter().map(shown).collect();
    assert_eq!(expected.len(), THREADS + 1);
    let (last, states) = lines.split_last().expect("results");
    assert_eq!((*last, states.len()), ("cleared", THREADS + 1), "{}", ended.stdout);
    assert_eq!(states.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn a_state_goes_with_its_thread() {
    if skip() {
        return;
    }
    let script = "state thread by tid { calls: u64 }
        tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { thread.calls++; @all = count(); @threads[tid].seen++; }
        END { print(thread); printf(\"that was all\\n\"); }";
    let ended = run(&["-q", "--strict", "-e", script, "-c", &format!("{} getppid 1000 4", workload())]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(!ended.stdout.contains("\nthread["), "{}", ended.stdout);
    assert!(ended.stdout.contains("that was all") && ended.stdout.contains("@all: 4000"), "{}", ended.stdout);
    let kept = ended.stdout.lines().filter(|line| line.ends_with("{ .seen = 1000 }")).count();
    assert_eq!(kept, 4, "{}", ended.stdout);
}

#[test]
fn a_view_of_a_state_has_a_row_a_thread_that_lives() {
    if skip() {
        return;
    }
    let process = sleepers();
    let pid = process.pid();
    let script = format!(
        "state thread by tid {{ calls: u64, took: duration, name: comm }}
        view \"threads\" {{ of thread, @seen  show tid, name, calls, took, count  sort tid }}
        view \"longest\" {{ of thread  show tid, took  top 2 rest }}
        tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ thread.calls++; @all = count(); }}
        iter:task / ctx.task.tgid == {pid} / {{
            thread.calls += 5; thread.took = ctx.task.pid * 1ms; thread.name = ctx.task.comm; @seen[ctx.task.pid] = count();
        }}"
    );
    let command = format!("{} getppid 1000 2", workload());
    let ended = run(&["-q", "--strict", "-f", "csv", "-e", &script, "-c", &command]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let of = |view: &str| -> Vec<String> {
        let lines = ended.stdout.lines().filter(|line| line.starts_with(&format!("{view},")));
        lines.map(|line| line.splitn(4, ',').last().unwrap_or_default().to_owned()).collect()
    };
    let mut ids: Vec<u32> = threads(pid).iter().map(|id| id.parse().expect("a number")).collect();
    ids.sort_unstable();
    let comm = |thread: u32| fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).expect("a thread");
    let row = |id: &u32| format!("0,{id},{},5,{},1", comm(*id).trim(), u64::from(*id) * 1_000_000);
    assert_eq!(of("threads"), ids.iter().map(row).collect::<Vec<_>>(), "the threads of the command have ended");
    let took = |id: &u32| format!("0,{id},{}", u64::from(*id) * 1_000_000);
    let mut expected: Vec<String> = ids.iter().rev().take(2).map(took).collect();
    expected.push(format!("{},,", THREADS + 1 - 2));
    assert_eq!(of("longest"), expected);
    assert!(ended.stdout.contains(",2000\n"), "{}", ended.stdout);
}
