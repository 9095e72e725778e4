//! `sched/…`: threads that compete for a CPU, sleep, wake each other and move.

use super::super::machine::{patience, skip};
use super::{Case, Is, NOBODY, Row, says_nothing};

#[test]
fn waits_for_a_cpu_are_the_time_without_one() {
    if skip() {
        return;
    }
    // The load does not know how long its threads wait before their first instruction, which is
    // long on emulated processors.
    let percent = if patience() == 1 { 15.0 } else { 40.0 };
    let waited = [("waited", Is::Within("waited_ns", percent))];
    let outcome = Case {
        load: "act crowd 3 300",
        recipe: &["sched/runq", "--pid", "PID"],
        rows: &[
            Row { view: "waits for a CPU by process", keys: &[("process", "workload")], cells: &waited },
            Row { view: "waits for a CPU by CPU", keys: &[("cpu", "0")], cells: &waited },
        ],
        lines: &[],
    }
    .check();
    // Whoever ran, the waits are the same.
    let rows = outcome.rows("who ran instead");
    let of_it = rows.iter().filter(|row| row["thread that waited"] == "crowd" && row["ran instead"] != "idle");
    let waited: f64 = of_it.filter_map(|row| row["waited"].as_f64()).sum();
    assert!(waited > 0.7 * outcome.truth("waited_ns"), "{}", outcome.text);
    let titles = ["waits for a CPU by process", "waits for a CPU by CPU", "who ran instead"];
    says_nothing("sched/runq", NOBODY, &titles);
}

#[test]
fn a_run_queue_is_as_long_as_threads_compete() {
    if skip() {
        return;
    }
    let queue =
        [("samples", Is::Above(20.0)), ("busy %", Is::Above(70.0)), ("p90", Is::Above(3.0)), ("max", Is::Above(3.0))];
    Case {
        load: &format!("act crowd 4 {}", 500 * patience()),
        recipe: &["sched/runq-length"],
        rows: &[Row { view: "run queues", keys: &[("cpu", "0")], cells: &queue }],
        lines: &[],
    }
    .check();
}

#[test]
fn switches_are_those_that_the_kernel_has_counted() {
    if skip() {
        return;
    }
    // The load counts while it naps, not while it starts and ends.
    let switches =
        [("voluntary", Is::AtLeast("voluntary")), ("voluntary", Is::Below(60.0)), ("thread", Is::Text("workload"))];
    Case {
        load: "act naps 50 2",
        recipe: &["sched/switches", "--pid", "PID"],
        rows: &[Row { view: "switches", keys: &[("tid", "=pid"), ("thread", "workload")], cells: &switches }],
        lines: &[],
    }
    .check();
    // Threads that compete are preempted: a time slice is some milliseconds.
    Case {
        load: "act crowd 2 200",
        recipe: &["sched/switches", "--pid", "PID"],
        rows: &[Row {
            view: "switches",
            keys: &[("thread", "crowd")],
            cells: &[("involuntary", Is::Above(5.0)), ("pid", Is::Truth("pid"))],
        }],
        lines: &[],
    }
    .check();
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
        recipe: &["sched/affinity", "--pid", "PID"],
        rows: &[
            Row {
                view: "migrations by thread",
                keys: &[("thread", "mover")],
                cells: &[("moves", Is::Truth("moves")), ("pid", Is::Truth("pid"))],
            },
            Row {
                view: "migrations by CPU",
                keys: &[("from", "0"), ("to", "1")],
                cells: &[("moves", Is::Above(10.0)), ("moves", Is::Below(14.0))],
            },
        ],
        lines: &[],
    }
    .check();
    says_nothing("sched/affinity", NOBODY, &["migrations by thread", "migrations by CPU"]);
}
