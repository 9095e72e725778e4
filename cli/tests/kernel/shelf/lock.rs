//! `lock/…`: threads that wait for a lock of the kernel, a mutex, a reader-writer lock and a
//! condition.

use serde_json::Value;

use super::super::machine::{patience, skip};
use super::super::recipes::Outcome;
use super::{Case, Is, NOBODY, Row, says_in_words};

/// The address that the load printed.
fn address(outcome: &Outcome, name: &str) -> u64 {
    let text = outcome.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" 0x"));
    u64::from_str_radix(text.expect("an address"), 16).expect("a number")
}

/// The rows of a view whose column has the address that the load printed.
fn rows_of<'a>(outcome: &'a Outcome, view: &str, name: &str) -> Vec<&'a Value> {
    let address = address(outcome, name);
    let rows = outcome.rows(view);
    rows.iter().filter(|row| row[name].as_u64() == Some(address)).collect()
}

/// The time of one piece of work, which is longer on emulated processors.
fn work(amount: u32) -> u32 {
    if patience() == 1 { amount } else { 10 * amount }
}

#[test]
fn a_wait_for_a_lock_of_the_kernel_lasts_until_it_is_free() {
    if skip() {
        return;
    }
    let cells = [("waits", Is::Truth("waits")), ("waited", Is::About("waited_ns")), ("kind", Is::Text("mutex"))];
    let outcome = Case {
        load: "act pipelock 6 40",
        recipe: &["lock/kernel", "--pid", "PID", "--min", "10ms"],
        rows: &[
            Row { view: "waits by process", keys: &[("process", "workload"), ("kind", "mutex")], cells: &cells },
            Row { view: "waits for locks of the kernel", keys: &[("kind", "mutex")], cells: &cells },
        ],
        lines: &[],
    }
    .check();
    let stack = &outcome.row("where threads wait", "kind", &"mutex".into())["stack"];
    assert!(stack.as_str().is_some_and(|stack| stack.contains("pipe_write")), "{}", outcome.text);
    let said = "no wait for a lock of the kernel passes the filters";
    says_in_words("lock/kernel", NOBODY, said);
}

#[test]
fn each_side_of_a_rwlock_has_its_waits_its_holds_and_whom_it_finds() {
    if skip() {
        return;
    }
    let load = format!("rwlock 3 50 {}", work(1000));
    let view = "reader-writer locks";
    let side = |side, taken, waited, held| {
        let cells = vec![
            ("taken", Is::Number(taken)),
            ("holds", Is::Number(taken)),
            ("held", Is::Within(held, 10.0)),
            ("waited", Is::AtMost(waited)),
            ("failed", Is::Nothing),
        ];
        (side, cells)
    };
    let sides = [
        side("read", 150.0, "read_waited_ns", "read_held_ns"),
        side("write", 50.0, "write_waited_ns", "write_held_ns"),
    ];
    let keys: Vec<[(&str, &str); 2]> =
        sides.iter().map(|(side, _)| [("process", "workload"), ("side", *side)]).collect();
    let rows: Vec<Row> = sides.iter().zip(&keys).map(|((_, cells), keys)| Row { view, keys, cells }).collect();
    let outcome = Case { load: &load, recipe: &["lock/rwlock", "--pid", "PID"], rows: &rows, lines: &[] }.check();
    let rows = rows_of(&outcome, view, "lock");
    let found = |side: &str, column: &str| {
        let row = rows.iter().find(|row| row["side"] == side).expect("a side of this lock");
        row[column].as_f64().unwrap_or(0.0)
    };
    // There is one writer, so it never finds another. It first asks when a reader has the lock.
    assert!(found("write", "found writer") == 0.0, "{}", outcome.text);
    assert!(found("write", "found readers") > 0.0, "{}", outcome.text);
    assert!(found("read", "found readers") > 10.0 && found("read", "found readers") <= 150.0, "{}", outcome.text);
    let said = "no use of a reader-writer lock passes the filters";
    says_in_words("lock/rwlock", NOBODY, said);
}

#[test]
fn waits_and_wake_ups_of_a_condition_are_those_of_its_threads() {
    if skip() {
        return;
    }
    let load = format!("conditions 40 {} {}", work(5000), work(10000));
    let cells = [
        ("waited", Is::Within("waited_ns", 10.0)),
        ("wake-ups", Is::Number(40.0)),
        ("timed out", Is::Nothing),
        ("woken max", Is::AtMost("waited_ns")),
        ("woken p50", Is::Above(100.0)),
    ];
    let outcome = Outcome::run(&load, &["lock/condvar", "--pid", "PID"]);
    let rows = rows_of(&outcome, "condition variables", "condition");
    assert_eq!(rows.len(), 1, "{}", outcome.text);
    for (column, is) in cells {
        let fault = super::cell(&outcome, &rows[0][column], is);
        assert!(fault.is_none(), "{column}: {fault:?}\n{}", outcome.text);
    }
    // A wake-up finds the thread in its wait, still at work, or about to return from a wait.
    let number = |column: &str| rows[0][column].as_f64().unwrap_or(0.0);
    assert!((20.0..=40.0).contains(&number("waits")) && number("for none") <= 20.0, "{}", outcome.text);
    let said = "no wait for a condition variable passes the filters, and no wake-up";
    says_in_words("lock/condvar", NOBODY, said);
}

#[test]
fn a_queue_for_short_holds_is_a_convoy_and_a_wait_for_a_long_one_is_not() {
    if skip() {
        return;
    }
    for (load, holds, verdict) in [
        (format!("contend 4 100 {}", work(1000)), 400, "convoy"),
        (format!("act uneven 100 20 {}", work(40)), 305, "long holds"),
    ] {
        let run = || Outcome::run(&load, &["lock/convoy", "--pid", "PID"]);
        let is_right = |outcome: &Outcome| {
            let rows = rows_of(outcome, "contended mutexes", "lock");
            assert_eq!(rows.len(), 1, "{}", outcome.text);
            assert_eq!(rows[0]["holds"], holds, "{}", outcome.text);
            let near = |column: &str, truth: &str| {
                let (measured, truth) = (rows[0][column].as_f64().expect("a time"), outcome.truth(truth));
                (measured - truth).abs() <= 0.1 * truth
            };
            // Waits of less than 20 µs are not counted.
            rows[0]["verdict"] == verdict && near("held", "held_ns") && near("waited", "waited_ns")
        };
        let tries: Vec<Outcome> = (0..super::TRIES).map(|_| run()).take_while(|outcome| !is_right(outcome)).collect();
        let last = tries.last().map_or("", |outcome| outcome.text.as_str());
        assert!(tries.len() < super::TRIES as usize, "{verdict}: {last}");
    }
    let said = "no wait for a mutex passes the filters";
    says_in_words("lock/convoy", NOBODY, said);
}
