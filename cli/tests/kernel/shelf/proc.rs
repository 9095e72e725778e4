//! `proc/…`: programs, threads, signals and files that a load begins, sends and opens.

use super::super::machine::{run_beside, skip};
use super::super::recipes::Outcome;
use super::{Case, Is, NOBODY, Row, find, printed, says_in_words, says_nothing};

#[test]
fn a_program_is_a_line_with_its_arguments() {
    if skip() {
        return;
    }
    Case {
        load: "act exec hello",
        recipe: &["proc/exec", "--parent", "PID"],
        rows: &[],
        lines: &[
            (&["workload functions 1 hello"], 1),
            (&[" functions 1 "], 1),
            (&["programs started: 1, attempts that failed: 0"], 1),
        ],
    }
    .check();
    // The eleventh argument is not shown.
    // The first tells the programs of this test from others.
    let own = std::process::id();
    let many = format!(
        "sh -c 'exec /bin/echo {own} 2 3 4 5 6 7 8 9'; sh -c 'exec /bin/echo {own} 2 3 4 5 6 7 8 9 10'; (exec /no/such/program-{own}); true"
    );
    let ended = run_beside(&["-q", "-f", "json", "proc/exec", "--failed"], &many);
    let outcome = Outcome::read(ended.stdout);
    let (all, cut) = (format!("/bin/echo {own} 2 3 4 5 6 7 8 9\\n"), format!("/bin/echo {own} 2 3 4 5 6 7 8 9 ...\\n"));
    let failed = format!("/no/such/program-{own}: No such file or directory");
    for line in [all, cut, failed] {
        assert_eq!(printed(&outcome, &[&line]).len(), 1, "{line}\n{}", outcome.text);
    }
    says_nothing("proc/exec", NOBODY, &["programs started: 0, attempts that failed: 0"]);
}

#[test]
fn an_end_of_a_process_has_its_life_and_result() {
    if skip() {
        return;
    }
    Case {
        load: "act lives 4 30",
        recipe: &["proc/life", "--parent", "PID"],
        rows: &[Row {
            view: "ends of processes",
            keys: &[("process", "workload"), ("result", "exit")],
            cells: &[
                ("number", Is::Number(0.0)),
                ("ended", Is::Truth("lives")),
                ("min", Is::AtLeast("shortest_ns")),
                ("max", Is::AtMost("longest_ns")),
                ("lived p50", Is::Above(29.7e6)),
                ("lived p50", Is::AtMost("longest_ns")),
            ],
        }],
        lines: &[(&["workload", "exit 0"], 4)],
    }
    .check();
    let ended = run_beside(
        &["-q", "-f", "json", "proc/life", "--comm", "^sh$", "--lines", "false"],
        "sh -c 'kill -9 $$'; sh -c 'exit 77'; true",
    );
    let outcome = Outcome::read(ended.stdout);
    for (result, number) in [("Killed", 9), ("exit", 77)] {
        let rows = outcome.rows("ends of processes");
        let found = rows.iter().find(|row| row["result"] == result && row["number"] == number);
        assert!(found.is_some_and(|row| row["ended"].as_u64() >= Some(1)), "{result}: {}", outcome.text);
    }
    assert!(printed(&outcome, &[]).is_empty(), "{}", outcome.text);
    says_nothing("proc/life", NOBODY, &["ends of processes"]);
}

/// The main thread ends first, or while the process goes on as another program; or many threads
/// end at once.
#[test]
fn a_process_ends_once_with_its_last_thread_and_the_status_that_its_parent_gets() {
    if skip() {
        return;
    }
    let outcome = Outcome::run("act ends 20", &["proc/life", "--parent", "PID"]);
    for (result, number, name) in [("exit", "7", "many"), ("exit", "5", "other"), ("Aborted", "6", "fault")] {
        let row =
            find(&outcome, "ends of processes", &[("process", "workload"), ("result", result), ("number", number)]);
        assert_eq!(row["ended"].as_f64(), Some(outcome.truth(name)), "{name}: {}", outcome.text);
    }
    assert_eq!(printed(&outcome, &["workload"]).len(), 80, "{}", outcome.text);
    assert_eq!(outcome.rows("ends of processes").len(), 3, "{}", outcome.text);
    let counted = Outcome::run("act ends 20", &["proc/exits", "--name", "workload"]);
    for (view, keys, least) in [
        ("exit codes", [("process", "workload"), ("code", "7")], "many"),
        ("exit codes", [("process", "workload"), ("code", "5")], "other"),
        ("processes that signals killed", [("process", "workload"), ("signal", "Aborted")], "fault"),
    ] {
        let found = find(&counted, view, &keys)["processes"].as_f64();
        assert!(found >= Some(counted.truth(least)), "{view}: {least}: {}", counted.text);
    }
}

