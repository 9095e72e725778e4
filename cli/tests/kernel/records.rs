//! Per-thread states: created with the threads, and gone when they end.
//!
//! In: processes with known threads. Out: their states, printed and cleared by the profiler itself.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::machine::{Running, run, skip, with_enough_calls, workload};

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

/// Starts a process with `THREADS` sleeping threads in addition to its first.
fn sleepers() -> Running {
    let sleepers = Running::start(Command::new(workload()).args(["sleepers", &THREADS.to_string(), "600000"]));
    super::iterators::await_sleepers(sleepers.pid(), THREADS);
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

/// Whether BPF programs can iterate over tasks on this kernel. Since 6.7; on older kernels, a
/// script that does gets a diagnostic.
fn walks() -> bool {
    let btf = fs::read("/sys/kernel/btf/vmlinux").expect("the kernel's types");
    let name = b"\0bpf_iter_task_new\0";
    let can = btf.windows(name.len()).any(|window| window == name);
    let script =
        "state thread by tid { n: u8 } BEGIN { thread.n = 1; @n = len(thread); for ($kv : thread) { } exit(); }";
    let ended = run(&["-q", "-e", script]);
    let receive = ended.stderr.matches("error[E0453]: on this kernel, ").count();
    assert_eq!((ended.code(), receive), if can { (0, 0) } else { (1, 2) }, "{}", ended.stderr);
    can
}

#[test]
fn programs_go_over_the_states_of_live_threads() {
    if skip() || !walks() {
        return;
    }
    let process = sleepers();
    let pid = process.pid();
    let script = format!(
        "state thread by tid {{ calls: u64, name: comm, took: duration }}
        state other by tid {{ n: u32 }}
        tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ thread.calls++; other.n = 7; }}
        iter:task / ctx.task.tgid == {pid} / {{ thread.calls = ctx.task.pid; thread.name = ctx.task.comm; thread.took = 5ms; }}
        END {{
            $sum = 0; $rounds = 0;
            for ($kv : thread) {{
                $rounds++; $sum += $kv.1.calls - $kv.0;
                @[$kv.0] = $kv.1;
                for ($inner : thread) {{ @pairs = count(); if ($inner.0 == $kv.0) {{ @same = count(); continue; }} @different = count(); }}
                for ($none : other) {{ @never = count(); }}
            }}
            for ($kv : thread) {{ @stopped = count(); if ($kv.0 == {pid}) {{ break; }} }}
            printf(\"%d %d %d %d\\n\", $rounds, $sum, len(thread), len(other));
            clear(thread);
            for ($kv : thread) {{ if ($kv.0 > 0) {{ printf(\"first\\n\"); return; }} }}
            printf(\"last\\n\");
        }}"
    );
    let ended = run(&["-q", "--strict", "-e", &script, "-c", &format!("{} getppid 1000 4", workload())]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let all = THREADS + 1;
    let lines: BTreeSet<&str> = ended.stdout.lines().collect();
    assert!(lines.contains(format!("{all} 0 {all} 0").as_str()), "the command's have ended: {}", ended.stdout);
    // `clear` takes effect when the profiler handles it; the program still sees the state.
    assert!(lines.contains("first") && !lines.contains("last"), "{}", ended.stdout);
    for line in [format!("@pairs: {}", all * all), format!("@same: {all}"), format!("@different: {}", all * (all - 1))]
    {
        assert!(lines.contains(line.as_str()), "{line}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("@never") && ended.stdout.contains("@stopped: "), "{}", ended.stdout);
    let comm = |thread: &String| fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).expect("a thread");
    for thread in &threads(pid) {
        let line = format!("@[{thread}]: {{ .calls = {thread}, .name = {}, .took = 5000000 }}", comm(thread).trim());
        assert!(lines.contains(line.as_str()), "{line}: {}", ended.stdout);
    }
}

#[test]
fn every_kind_of_program_goes_over_threads_while_they_come_and_go() {
    if skip() || !walks() {
        return;
    }
    let script = format!(
        "state thread by tid {{ calls: u64 }}
        tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ thread.calls++; if (thread.calls % 100 == 0) {{ @tracepoint = max(len(thread)); }} }}
        rawtracepoint:sched_switch {{ thread.calls++; if (@walks < 200) {{ @walks++; @switches = max(len(thread)); }} }}
        uprobe:{}:workload_step /arg0 % 100 == 0/ {{ for ($kv : thread) {{ @uprobe = max($kv.1.calls); }} }}
        profile:hz:49 {{ for ($kv : thread) {{ @profile = max($kv.1.calls); }} }}
        interval:20ms {{ for ($kv : thread) {{ @interval = max($kv.1.calls); }} }}
        END {{ printf(\"ended\\n\"); }}",
        workload()
    );
    // On a busy machine, the timers may come only when a short workload has ended.
    with_enough_calls(300_000, |calls| {
        let command = format!(
            "sh -c 'for i in 1 2; do {0} getppid 500 4; done & sleep 0.1; exec {0} functions {calls}'",
            workload()
        );
        let ended = run(&["-q", "-e", &script, "-c", &command]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert!(ended.stdout.contains("ended"), "{}", ended.stdout);
        ["@switches: ", "@uprobe: ", "@profile: ", "@interval: "].iter().all(|map| ended.stdout.contains(map))
    });
}
