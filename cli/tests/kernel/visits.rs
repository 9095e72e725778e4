//! Visits to threads at a fixed rate, against threads whose state is known.
//!
//! In: `workload held`, whose threads never leave the state that they have the name of. Out: the
//! same from `wall`, with every thread once in every round.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::machine::{
    Directory, Ended, Running, attached, copy, patience, run, skip, wait_for, with_enough_calls, workload,
};

/// The states in which threads of the workload are blocked.
const BLOCKED: [&str; 6] = ["lock", "sleep", "pipe", "network", "poll", "child"];

/// Threads in each of them.
const EACH: u64 = 3;

/// Starts the workload, and waits until its threads are where they stay.
fn held() -> Running {
    let process = Running::start(Command::new(workload()).args(["held", &EACH.to_string()]));
    wait_for("threads that wait", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", process.pid())).ok()?;
        let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
        // The first thread starts `running` last, and then waits too.
        let is_there = |stat: &String| {
            let waits = BLOCKED.iter().chain(&["workload"]).any(|name| stat.contains(&format!("({name}) S")));
            waits || stat.contains("(running) ")
        };
        (stats.filter(is_there).count() as u64 == EACH * BLOCKED.len() as u64 + 2).then_some(())
    });
    process
}

/// Counts by key, from JSON.
fn counts(ended: &Ended, map: &str) -> BTreeMap<String, u64> {
    let documents = ended.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let entries = documents.filter(|it| it["type"] == "map").find_map(|it| it["data"].get(map).cloned());
    let entries = entries.unwrap_or_else(|| panic!("{map}: {}{}", ended.stdout, ended.stderr));
    let part = |part: &Value| part.as_str().map_or_else(|| part.to_string(), str::to_owned);
    let key = |key: &Value| key.as_array().expect("a key").iter().map(part).collect::<Vec<_>>().join(",");
    let entry = |entry: &Value| (key(&entry["key"]), entry["value"].as_u64().expect("a count"));
    entries.as_array().expect("keys").iter().map(entry).collect()
}

/// The fields of the only program that made rounds.
fn rounds(ended: &Ended) -> Value {
    let mut documents = ended.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found = documents.find(|it| it["type"] == "quality").map(|it| it["data"]["visits"][0].clone());
    found.unwrap_or_else(|| panic!("no rounds: {}{}", ended.stdout, ended.stderr))
}

/// Runs a script for half a second, and for longer as long as it has not seen what the test is
/// about: on a busy machine, few rounds or none are made in a short time.
fn visited_until(script: &str, options: &[&str], is_enough: impl Fn(&Ended) -> bool) -> Ended {
    let mut seen = None;
    for ms in [500, 4_000, 32_000] {
        let duration = format!("{}ms", ms * patience());
        let mut arguments = vec!["-q", "-e", script, "--duration", &duration];
        arguments.extend(options);
        let ended = attached(&arguments).end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let enough = is_enough(&ended);
        seen = Some(ended);
        if enough {
            break;
        }
    }
    seen.expect("a run")
}

/// Runs a script until it has made some rounds, and ends it in between.
fn visited(script: &str, options: &[&str]) -> Ended {
    visited_until(script, &[&["-f", "json"], options].concat(), |ended| rounds(ended)["rounds"].as_u64() > Some(0))
}

#[test]
fn every_thread_is_visited_in_every_round_in_its_state() {
    if skip() {
        return;
    }
    let process = held();
    let pid = process.pid();
    let ended = visited("wall:hz:100 { @[comm, state] = count(); }", &["-p", &pid.to_string()]);
    let made = rounds(&ended)["rounds"].as_u64().expect("a number");
    assert!(made > 0, "{}", ended.stdout);
    let mut counts = counts(&ended, "@");
    for name in BLOCKED {
        assert_eq!(counts.remove(&format!("{name},{name}")), Some(made * EACH), "{name}: {}", ended.stdout);
    }
    // The first thread waits to be unparked.
    assert_eq!(counts.remove("workload,lock"), Some(made), "{}", ended.stdout);
    let computes: u64 = ["running,running", "running,runnable"].iter().filter_map(|key| counts.remove(*key)).sum();
    assert_eq!((computes, counts.len()), (made, 0), "{}", ended.stdout);
}

#[test]
fn numbers_and_names_are_those_of_the_visited_thread() {
    if skip() {
        return;
    }
    let process = held();
    let pid = process.pid();
    let script = format!(
        "wall:hz:50 / pid == {pid} && comm == \"pipe\" / {{
            @[tid, uid, gid, ppid, curtask.pid == tid, leader_tid == pid] = count();
        }}"
    );
    let ended = visited(&script, &[]);
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process").filter_map(Result::ok);
    let is_it =
        |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "pipe");
    let threads = threads.filter(|thread| is_it(&thread.path()));
    let own = std::process::id();
    let expected: BTreeSet<String> =
        threads.map(|thread| format!("{},0,0,{own},true,true", thread.file_name().to_string_lossy())).collect();
    let found: BTreeSet<String> = counts(&ended, "@").into_keys().collect();
    assert_eq!(found, expected, "{}", ended.stdout);
}

