//! `lock/…`: threads that wait for a lock of the kernel, a mutex, a reader-writer lock and a
//! condition.

use std::process::Command;

use serde_json::Value;

use super::super::machine::{Directory, patience, run, skip};
use super::super::recipes::Outcome;
use super::programs::{PROGRAMS, beside};
use super::{Case, Is, NOBODY, Row, says_in_words};

/// The rows of a view whose column has the address that the load printed.
fn rows_of<'a>(outcome: &'a Outcome, view: &str, name: &str) -> Vec<&'a Value> {
    let address = outcome.address(name);
    let rows = outcome.rows(view);
    rows.iter().filter(|row| row[name].as_u64() == Some(address)).collect()
}

/// The sum of a column.
fn total<'a>(rows: impl Iterator<Item = &'a Value>, column: &str) -> f64 {
    rows.filter_map(|row| row[column].as_f64()).sum()
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
    // On a busy machine, the process may wait as long for another mutex too.
    let cells = [("waits", Is::AtLeast("waits")), ("waited", Is::AtLeast("least_ns")), ("kind", Is::Text("mutex"))];
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
    let is_of_pipe = |row: &&Value| row["stack"].as_str().is_some_and(|stack| stack.contains("pipe_write"));
    let of_pipe = || outcome.rows("where threads wait").iter().filter(is_of_pipe);
    assert_eq!(Some(total(of_pipe(), "waits")), Some(outcome.truth("waits")), "{}", outcome.text);
    let (least, most) = (outcome.truth("least_ns"), outcome.truth("waited_ns"));
    outcome.expect_between(total(of_pipe(), "waited"), least, most, "waits");
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
    let side = |side, taken, held| {
        let cells = vec![
            ("taken", Is::Number(taken)),
            ("holds", Is::Number(taken)),
            ("held", Is::AtLeast(held)),
            ("failed", Is::Nothing),
        ];
        (side, cells)
    };
    let sides = [side("read", 150.0, "read_held_ns"), side("write", 50.0, "write_held_ns")];
    let keys: Vec<[(&str, &str); 2]> =
        sides.iter().map(|(side, _)| [("process", "workload"), ("side", *side)]).collect();
    let rows: Vec<Row> = sides.iter().zip(&keys).map(|((_, cells), keys)| Row { view, keys, cells }).collect();
    let outcome = Case { load: &load, recipe: &["lock/rwlock", "--pid", "PID"], rows: &rows, lines: &[] }.check();
    let rows = rows_of(&outcome, view, "lock");
    let found = |side: &str, column: &str| {
        let row = rows.iter().find(|row| row["side"] == side).expect("a side of this lock");
        row[column].as_f64().unwrap_or(0.0)
    };
    for side in ["read", "write"] {
        let least = outcome.truth(&format!("{side}_held_ns"));
        let used_ns = outcome.truth(&format!("{side}_used_ns"));
        let [waited_least, waited_most] =
            ["waited_least_ns", "waited_ns"].map(|name| outcome.truth(&format!("{side}_{name}")));
        // Readers may never find the writer.
        outcome.expect_between(found(side, "waited"), waited_least, waited_most, side);
        outcome.expect_between(found(side, "waited") + found(side, "held"), least, used_ns, side);
    }
    // There is one writer, so it never finds another. It first asks when a reader has the lock, as
    // do the other two readers.
    assert!(found("write", "found writer") == 0.0, "{}", outcome.text);
    assert!(found("write", "found readers") > 0.0, "{}", outcome.text);
    assert!((2.0..=150.0).contains(&found("read", "found readers")), "{}", outcome.text);
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
        ("waited", Is::Between("waited_least_ns", "waited_ns")),
        ("waits", Is::Truth("waits")),
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
    // The load wakes the thread only when it waits.
    assert!(rows[0]["for none"].as_f64().unwrap_or(0.0) == 0.0, "{}", outcome.text);
    let said = "no wait for a condition variable passes the filters, and no wake-up";
    says_in_words("lock/condvar", NOBODY, said);
}

/// The verdicts that the recipe's description gives for the times of a row: both, if it is close.
pub fn verdicts(row: &Value) -> Vec<&'static str> {
    let number = |column: &str| row[column].as_f64().expect("a number");
    let (wait, typical, hold) = (number("mean"), number("typical"), number("held") / number("holds"));
    let of = |off: f64| match () {
        () if wait * 2.0 >= typical * 3.0 * off => "convoy",
        () if typical >= hold * 4.0 * off => "long holds",
        () => "mixed",
    };
    vec![of(0.999), of(1.0), of(1.001)]
}

