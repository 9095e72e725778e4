//! `--every` of the recipes: tables of what happened since the previous one.
//!
//! In: every recipe, and loads that know what they did. Out: windows.
//! Guarantee: what the windows show adds up to what the load did, also in files of stacks. What a
//! recipe computes at the end of a run, it computes at the end of each window.

use serde_json::Value;

use super::super::machine::{Directory, patience, run, skip, with_enough_calls};
use super::super::recipes::Outcome;
use super::{NOBODY, every, says_nothing};

/// The recipes without `--every`, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("io/slow", "a line for each event"),
    ("mem/oom", "a line for each event"),
    ("proc/exec", "a line for each event"),
    ("proc/opens", "a line for each event"),
    ("syscall/slow", "a line for each event"),
    ("mem/leaks", "what is left at the end"),
    ("runtime/identify", "what is there at one moment"),
];

/// A recipe refuses windows in a sentence of its own.
const REFUSES: &[&str] = &["wall/profile"];

#[test]
fn each_recipe_has_windows_unless_it_has_no_table_for_them() {
    if skip() {
        return;
    }
    for name in &every::recipes() {
        if REFUSES.contains(&name.as_str()) {
            continue;
        }
        let lacks = WITHOUT.iter().any(|(without, _)| without == name);
        let with = run(&["-q", name, "--dry-run", "--every", "1s"]);
        let is_expected = if lacks {
            with.code() == 2 && with.stderr.contains("--every")
        } else {
            // A recipe that this machine cannot run says why, with windows and without.
            with.code() == 0 || with.code() == run(&["-q", name, "--dry-run"]).code()
        };
        assert!(is_expected, "{name}: {}\n{}", with.code(), with.stderr);
    }
}

#[test]
fn servers_are_found_by_name_and_their_requests_are_in_one_window_each() {
    if skip() {
        return;
    }
    let arguments = ["pool/queue-depth", "--comm", "^workload$", "--every", "100ms"];
    // On a busy machine, a window may be late.
    with_enough_calls(50, |requests| {
        let outcome = Outcome::run(&format!("keepalive tcp 8 {requests} 1 {}", 1000 * patience()), &arguments);
        let windows = outcome.windows("queue and service");
        // Loads of other tests have the same name.
        let all = outcome.truth("requests");
        let mut pids = windows.iter().flat_map(|rows| rows.iter()).map(|row| &row["pid"]);
        let is_one = pids.any(|pid| Some(total(&windows, "requests", |row| row["pid"] == *pid)) == Some(all));
        assert!(is_one, "{}", outcome.text);
        windows.len() >= 3
    });
    says_nothing("pool/queue-depth", NOBODY, &["queue and service", "waiting and busy requests"]);
}

/// The sum of a column over the rows of all windows that pass a test.
fn total(windows: &[&Vec<Value>], column: &str, is_it: impl Fn(&Value) -> bool) -> f64 {
    let rows = windows.iter().flat_map(|rows| rows.iter());
    rows.filter(|row| is_it(row)).filter_map(|row| row[column].as_f64()).sum()
}

#[test]
fn counts_of_all_windows_are_those_of_the_run() {
    if skip() {
        return;
    }
    with_enough_calls(1, |seconds| {
        let load = format!("paced 500 {seconds}");
        let outcome = Outcome::run(&load, &["syscall/counts", "--pid", "PID", "--every", "200ms"]);
        let windows = outcome.windows("system calls");
        let calls = total(&windows, "calls", |row| row["call"] == "getppid");
        assert_eq!(Some(calls), Some(outcome.truth("calls")), "{}", outcome.text);
        windows.len() >= 3
    });
}

#[test]
fn a_file_of_stacks_holds_all_windows() {
    if skip() {
        return;
    }
    let directory = Directory::new("windows");
    let folded = directory.path("folded");
    let arguments = ["cpu/profile", "--pid", "PID", "--every", "200ms", "--folded", &folded];
    with_enough_calls(800 * u64::from(patience()), |ms| {
        let outcome = Outcome::run(&format!("shares {ms}"), &arguments);
        let windows = outcome.windows("CPU time by process");
        let samples = total(&windows, "samples", |_| true);
        let text = std::fs::read_to_string(&folded).expect("written");
        let counts = text.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        assert_eq!(Some(counts.sum::<f64>()), Some(samples), "{text}\n{}", outcome.text);
        windows.len() >= 3 && samples > 50.0
    });
}

