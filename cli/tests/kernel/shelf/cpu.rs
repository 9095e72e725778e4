//! `cpu/…`: threads that wait in known ways.

use super::super::machine::skip;
use super::super::recipes::{Outcome, TRIES};
use super::{Case, Is, NOBODY, Row, says_nothing};

#[test]
fn time_off_the_cpu_is_what_threads_lose() {
    if skip() {
        return;
    }
    let row = |thread, why| [("thread", thread), ("why", why)];
    let (locked, piped, made_room) = (row("lock", "blocked"), row("pipe", "blocked"), row("runnable", "preempted"));
    let takes = |truth| [("time", Is::About(truth))];
    Case {
        load: "states 100 2",
        recipe: &["cpu/offcpu", "--pid", "PID", "--top", "100"],
        rows: &[
            Row { view: "time off the CPU", keys: &locked, cells: &takes("lock_ns") },
            Row { view: "time off the CPU", keys: &piped, cells: &takes("pipe_ns") },
            Row { view: "time off the CPU", keys: &made_room, cells: &takes("runnable_ns") },
        ],
        lines: &[],
    }
    .check();
    says_nothing("cpu/offcpu", NOBODY, &["time off the CPU", "time off the CPU by stack"]);
}

/// How far a share may be off, in percentage points: about four times the error of a thousand
/// samples that a hypervisor takes in bursts.
const SHARE_TOLERANCE: f64 = 12.0;

/// The column of the only row of a function.
fn of_function(outcome: &Outcome, function: &str, column: &str) -> f64 {
    let row = outcome.row("CPU time by function", "function", &function.into());
    row[column].as_f64().unwrap_or(0.0)
}

#[test]
fn functions_have_their_share_of_the_cpu_time_by_themselves_and_in_total() {
    if skip() {
        return;
    }
    for left in (0..TRIES).rev() {
        let outcome = Outcome::with("cpu/hot-functions", "shares 1500", &["--hz", "997", "--top", "1000"]);
        let names = ["share_70", "share_20", "share_10"];
        let spent_ns = names.map(|name| outcome.truth(&format!("{name}_ns")));
        let of_name = |name: &str, column| of_function(&outcome, &format!("workload_{name}"), column);
        let is_near = |(name, ns): (&str, f64)| {
            let truth = 100.0 * ns / spent_ns.iter().sum::<f64>();
            (of_name(name, "share") - truth).abs() <= SHARE_TOLERANCE && of_name(name, "total") >= of_name(name, "self")
        };
        let callers_have_all = of_function(&outcome, "main", "of total") > 80.0;
        let is_right = names.into_iter().zip(spent_ns).all(is_near) && callers_have_all;
        assert!(of_function(&outcome, "main", "samples") < of_function(&outcome, "workload_share_70", "samples"));
        if is_right {
            break;
        }
        assert!(left > 0, "{}", outcome.text);
    }
    says_nothing("cpu/hot-functions", NOBODY, &["CPU time by function"]);
}
