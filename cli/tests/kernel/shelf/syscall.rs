//! `syscall/…`: calls whose number, time and errors the load knows.

use super::super::machine::skip;
use super::super::recipes::Outcome;
use super::{Case, Is, NOBODY, Row, printed, says_nothing};

#[test]
fn system_calls_are_counted_by_name() {
    if skip() {
        return;
    }
    let calls = [("process", Is::Text("workload")), ("calls", Is::Truth("calls"))];
    Case {
        load: "getppid 500",
        recipe: &["syscall/counts", "--pid", "PID"],
        rows: &[Row { view: "system calls", keys: &[("call", "getppid")], cells: &calls }],
        lines: &[],
    }
    .check();
    says_nothing("syscall/counts", NOBODY, &["system calls"]);
}

#[test]
fn the_time_of_system_calls_is_that_of_the_caller() {
    if skip() {
        return;
    }
    let naps = [
        ("calls", Is::Truth("naps")),
        ("time", Is::Between("least_ns", "napped_ns")),
        ("p50", Is::Above(39.5e6)),
        ("p99", Is::Above(39.5e6)),
        ("p99", Is::AtMost("longest_ns")),
        ("max", Is::AtMost("longest_ns")),
    ];
    // On a busy machine, others of its calls may take long too.
    let process = [("time", Is::Between("least_ns", "run_ns")), ("max", Is::Above(4e7)), ("max", Is::AtMost("run_ns"))];
    let outcome = Case {
        load: "act naps 5 40",
        recipe: &["syscall/latency", "--pid", "PID"],
        rows: &[
            Row { view: "time by call", keys: &[("call", "nanosleep")], cells: &naps },
            Row { view: "time by process", keys: &[("process", "workload")], cells: &process },
        ],
        lines: &[],
    }
    .check();
    // Of five calls, the 99th percentile is the longest.
    let naps = outcome.row("time by call", "call", &"nanosleep".into());
    let share = naps["p99"].as_f64().expect("a time") / naps["max"].as_f64().expect("a time");
    assert!((0.98..=1.0).contains(&share), "{}", outcome.text);
    says_nothing("syscall/latency", NOBODY, &["time by call", "time by process"]);
}

#[test]
fn calls_that_fail_are_counted_with_their_errors() {
    if skip() {
        return;
    }
    Case {
        load: "closes 5000 5100",
        recipe: &["syscall/errors", "--pid", "PID"],
        rows: &[
            Row {
                view: "calls that fail",
                keys: &[("call", "close")],
                cells: &[("failed", Is::Truth("closes")), ("calls", Is::Above(100.0)), ("%", Is::Above(80.0))],
            },
            Row {
                view: "errors",
                keys: &[("call", "close")],
                cells: &[("error", Is::Text("Bad file number")), ("count", Is::Truth("closes"))],
            },
        ],
        lines: &[],
    }
    .check();
    says_nothing("syscall/errors", NOBODY, &["calls that fail", "errors"]);
}

#[test]
fn each_slow_call_is_a_line_with_its_time() {
    if skip() {
        return;
    }
    let load = "act naps 3 40";
    let outcome = Case {
        load,
        recipe: &["syscall/slow", "--pid", "PID", "--waits", "--min", "39ms"],
        rows: &[],
        lines: &[(&["workload", "nanosleep", " ms 0\\n"], 3)],
    }
    .check();
    expect_counted(&outcome);
    for line in printed(&outcome, &["nanosleep"]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "ms").expect("its time");
        let ms: f64 = words[at - 1].parse().expect("a number");
        assert!(ms >= 39.9 && ms * 1e6 <= outcome.truth("longest_ns") * 1.01, "{line}\n{}", outcome.text);
    }
    let waits = [(&["nanosleep"][..], 0)];
    let recipe = ["syscall/slow", "--pid", "PID", "--min", "39ms"];
    expect_counted(&Case { load, recipe: &recipe, rows: &[], lines: &waits }.check());
    says_nothing("syscall/slow", NOBODY, &["calls of 10 ms or longer: 0"]);
}

/// The number at the end is that of the lines between the title and it. On a busy machine, other
/// calls than sleeps may be among them.
fn expect_counted(outcome: &Outcome) {
    let calls = printed(outcome, &[]).len() - 2;
    let said = printed(outcome, &[&format!("calls of 39 ms or longer: {calls}\\n")]);
    assert_eq!(said.len(), 1, "{calls}\n{}", outcome.text);
}
