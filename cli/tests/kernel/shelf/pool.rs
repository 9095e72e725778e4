//! `pool/…`: workers that are idle, starved of CPU time, or blocked.

use std::process::Command;

use serde_json::Value;

use super::super::machine::{Directory, patience, skip, with_enough_calls};
use super::super::recipes::Outcome;
use super::programs::{PROGRAMS, beside};
use super::{find, says_in_words};

/// The sum of a column over all workers.
fn total(outcome: &Outcome, column: &str) -> f64 {
    outcome.rows("workers").iter().filter_map(|row| row[column].as_f64()).sum()
}

/// The verdict that the recipe's description gives for these shares of the time, if no thread hands
/// requests on.
fn verdict(row: &Value) -> &'static str {
    let share = |column: &str| row[column].as_f64().expect("a number");
    let (running, ready) = (share("running %"), share("wait for CPU %"));
    let with = |blocked: f64, idle: f64| match () {
        () if idle >= 20.0 || 2.0 * running >= running + ready + blocked => "healthy",
        () if ready >= 2.0 * blocked => "starved",
        () if blocked >= 2.0 * ready => "blocked",
        () => "mixed",
    };
    let (blocked, idle, unclear) = (share("blocked %"), share("idle %"), share("unclear %"));
    let (if_idle, if_blocked) = (with(blocked, idle + unclear), with(blocked + unclear, idle));
    if if_idle == if_blocked { if_idle } else { "unknown: waits are unclear" }
}

const SHARES: [&str; 5] = ["running %", "wait for CPU %", "blocked %", "idle %", "unclear %"];

/// Runs a crew of four and checks its times against its own clock.
fn crew(kind: &str, pieces: u64) -> Outcome {
    let load = format!("act crew {kind} 4 {pieces}");
    let outcome = Outcome::run(&load, &["pool/utilisation", "--pid", "PID", "--worker", "^crew$"]);
    let pools = outcome.rows("pools");
    assert_eq!(pools.len(), 1, "{}", outcome.text);
    let pool = &pools[0];
    assert_eq!((&pool["process"], &pool["workers"]), (&"workload".into(), &4.into()), "{}", outcome.text);
    assert_eq!(pool["pid"].as_f64(), Some(outcome.truth("pid")), "{}", outcome.text);
    assert_eq!(outcome.rows("workers").len(), 4, "{}", outcome.text);
    let shares = SHARES.map(|name| pool[name].as_f64().unwrap_or(0.0));
    assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.1, "{}", outcome.text);
    assert_eq!(pool["verdict"], verdict(pool), "{}", outcome.text);
    // A thread that returns from a wait for work may wait for a CPU first, which is not idle time.
    let (idle, waits) = (total(&outcome, "idle") + total(&outcome, "unclear"), total(&outcome, "waits for CPU"));
    assert!(idle <= outcome.truth("idle_ns") * 1.01 + 1e6, "{}", outcome.text);
    let all = idle + waits + total(&outcome, "running") + total(&outcome, "blocked");
    // Its threads exist for a while before and after they measure.
    let least = outcome.truth("idle_ns") + outcome.truth("busy_ns");
    outcome.expect_between(all, least, outcome.truth("existed_ns"), "all times");
    outcome
}

/// Its threads wait for their first work while others are started, which is a smaller part of a
/// longer run.
#[test]
fn workers_that_wait_for_a_cpu_are_starved() {
    if skip() {
        return;
    }
    with_enough_calls(40 * u64::from(patience()), |pieces| {
        let outcome = crew("spin", pieces);
        let is_starved = outcome.rows("pools")[0]["verdict"] == "starved";
        is_starved && total(&outcome, "blocked") < 0.1 * outcome.truth("busy_ns")
    });
}

/// A piece of work is a sleep of 10 ms. Workers are blocked that long and idle for the rest, but
/// for the time in which they run or wait for a CPU or for the lock.
#[test]
fn workers_that_sleep_at_work_are_blocked_and_those_without_work_idle() {
    if skip() {
        return;
    }
    for (kind, pieces) in [("sleep", 80), ("idle", 30)] {
        let outcome = crew(kind, pieces);
        let [blocked, idle, unclear] = ["blocked", "idle", "unclear"].map(|column| total(&outcome, column));
        let slept = outcome.truth("pieces") * 1e7;
        assert!(blocked >= slept, "{}", outcome.text);
        outcome.expect_between(blocked + idle + unclear, slept, outcome.truth("existed_ns"), kind);
    }
    let said = "no thread of these processes ran or waited for work";
    says_in_words("pool/utilisation", &["--worker", "^nobody-has-this-name$"], said);
}

