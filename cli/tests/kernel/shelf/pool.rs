//! `pool/…`: workers that are idle, starved of CPU time, or blocked.

use serde_json::Value;

use super::super::machine::{patience, skip};
use super::super::recipes::{Outcome, tolerance};
use super::says_in_words;

/// The sum of a column over all workers.
fn total(outcome: &Outcome, column: &str) -> f64 {
    outcome.rows("workers").iter().filter_map(|row| row[column].as_f64()).sum()
}

/// The verdict that the recipe's description gives for these shares of the time.
fn verdict(row: &Value) -> &'static str {
    let share = |column: &str| row[column].as_f64().expect("a number");
    let (running, ready, blocked) = (share("running %"), share("wait for CPU %"), share("blocked %"));
    match () {
        () if share("idle %") >= 20.0 || 2.0 * running >= running + ready + blocked => "healthy",
        () if ready >= 2.0 * blocked => "starved",
        () if blocked >= 2.0 * ready => "blocked",
        () => "mixed",
    }
}

/// Runs a crew of four and checks its times against its own clock. `None` if the times are too far
/// off, because the load was preempted between the wait and its clock.
fn crew(kind: &str, pieces: u32) -> Option<Outcome> {
    let load = format!("act crew {kind} 4 {pieces}");
    let outcome = Outcome::run(&load, &["pool/utilisation", "--pid", "PID", "--worker", "^crew$"]);
    let pools = outcome.rows("pools");
    assert_eq!(pools.len(), 1, "{}", outcome.text);
    let pool = &pools[0];
    assert_eq!((&pool["process"], &pool["workers"]), (&"workload".into(), &4.into()), "{}", outcome.text);
    assert_eq!(pool["pid"].as_f64(), Some(outcome.truth("pid")), "{}", outcome.text);
    assert_eq!(outcome.rows("workers").len(), 4, "{}", outcome.text);
    let shares = ["running %", "wait for CPU %", "blocked %", "idle %"].map(|name| pool[name].as_f64().unwrap_or(0.0));
    assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.1, "{}", outcome.text);
    assert_eq!(pool["verdict"], verdict(pool), "{}", outcome.text);
    // A thread that returns from a wait for work may wait for a CPU first, which is not idle time.
    let (idle, waits) = (total(&outcome, "idle"), total(&outcome, "waits for CPU"));
    assert!(idle <= outcome.truth("idle_ns") * 1.01 + 1e6, "{}", outcome.text);
    let all = idle + waits + total(&outcome, "running") + total(&outcome, "blocked");
    let truth = outcome.truth("idle_ns") + outcome.truth("busy_ns");
    // Its threads exist for a while before and after they measure.
    ((all - truth).abs() <= truth * (tolerance() + 10.0) / 100.0).then_some(outcome)
}

fn checked(kind: &str, pieces: u32) -> Outcome {
    let tried = (0..super::TRIES).find_map(|_| crew(kind, pieces));
    tried.unwrap_or_else(|| panic!("the times of {kind} are off in every run"))
}

#[test]
fn workers_that_wait_for_a_cpu_are_starved() {
    if skip() {
        return;
    }
    let outcome = checked("spin", 40 * patience());
    assert_eq!(outcome.rows("pools")[0]["verdict"], "starved", "{}", outcome.text);
    assert!(total(&outcome, "blocked") < 0.1 * outcome.truth("busy_ns"), "{}", outcome.text);
}

/// Number of attempts: on a busy machine, every second one may be disturbed.
const MANY_TRIES: usize = 12;

/// Whether workers were blocked as long as their work took: a piece is a sleep of 10 ms. On a busy
/// machine they wait for a CPU after it. It is never less.
fn blocked_only_by_work(outcome: &Outcome, pieces: u32) -> bool {
    let slept = f64::from(pieces) * 1e7;
    let blocked = total(outcome, "blocked");
    assert!(blocked >= slept, "{}", outcome.text);
    // On emulated processors, the way from a wake-up to the load's clock is long.
    let beside_clock = if patience() > 1 { tolerance() } else { 1.0 };
    blocked <= (1.0 + beside_clock / 100.0) * outcome.truth("busy_ns") + 1e6
}

#[test]
fn workers_that_sleep_at_work_are_blocked_and_those_without_work_idle() {
    if skip() {
        return;
    }
    for (kind, pieces) in [("sleep", 80), ("idle", 30)] {
        // If the thread that adds work is preempted while it holds the lock, the workers that it
        // has woken wait for the lock: they are blocked, and the load takes that for idle time.
        let is_right = |outcome: &Outcome| blocked_only_by_work(outcome, pieces);
        let tries: Vec<Outcome> =
            (0..MANY_TRIES).map(|_| checked(kind, pieces)).take_while(|outcome| !is_right(outcome)).collect();
        assert!(tries.len() < MANY_TRIES, "{}", tries[0].text);
    }
    let outcome = checked("idle", 30);
    assert_eq!(outcome.rows("pools")[0]["verdict"], "healthy", "{}", outcome.text);
    assert!(total(&outcome, "idle") > 0.5 * outcome.truth("idle_ns"), "{}", outcome.text);
    let said = "no thread of these processes ran or waited for work";
    says_in_words("pool/utilisation", &["--worker", "^nobody-has-this-name$"], said);
}
