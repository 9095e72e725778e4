//! Visits to threads at a fixed rate, against threads whose state is known.
//!
//! In: `workload held`, whose threads never leave the state that they have the name of. Out: the
//! same from `wall`, with every thread once in every round.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::machine::{Ended, Running, attached, patience, run, skip, wait_for, workload};

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
        let waiting = stats.filter(|stat| BLOCKED.iter().any(|name| stat.contains(&format!("({name}) S"))));
        (waiting.count() as u64 == EACH * BLOCKED.len() as u64).then_some(())
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

/// Runs a script until it has made some rounds, and ends it in between.
fn visited(script: &str, options: &[&str]) -> Ended {
    let mut arguments = vec!["-q", "-f", "json", "-e", script, "--duration", "1s"];
    arguments.extend(options);
    let ended = attached(&arguments).end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    ended
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
    let ended = visited(script, &["-p", &pid]);
    let made = rounds(&ended)["rounds"].as_u64().expect("a number");
    let (stacks, frames) = (counts(&ended, "@"), counts(&ended, "@frames"));
    for (thread, function) in WAITS_IN {
        let of_thread = stacks.iter().filter(|(key, _)| key.starts_with(&format!("{thread},")));
        assert_eq!(of_thread.clone().map(|it| it.1).sum::<u64>(), made * EACH, "{thread}: {}", ended.stdout);
        let is_whole = |key: &&String| key.contains(function) && key.contains("thread_start") && !key.contains("ends");
        let whole: u64 = of_thread.filter(|(key, _)| is_whole(key)).map(|it| it.1).sum();
        // The tables of the process may come a round later.
        assert!(whole >= made * EACH / 2, "{thread}: {whole} of {}: {}", made * EACH, ended.stdout);
        let deepest =
            frames.keys().filter_map(|key| key.strip_prefix(&format!("{thread},"))?.parse::<u64>().ok()).max();
        assert!(deepest.is_some_and(|frames| frames >= 5), "{thread}: {}", ended.stdout);
    }
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
    let duration = format!("{}ms", 500 * patience());
    let ended = run(&["-q", "-f", "json", "-e", script, "-p", &pid, "--duration", &duration]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
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
    // The same thread first waits for a child and then sleeps.
    let script = "wall:hz:200 { @[kstack] = count(); }";
    let command = "sh -c 'sleep 1; exec sleep 1'";
    let ended = run(&["-q", "-f", "json", "-e", script, "-c", command]);
    let counts = counts(&ended, "@");
    let has = |function: &str| counts.keys().any(|key| key.contains(function));
    assert!(has("do_wait") && has("nanosleep"), "{}", ended.stdout);
}

#[test]
fn threads_come_and_go_and_none_is_counted_twice() {
    if skip() {
        return;
    }
    let script = "wall:hz:200 / leader_comm == \"workload\" / { @[tid] = count(); }";
    let running = attached(&["-q", "-f", "json", "-e", script]);
    for _ in 0..3 {
        let load = Running::start(Command::new(workload()).args(["sleepers", "30", "100"])).end();
        assert_eq!(load.code(), 0, "{}", load.stderr);
    }
    running.signal("INT");
    let ended = running.end();
    let made = rounds(&ended)["rounds"].as_u64().expect("a number");
    let counts = counts(&ended, "@");
    assert!(counts.len() > 30, "{}", ended.stdout);
    assert!(counts.values().all(|count| *count <= made), "{made}: {}", ended.stdout);
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
    let duration = format!("{}ms", 500 * patience());
    let ended = run(&["-q", "--duration", &duration, "-e", script]);
    assert_eq!((ended.code(), ended.stderr.contains("ring buffer full")), (0, false), "{}", ended.stderr);
    let printed = ended.stdout.lines().filter(|line| line.starts_with("a line")).count();
    assert!(printed > 200, "{printed}");
    assert_eq!(ended.lines(&format!("@: {printed}")), 1, "{printed}");
}

#[test]
fn how_late_it_was_is_printed() {
    if skip() {
        return;
    }
    let ended = run(&["-q", "--duration", "300ms", "-e", "wall:hz:100 { @ = count(); }"]);
    let line = ended.stderr.lines().find(|line| line.trim().starts_with("wall:hz:100: ")).unwrap_or_default();
    assert!(line.contains(" late, the longest took "), "{}{}", ended.stdout, ended.stderr);
}