#[test]
fn a_signal_has_its_sender_and_its_receiver() {
    if skip() {
        return;
    }
    Case {
        load: "act signals 7",
        recipe: &["proc/signals", "--to", "PID"],
        rows: &[Row {
            view: "signals",
            keys: &[("signal", "Urgent I/O condition")],
            cells: &[
                ("from", Is::Text("workload")),
                ("pid", Is::Truth("pid")),
                ("by", Is::Text("kill")),
                ("to", Is::Text("workload")),
                ("tid", Is::Truth("pid")),
                ("result", Is::Text("ignored")),
                ("count", Is::Number(7.0)),
            ],
        }],
        lines: &[],
    }
    .check();
    says_nothing("proc/signals", NOBODY, &["signals"]);
}

#[test]
fn threads_are_counted_when_they_begin_and_end() {
    if skip() {
        return;
    }
    Case {
        load: "sleepers 30 40",
        recipe: &["proc/threads", "--pid", "PID"],
        rows: &[Row {
            view: "threads and processes created",
            keys: &[("process", "workload")],
            cells: &[
                ("threads", Is::Truth("sleepers")),
                ("forks", Is::Nothing),
                ("ended", Is::Truth("sleepers")),
                ("lived p50", Is::Above(39.5e6)),
            ],
        }],
        lines: &[],
    }
    .check();
    says_nothing("proc/threads", NOBODY, &["threads and processes created", "where threads are created"]);
}

#[test]
fn an_open_is_a_line_with_its_result() {
    if skip() {
        return;
    }
    let some = [(&["workload", "/dev/full"][..], 2), (&["workload", "/dev/null"], 2), (&["opened: 4, failed: 0"], 1)];
    Case {
        load: "files 8",
        recipe: &["proc/opens", "--pid", "PID", "--path", "^/dev/[nf]ull$"],
        rows: &[],
        lines: &some,
    }
    .check();
    let failed = [(&["workload", " - /no/such/file: No such file or directory"][..], 1), (&["ld.so.cache"], 0)];
    Case {
        load: "act open /no/such/file",
        recipe: &["proc/opens", "--pid", "PID", "--failed"],
        rows: &[],
        lines: &failed,
    }
    .check();
    says_nothing("proc/opens", NOBODY, &["opened: 0, failed: 0"]);
}

#[test]
fn checks_of_capabilities_are_granted_or_denied() {
    if skip() {
        return;
    }
    let row = |result, count| Row { view: "checks of capabilities", keys: result, cells: count };
    let granted = [("process", "workload"), ("capability", "CAP_SETUID"), ("result", "granted")];
    let denied = [("process", "workload"), ("capability", "CAP_SETUID"), ("result", "denied")];
    let rows = [row(&granted, &[("count", Is::Truth("granted"))]), row(&denied, &[("count", Is::Truth("denied"))])];
    Case { load: "act privileges 30", recipe: &["proc/capabilities", "--pid", "PID"], rows: &rows, lines: &[] }.check();
    let outcome = Case {
        load: "act privileges 30",
        recipe: &["proc/capabilities", "--pid", "PID", "--denied"],
        rows: &rows[1..],
        lines: &[],
    }
    .check();
    let checks = outcome.rows("checks of capabilities");
    assert!(checks.iter().all(|row| row["result"] == "denied"), "{}", outcome.text);
    let said = "no check of a capability passes the filters";
    says_in_words("proc/capabilities", NOBODY, said);
}