/// The times, and the verdict that follows from them. Which it is depends on the machine: where a
/// thread loses its CPU while it has the mutex, that hold is long.
#[test]
fn the_verdict_on_a_mutex_follows_from_its_waits_and_holds() {
    if skip() {
        return;
    }
    for (load, holds) in loads_of_mutexes() {
        let outcome = Outcome::run(&load, &["lock/convoy", "--pid", "PID"]);
        let row = only(&outcome);
        assert_eq!(row["holds"], holds, "{}", outcome.text);
        let number = |column: &str| row[column].as_f64().expect("a number");
        let (held_ns, used_ns) = (outcome.truth("held_ns"), outcome.truth("used_ns"));
        outcome.expect_between(number("held"), held_ns, used_ns, "holds");
        // Waits of less than 20 µs are not counted.
        assert!(number("waited") <= outcome.truth("waited_ns"), "{}", outcome.text);
        outcome.expect_between(number("waited") + number("held"), held_ns, used_ns, "waits and holds");
        // A hold that a thread meets by chance is longer than the mean, and no longer than the
        // longest.
        let mean = number("held") / number("holds");
        outcome.expect_between(number("typical"), mean, number("held max"), "the typical hold");
        assert!((1.0..=3.0).contains(&number("queue")), "{}", outcome.text);
        let is_right = verdicts(row).iter().any(|verdict| row["verdict"] == *verdict);
        assert!(is_right, "{:?}\n{}", verdicts(row), outcome.text);
    }
    let said = "no wait for a mutex passes the filters";
    says_in_words("lock/convoy", NOBODY, said);
}

/// Loads with short holds and with some long ones, and how many.
fn loads_of_mutexes() -> [(String, u64); 2] {
    [(format!("contend 4 100 {}", work(1000)), 400), (format!("act uneven 100 20 {}", work(40)), 305)]
}

/// The row of the mutex that the load printed.
fn only(outcome: &Outcome) -> &Value {
    let rows = rows_of(outcome, "contended mutexes", "lock");
    assert_eq!(rows.len(), 1, "{}", outcome.text);
    rows[0]
}

#[test]
fn a_queue_for_short_holds_is_a_convoy_and_a_wait_for_a_long_one_is_not() {
    if skip() {
        return;
    }
    for ((load, _), verdict) in loads_of_mutexes().into_iter().zip(["convoy", "long holds"]) {
        let outcome = Outcome::run(&load, &["lock/convoy", "--pid", "PID"]);
        assert_eq!(only(&outcome)["verdict"], verdict, "{}", outcome.text);
    }
}

/// As in musl: the functions of the program itself are found, and its calls within calls are none.
#[test]
fn calls_within_calls_for_a_lock_are_one() {
    if skip() {
        return;
    }
    let directory = Directory::new("nested");
    let program = directory.path("nested");
    let built = Command::new("cc").args(["-O2", "-o", &program, &format!("{PROGRAMS}/nested.c"), "-lpthread"]).output();
    let Ok(built) = built else {
        println!("SKIPPED: there is no C compiler");
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let outcome = beside(&mut Command::new(&program), &["lock/latency", "--pid", "PID"]).expect("it was compiled");
    // The C library may use locks of its own.
    let is_it = |row: &&Value| row["acquired"].as_f64() == Some(outcome.truth("acquired"));
    let found = outcome.rows("waits for locks").iter().find(is_it).unwrap_or_else(|| panic!("{}", outcome.text));
    assert!(found["failed"].is_null(), "{}", outcome.text);
    assert_eq!((&found["holds"], &found["waits"]), (&found["acquired"], &5.into()), "{}", outcome.text);
    // Five waits of 20 ms each.
    assert!(found["waited"].as_f64() >= Some(5.0 * 19e6), "{}", outcome.text);
    // A file without any of the functions is a mistake, which is said once.
    let none = run(&["-q", "lock/latency", "--lib", "/bin/true", "--duration", "20ms"]);
    assert!(none.code() != 0 && none.stderr.matches("error[").count() == 1, "{}", none.stderr);
}
