//! `cpu/…`: threads that wait in known ways.

use super::super::machine::skip;
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
        recipe: &["cpu/offcpu", "--pid", "PID", "--rows", "100"],
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