/// The system call in which each thread waits, and the function of the kernel.
const CALLS: [(&str, &str, &str); 6] = [
    ("lock", "futex", "futex"),
    ("sleep", "clock_nanosleep", "nanosleep"),
    ("pipe", "read", "pipe_read"),
    ("network", "recvfrom", "unix_stream_read"),
    ("poll", "poll", "poll"),
    ("child", "wait4", "do_wait"),
];

#[test]
fn system_calls_and_kernel_stacks_are_those_in_which_threads_wait() {
    if skip() {
        return;
    }
    let process = held();
    let pid = process.pid().to_string();
    let script = "wall:hz:100 { @[comm, syscall_name(syscall)] = count(); \
        @named[comm, kstack] = count(); }";
    let ended = visited(script, &["-p", &pid]);
    let made = rounds(&ended)["rounds"].as_u64().expect("a number");
    let (calls, named) = (counts(&ended, "@"), counts(&ended, "@named"));
    for (thread, call, function) in CALLS {
        let found: u64 = calls.iter().filter(|(key, _)| key.starts_with(&format!("{thread},"))).map(|it| it.1).sum();
        let is_it = |key: &&String| key.starts_with(&format!("{thread},")) && key.contains(call);
        let there: u64 = calls.iter().filter(|(key, _)| is_it(key)).map(|it| it.1).sum();
        assert_eq!((found, there), (made * EACH, made * EACH), "{thread}: {}", ended.stdout);
        let is_it = |key: &&String| key.starts_with(&format!("{thread},")) && key.contains(function);
        let there: u64 = named.iter().filter(|(key, _)| is_it(key)).map(|it| it.1).sum();
        assert_eq!(there, made * EACH, "{thread}: {}", ended.stdout);
    }
    // No thread has a stack that belongs to another state.
    assert!(!named.keys().any(|key| key.starts_with("pipe,") && key.contains("nanosleep")), "{}", ended.stdout);
}

/// The function of the workload in which each thread waits.
const WAITS_IN: [(&str, &str); 6] = [
    ("lock", "held::lock"),
    ("sleep", "held::nap"),
    ("pipe", "held::read_pipe"),
    ("network", "held::receive"),
    ("poll", "held::poll"),
    ("child", "held::child"),
];

#[test]
fn user_stacks_are_those_in_which_threads_wait_from_their_first_function_on() {
    if skip() {
        return;
    }
    let process = held();
    let pid = process.pid().to_string();
    let script = "wall:hz:100 { @[comm, ustack] = count(); @frames[comm, len(ustack)] = count(); }";
    // The tables of the process may come some rounds later.
    let are_most_whole = |ended: &Ended| {
        let (made, stacks) = (rounds(ended)["rounds"].as_u64().unwrap_or(0), counts(ended, "@"));
        WAITS_IN.iter().all(|(thread, function)| whole(&stacks, thread, function) > made * EACH / 2)
    };
    let ended = visited_until(script, &["-f", "json", "-p", &pid], are_most_whole);
    assert!(are_most_whole(&ended), "{}", ended.stdout);
    let made = rounds(&ended)["rounds"].as_u64().expect("a number");
    let (stacks, frames) = (counts(&ended, "@"), counts(&ended, "@frames"));
    for (thread, _) in WAITS_IN {
        let of_thread = stacks.iter().filter(|(key, _)| key.starts_with(&format!("{thread},")));
        assert_eq!(of_thread.map(|it| it.1).sum::<u64>(), made * EACH, "{thread}: {}", ended.stdout);
        let deepest =
            frames.keys().filter_map(|key| key.strip_prefix(&format!("{thread},"))?.parse::<u64>().ok()).max();
        assert!(deepest.is_some_and(|frames| frames >= 5), "{thread}: {}", ended.stdout);
    }
}

/// The stacks of threads with this name that reach from the function in which they wait to their
/// first one.
fn whole(stacks: &BTreeMap<String, u64>, thread: &str, function: &str) -> u64 {
    let is_it = |key: &str| {
        let of_thread = key.starts_with(&format!("{thread},")) && key.contains(function);
        of_thread && key.contains("thread_start") && !key.contains("ends")
    };
    stacks.iter().filter(|(key, _)| is_it(key)).map(|it| it.1).sum()
}

/// Programs that read stacks of other processes may sleep, and no grace period waits for them.
#[test]
fn windows_of_visits_that_may_sleep_add_up() {
    if skip() {
        return;
    }
    let process = held();
    let pid = process.pid().to_string();
    let script = "wall:hz:500 { @n[comm, ustack(1)] = count(); @all = count(); }
        view \"n\" { of @n  show key1, count  every 2ms clear }";
    let has_windows = |ended: &Ended| ended.stdout.matches("\"view\": \"n\"").count() > 5;
    let ended = visited_until(script, &["-f", "json", "-p", &pid], |ended| {
        has_windows(ended) && rounds(ended)["rounds"].as_u64() > Some(0)
    });
    let documents: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let windows: Vec<&Value> = documents.iter().filter(|it| it["data"]["view"] == "n").collect();
    let rows = windows.iter().flat_map(|it| it["data"]["rows"].as_array().expect("rows"));
    let sum: u64 = rows.map(|row| row["count"].as_u64().expect("a count")).sum();
    let all = documents.iter().find_map(|it| it["data"]["@all"].as_u64());
    assert!(windows.len() > 5 && all.is_some_and(|all| all > 0), "{}", ended.stdout);
    assert_eq!(Some(sum), all, "{}", ended.stdout);
}

