//! `--every` of the recipes: tables of what happened since the previous one.
//!
//! In: every recipe, and loads that know what they did. Out: windows.
//! Guarantee: what the windows show adds up to what the load did, also in files of stacks. What a
//! recipe computes at the end of a run, it computes at the end of each window.

use serde_json::Value;

use super::super::machine::{Directory, patience, run, skip};
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
    ("proc/exits", "maps for other scripts"),
    ("runtime/identify", "what is there at one moment"),
];

/// A recipe refuses windows in a sentence of its own.
const REFUSES: &[&str] = &["wall/profile"];

/// Whether a recipe does not load with windows.
pub fn lacks(name: &str) -> bool {
    REFUSES.contains(&name) || WITHOUT.iter().any(|(without, _)| *without == name)
}

#[test]
fn each_recipe_has_windows_unless_it_has_no_table_for_them() {
    if skip() {
        return;
    }
    let recipes = every::recipes();
    for name in recipes.iter().enumerate().filter(|(at, _)| every::has_windows_here(*at)).map(|(_, name)| name) {
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
    let outcome = Outcome::run(&format!("keepalive tcp 8 50 1 {}", 1000 * patience()), &arguments);
    let windows = outcome.windows("queue and service");
    assert!(windows.len() >= 3, "{}", outcome.text);
    // Loads of other tests have the same name.
    let mut pids = windows.iter().flat_map(|rows| rows.iter()).map(|row| &row["pid"]);
    let is_one = pids.any(|pid| Some(total(&windows, "requests", |row| row["pid"] == *pid)) == Some(400.0));
    assert!(is_one, "{}", outcome.text);
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
    let outcome = Outcome::run("paced 500 2", &["syscall/counts", "--pid", "PID", "--every", "200ms"]);
    let windows = outcome.windows("system calls");
    assert!(windows.len() >= 5, "{}", outcome.text);
    let calls = total(&windows, "calls", |row| row["call"] == "getppid");
    assert_eq!(Some(calls), Some(outcome.truth("calls")), "{}", outcome.text);
}

#[test]
fn a_file_of_stacks_holds_all_windows() {
    if skip() {
        return;
    }
    let directory = Directory::new("windows");
    let folded = directory.path("folded");
    let load = format!("shares {}", 1500 * patience());
    let arguments = ["cpu/profile", "--pid", "PID", "--every", "200ms", "--folded", &folded];
    let outcome = Outcome::run(&load, &arguments);
    let windows = outcome.windows("CPU time by process");
    assert!(windows.len() >= 5, "{}", outcome.text);
    let samples = total(&windows, "samples", |_| true);
    let text = std::fs::read_to_string(&folded).expect("written");
    let counts = text.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(samples > 50.0, "{}", outcome.text);
    assert_eq!(Some(counts.sum::<f64>()), Some(samples), "{text}\n{}", outcome.text);
}

#[test]
fn each_window_has_the_verdict_of_its_own_waits() {
    if skip() {
        return;
    }
    let outcome = Outcome::run(
        &format!("contend 4 300 {}", 1000 * patience()),
        &["lock/convoy", "--pid", "PID", "--every", "300ms"],
    );
    let windows = outcome.windows("contended mutexes");
    assert!(windows.len() >= 3, "{}", outcome.text);
    let is_it = |row: &Value| row["waits"].as_f64() >= Some(10.0);
    let rows = || windows.iter().flat_map(|rows| rows.iter()).filter(|row| is_it(row));
    // On a busy machine a thread is preempted while it holds the lock. That window has long holds.
    let right = rows().filter(|row| ["convoy", "mixed"].iter().any(|verdict| row["verdict"] == *verdict)).count();
    assert!(right >= 2 && 2 * right >= rows().count(), "{}", outcome.text);
    for row in rows() {
        // Four threads: the one that waits is not in the queue that it meets.
        assert!(row["queue"].as_f64().is_some_and(|queue| (1.0..=3.0).contains(&queue)), "{}", outcome.text);
    }
    let lock = &windows.iter().find_map(|rows| rows.first()).expect("a row")["lock"];
    // Windows in which no thread waited are not shown.
    let (holds, all) = (total(&windows, "holds", |row| row["lock"] == *lock), outcome.truth("locks"));
    assert!((0.8 * all..=all).contains(&holds), "{holds}: {}", outcome.text);
}

#[test]
fn the_times_of_workers_add_up_over_the_windows() {
    if skip() {
        return;
    }
    let load = format!("act crew sleep 4 {}", 80 * patience());
    let outcome = Outcome::run(&load, &["pool/utilisation", "--pid", "PID", "--worker", "^crew$", "--every", "200ms"]);
    let pools = outcome.windows("pools");
    assert!(pools.len() >= 2, "{}", outcome.text);
    let shares = ["running %", "wait for CPU %", "blocked %", "idle %"];
    for pool in pools.iter().flat_map(|rows| rows.iter()) {
        let sum: f64 = shares.iter().filter_map(|share| pool[*share].as_f64()).sum();
        assert!((sum - 100.0).abs() < 0.1 && pool["verdict"].is_string(), "{}", outcome.text);
        // The window that ends with the run has a tick and `END`.
        assert!(pool["workers"].as_f64().is_some_and(|workers| workers <= 4.0), "{}", outcome.text);
    }
    // A piece of work is a sleep of 10 ms.
    let workers = outcome.windows("workers");
    let slept = 80.0 * f64::from(patience()) * 1e7;
    let blocked = total(&workers, "blocked", |_| true);
    assert!((0.99 * slept..=1.01 * outcome.truth("busy_ns") + 1e6).contains(&blocked), "{blocked}\n{}", outcome.text);
}
