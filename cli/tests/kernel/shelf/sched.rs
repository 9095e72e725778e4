//! `sched/…`: threads that compete for a CPU, sleep, wake each other and move.

use super::super::machine::{patience, skip, with_enough_calls};
use super::super::recipes::Outcome;
use super::{Case, Is, NOBODY, Row, says_nothing};

/// The threads of the load are never blocked, so a wait of theirs is one for a CPU.
#[test]
fn waits_for_a_cpu_are_the_time_without_one() {
    if skip() {
        return;
    }
    let outcome = Outcome::run("act crowd 3 300", &["sched/runq", "--pid", "PID", "--top", "1000"]);
    let sum = |view: &str, is_it: &dyn Fn(&serde_json::Value) -> bool| -> f64 {
        outcome.rows(view).iter().filter(|row| is_it(row)).filter_map(|row| row["waited"].as_f64()).sum()
    };
    let [least, most] = ["waited_least_ns", "waited_most_ns"].map(|name| outcome.truth(name));
    let is_crowd = |row: &serde_json::Value| row["thread that waited"] == "crowd";
    outcome.expect_between(sum("who ran instead", &is_crowd), least, most, "waits");
    // While one of them is ready, its CPU is not idle.
    let busy = sum("who ran instead", &|row| is_crowd(row) && row["ran instead"] != "idle");
    outcome.expect_between(busy, least, most, "waits while another thread runs");
    // Each view has every wait, and each of these threads waits for CPU 0.
    let all = sum("who ran instead", &|_| true);
    for view in ["waits for a CPU by process", "waits for a CPU by CPU"] {
        assert!((sum(view, &|_| true) - all).abs() < 1.0, "{view}: {all}\n{}", outcome.text);
    }
    let of_process = sum("waits for a CPU by process", &|row| row["process"] == "workload");
    let of_cpu = sum("waits for a CPU by CPU", &|row| row["cpu"] == 0);
    outcome.expect_between(of_process.min(of_cpu), least, all, "waits of the process and for the CPU");
    let titles = ["waits for a CPU by process", "waits for a CPU by CPU", "who ran instead"];
    says_nothing("sched/runq", NOBODY, &titles);
}

/// The run is longer than the load, in which four threads compete for a CPU.
#[test]
fn a_run_queue_is_as_long_as_threads_compete() {
    if skip() {
        return;
    }
    with_enough_calls(500 * u64::from(patience()), |ms| {
        let outcome = Outcome::run(&format!("act crowd 4 {ms}"), &["sched/runq-length"]);
        let row = outcome.row("run queues", "cpu", &0.into());
        let is_above = |column: &str, least: f64| row[column].as_f64() >= Some(least);
        assert!((0.0..=100.0).contains(&row["busy %"].as_f64().expect("a share")), "{}", outcome.text);
        assert!(row["p50"].as_f64() <= row["p90"].as_f64() && row["p90"].as_f64() <= row["max"].as_f64(), "{row}");
        is_above("samples", 20.0) && is_above("busy %", 70.0) && is_above("p90", 3.0) && is_above("max", 3.0)
    });
}

#[test]
fn switches_are_those_that_the_kernel_has_counted() {
    if skip() {
        return;
    }
    let switches = [("voluntary", Is::AtLeast("voluntary")), ("thread", Is::Text("workload"))];
    let outcome = Case {
        load: "act naps 50 2",
        recipe: &["sched/switches", "--pid", "PID", "--top", "1000"],
        rows: &[Row { view: "switches", keys: &[("tid", "=pid"), ("thread", "workload")], cells: &switches }],
        lines: &[],
    }
    .check();
    let total = |outcome: &Outcome, thread: &str, column: &str| -> f64 {
        let rows = outcome.rows("switches").iter().filter(|row| row["thread"] == thread);
        rows.filter_map(|row| row[column].as_f64()).sum()
    };
    // The load counts until it ends. After that it waits only a few times, as for the pages of its
    // memory.
    let voluntary = total(&outcome, "workload", "voluntary");
    assert!(voluntary <= outcome.truth("voluntary_all") + 20.0, "{}", outcome.text);
    // Threads that compete are preempted. The load counts while they do.
    let outcome = Case {
        load: "act crowd 2 200",
        recipe: &["sched/switches", "--pid", "PID", "--top", "1000"],
        rows: &[Row { view: "switches", keys: &[("thread", "crowd")], cells: &[("pid", Is::Truth("pid"))] }],
        lines: &[],
    }
    .check();
    let preempted = outcome.truth("preempted");
    assert!(preempted > 0.0 && total(&outcome, "crowd", "involuntary") >= preempted, "{}", outcome.text);
    says_nothing("sched/switches", NOBODY, &["switches"]);
}

#[test]
fn a_thread_that_waits_is_woken_by_its_partner() {
    if skip() {
        return;
    }
    // A byte that comes before `pong` waits for it wakes no thread.
    Case {
        load: "act pingpong 300",
        recipe: &["sched/wakers", "--woken", "PID", "--pid", "PID"],
        rows: &[Row {
            view: "wake-ups",
            keys: &[("waker", "ping"), ("woken", "pong")],
            cells: &[("wake-ups", Is::AtLeast("pong_slept")), ("wake-ups", Is::AtMost("sent"))],
        }],
        lines: &[],
    }
    .check();
    says_nothing("sched/wakers", NOBODY, &["wake-ups"]);
}

#[test]
fn a_change_of_the_cpu_is_a_migration() {
    if skip() {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED: a thread moves only where there are two CPUs");
        return;
    }
    Case {
        load: "act moves 20",
        // Other threads may be moved to where there is a free CPU.
        recipe: &["sched/affinity", "--pid", "PID", "--comm", "^mover$"],
        rows: &[
            Row {
                view: "migrations by thread",
                keys: &[("thread", "mover")],
                cells: &[("moves", Is::Truth("moves")), ("pid", Is::Truth("pid"))],
            },
            Row {
                view: "migrations by CPU",
                keys: &[("from", "0"), ("to", "1")],
                cells: &[("moves", Is::Number(10.0))],
            },
        ],
        lines: &[],
    }
    .check();
    says_nothing("sched/affinity", NOBODY, &["migrations by thread", "migrations by CPU"]);
}