/// The crew waits for its work by a condition variable, which looks like a lock of a kind that is
/// not known. On a busy machine, workers that are woken wait for a CPU and for the lock instead.
#[test]
fn waits_for_work_that_may_be_for_a_lock_are_unclear() {
    if skip() {
        return;
    }
    let outcome = crew("idle", 30);
    assert_eq!(outcome.rows("pools")[0]["verdict"], "unknown: waits are unclear", "{}", outcome.text);
    assert!(total(&outcome, "unclear") > 0.5 * outcome.truth("idle_ns"), "{}", outcome.text);
}

/// Runs a server of four threads. They are its workers, and they are not idle while they have a
/// request in hand.
fn server(clients: u64, connections: u64, way: &str) -> (Outcome, String) {
    let load = format!("pool 4 {clients} {connections} 3 2000 {way}");
    let outcome = Outcome::run(load.trim_end(), &["pool/utilisation", "--pid", "PID"]);
    let pools = outcome.rows("pools");
    assert_eq!(pools.len(), 1, "{}", outcome.text);
    let (pool, servers) = (&pools[0], outcome.truth("servers"));
    let idle = total(&outcome, "idle") + total(&outcome, "unclear");
    let most = servers * outcome.truth("wall_ns") - outcome.truth("served_ns");
    assert!(idle <= most * 1.01 + 1e6, "{idle} of {most}: {}", outcome.text);
    if way != "handed" {
        assert_eq!(pool["workers"].as_f64(), Some(servers), "{}", outcome.text);
        assert_eq!(pool["unclear %"].as_f64(), Some(0.0), "{}", outcome.text);
        assert_eq!(pool["verdict"], verdict(pool), "{}", outcome.text);
        assert!(total(&outcome, "blocked") >= outcome.truth("requests") * 2e6, "{}", outcome.text);
    }
    let verdict = pool["verdict"].as_str().expect("a verdict").to_owned();
    (outcome, verdict)
}

/// The threads take connections from a queue, by a lock and a condition variable. With a request in
/// hand, the wait for a lock is one, whatever its word.
#[test]
fn a_wait_with_a_request_in_hand_is_blocked_and_one_without_is_idle() {
    if skip() {
        return;
    }
    let first = 20 * u64::from(patience());
    // A single client: at least three of the four have nothing to do.
    with_enough_calls(first, |connections| server(1, connections, "").1 == "healthy");
    with_enough_calls(first, |connections| server(8, connections, "locked").1 == "blocked");
}

#[test]
fn nothing_is_said_of_threads_that_hand_requests_on() {
    if skip() {
        return;
    }
    let (outcome, verdict) = server(4, 20, "handed");
    assert_eq!(verdict, "unknown: threads hand requests on", "{}", outcome.text);
}

/// With a request in hand, a thread waits in an epoll instance from which no request can come. A
/// request that is older than the run is in hand as well, also if it is never answered. A thread is
/// idle if it waits for an instance of an instance with its client.
#[test]
fn a_wait_that_no_request_can_end_is_blocked() {
    if skip() {
        return;
    }
    let directory = Directory::new("latch");
    let program = directory.path("latch");
    let Ok(built) = Command::new("cc").args(["-O1", "-o", &program, &format!("{PROGRAMS}/latch.c")]).output() else {
        println!("SKIPPED: there is no C compiler");
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for arguments in [["0", "1000"].as_slice(), &["20", "20"], &["20", "20", "nested"]] {
        let recipe = ["pool/utilisation", "--pid", "PID"];
        let outcome = beside(Command::new(&program).args(arguments), &recipe).expect("it was compiled");
        let pools = outcome.rows("pools");
        assert_eq!(pools.len(), 1, "{}", outcome.text);
        assert_eq!((&pools[0]["workers"], &pools[0]["verdict"]), (&1.into(), &verdict(&pools[0]).into()));
        let [blocked, idle, unclear] = ["blocked", "idle", "unclear"].map(|column| total(&outcome, column));
        assert!(unclear == 0.0, "{}", outcome.text);
        // A thread that exists has no time until an iterator has visited it.
        let others = total(&outcome, "running") + total(&outcome, "waits for CPU");
        let missed = (outcome.truth("run_ns") - blocked - idle - others).max(0.0);
        let least = outcome.truth("waited_ns") * 0.99 - missed;
        assert!(blocked >= least && idle <= outcome.truth("run_ns") - least, "{}", outcome.text);
        if arguments[0] == "0" {
            assert!(blocked > 0.0 && idle == 0.0, "{}", outcome.text);
        } else {
            assert!(idle >= outcome.truth("paused_ns") * 0.99 - missed - others, "{}", outcome.text);
        }
        let wait = find(&outcome, "what busy workers wait for", &[("call", "epoll_wait")]);
        assert!(wait["blocked"].as_f64() >= Some(least), "{}", outcome.text);
    }
}