/// The windows of a load whose threads queue for short holds.
fn windows_of_a_convoy(times: u64) -> Outcome {
    let load = format!("contend 4 {times} {}", 1000 * patience());
    Outcome::run(&load, &["lock/convoy", "--pid", "PID", "--every", "300ms"])
}

#[test]
fn the_waits_and_holds_of_a_mutex_are_in_one_window_each() {
    if skip() {
        return;
    }
    with_enough_calls(300, |times| {
        let outcome = windows_of_a_convoy(times);
        let windows = outcome.windows("contended mutexes");
        let rows: Vec<&Value> = windows.iter().flat_map(|rows| rows.iter()).collect();
        // A wait that ends just after the verdict is in the same window as waits without one.
        let judged: Vec<&&Value> = rows.iter().filter(|row| row["verdict"].is_string()).collect();
        let is_known =
            |row: &&&Value| ["convoy", "mixed", "long holds"].iter().any(|verdict| row["verdict"] == *verdict);
        assert!(judged.iter().all(is_known), "{}", outcome.text);
        // Four threads: the one that waits is not in the queue that it meets.
        let has_queue = |row: &&&Value| row["queue"].as_f64().is_some_and(|queue| (1.0..=3.0).contains(&queue));
        assert!(judged.iter().all(has_queue), "{}", outcome.text);
        // Windows in which no thread waited are not shown.
        let lock = outcome.address("lock");
        let sum = |column: &str| total(&windows, column, |row| row["lock"].as_u64() == Some(lock));
        assert!(sum("holds") <= outcome.truth("locks") && sum("waits") <= outcome.truth("locks"), "{}", outcome.text);
        assert!(
            sum("waited") <= outcome.truth("waited_ns") && sum("held") <= outcome.truth("used_ns"),
            "{}",
            outcome.text
        );
        judged.len() >= 2 && sum("holds") > 0.0
    });
}

/// On a busy machine a thread is preempted while it holds the lock. That window has long holds, and
/// some windows have no waits.
#[test]
fn each_window_has_the_verdict_of_its_own_waits() {
    if skip() {
        return;
    }
    let outcome = windows_of_a_convoy(300);
    let windows = outcome.windows("contended mutexes");
    assert!(windows.len() >= 3, "{}", outcome.text);
    let is_it = |row: &&Value| row["waits"].as_f64() >= Some(10.0);
    let rows: Vec<&Value> = windows.iter().flat_map(|rows| rows.iter()).filter(is_it).collect();
    let is_right = |row: &&&Value| ["convoy", "mixed"].iter().any(|verdict| row["verdict"] == *verdict);
    let right = rows.iter().filter(is_right).count();
    assert!(right >= 2 && 2 * right >= rows.len(), "{}", outcome.text);
    let (holds, all) = (total(&windows, "holds", |row| row["lock"] == rows[0]["lock"]), outcome.truth("locks"));
    assert!((0.8 * all..=all).contains(&holds), "{holds}: {}", outcome.text);
}

#[test]
fn the_times_of_workers_add_up_over_the_windows() {
    if skip() {
        return;
    }
    with_enough_calls(80 * u64::from(patience()), |pieces| {
        let load = format!("act crew sleep 4 {pieces}");
        let arguments = ["pool/utilisation", "--pid", "PID", "--worker", "^crew$", "--every", "100ms"];
        let outcome = Outcome::run(&load, &arguments);
        let pools = outcome.windows("pools");
        let shares = ["running %", "wait for CPU %", "blocked %", "idle %", "unclear %"];
        for pool in pools.iter().flat_map(|rows| rows.iter()) {
            let sum: f64 = shares.iter().filter_map(|share| pool[*share].as_f64()).sum();
            assert!((sum - 100.0).abs() < 0.1 && pool["verdict"].is_string(), "{}", outcome.text);
            // The window that ends with the run has a tick and `END`.
            assert!(pool["workers"].as_f64().is_some_and(|workers| workers <= 4.0), "{}", outcome.text);
        }
        // A piece of work is a sleep of 10 ms.
        let workers = outcome.windows("workers");
        let slept = outcome.truth("pieces") * 1e7;
        let blocked = total(&workers, "blocked", |_| true);
        outcome.expect_between(blocked, slept, outcome.truth("existed_ns"), "sleeps");
        let all: f64 = ["running", "waits for CPU", "blocked", "idle", "unclear"]
            .map(|state| total(&workers, state, |_| true))
            .iter()
            .sum();
        let least = outcome.truth("idle_ns") + outcome.truth("busy_ns");
        outcome.expect_between(all, least, outcome.truth("existed_ns"), "all times");
        pools.len() >= 2
    });
}