#[test]
fn a_thread_that_goes_on_has_another_stack() {
    if skip() {
        return;
    }
    // The same thread first waits for a child and then sleeps: for longer if that is too short for
    // a round on a busy machine.
    let script = "wall:hz:200 { @[kstack] = count(); }";
    let mut seen = Vec::new();
    for seconds in ["0.3", "3", "30"] {
        let command = format!("sh -c 'sleep {seconds}; exec sleep {seconds}'");
        let ended = run(&["-q", "-f", "json", "-e", script, "-c", &command]);
        let counts = counts(&ended, "@");
        let has = |function: &str| counts.keys().any(|key| key.contains(function));
        if has("do_wait") && has("nanosleep") {
            return;
        }
        seen.push(ended.stdout);
    }
    panic!("{seen:?}");
}

#[test]
fn threads_come_and_go_and_none_is_counted_twice() {
    if skip() {
        return;
    }
    // A name of its own: a thread of another test may be visited in the round that does not end.
    let directory = Directory::new("visits");
    let program = directory.path("come-and-go");
    copy(workload(), &program);
    let script = "wall:hz:200 / leader_comm == \"come-and-go\" / { @[tid] = count(); }";
    with_enough_calls(100, |ms| {
        let running = attached(&["-q", "-f", "json", "-e", script]);
        for _ in 0..3 {
            let load = Running::start(Command::new(&program).args(["sleepers", "30", &ms.to_string()])).end();
            assert_eq!(load.code(), 0, "{}", load.stderr);
        }
        running.signal("INT");
        let ended = running.end();
        let made = rounds(&ended)["rounds"].as_u64().expect("a number");
        let counts = if ended.stdout.contains("\"@\": ") { counts(&ended, "@") } else { BTreeMap::new() };
        assert!(counts.values().all(|count| *count <= made), "{made}: {}", ended.stdout);
        counts.len() > 30
    });
}

#[test]
fn exit_ends_a_round_which_is_then_not_counted() {
    if skip() {
        return;
    }
    let ended = run(&["-q", "-f", "json", "-e", "wall:hz:100 { @visits++; if (@visits == 3) { exit(7); } }"]);
    assert_eq!((ended.code(), rounds(&ended)["rounds"].as_u64()), (7, Some(0)), "{}", ended.stdout);
    assert!(ended.stdout.contains(r#""@visits": 3"#), "{}", ended.stdout);
}

#[test]
fn a_small_ring_loses_nothing() {
    if skip() {
        return;
    }
    let _process = held();
    let script = "config = { perf_rb_pages = 1 }
        wall:hz:20 { printf(\"a line of some length, to fill the ring soon, %d\\n\", pid); @++; }";
    let printed = |ended: &Ended| ended.stdout.lines().filter(|line| line.starts_with("a line")).count();
    let ended = visited_until(script, &[], |ended| printed(ended) > 200);
    assert!(!ended.stderr.contains("ring buffer full"), "{}", ended.stderr);
    let printed = printed(&ended);
    assert!(printed > 200, "{printed}");
    assert_eq!(ended.lines(&format!("@: {printed}")), 1, "{printed}");
}

#[test]
fn how_late_it_was_is_printed() {
    if skip() {
        return;
    }
    let is_said = |ended: &Ended| {
        let line = ended.stderr.lines().find(|line| line.trim().starts_with("wall:hz:100: ")).unwrap_or_default();
        line.contains(" late, the longest took ")
    };
    let ended = visited_until("wall:hz:100 { @ = count(); }", &[], is_said);
    assert!(is_said(&ended), "{}{}", ended.stdout, ended.stderr);
}

/// The group of a thread that computes has a tenth of a CPU, so it is throttled for most of each of
/// forty periods of 100 ms, unless others have all CPUs; a round is 5 ms. Threads without a quota
/// are never throttled: `every_thread_is_visited_in_every_round_in_its_state`.
#[test]
fn a_thread_that_waits_for_its_quota_is_throttled() {
    if skip() {
        return;
    }
    let script = "wall:hz:200 / comm == \"workload\" / { @[comm, state] = count(); }";
    // On a busy machine, the thread may have ended before the first round.
    let is_seen = (0..5).any(|_| {
        let mut load = Command::new(workload()).args(["act", "throttled", "4000"]).spawn().expect("it runs");
        let ended = run(&["-q", "-f", "json", "-e", script, "--duration", "2s"]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert!(load.wait().expect("our own").success(), "it has a group with a quota");
        ended.stdout.contains("[\"workload\",\"throttled\"]")
    });
    assert!(is_seen, "no round saw it");
}
