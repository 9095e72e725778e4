//! `host/…`: a load that computes, fails, and uses the network and a disk, on a machine that does
//! other things too.

use std::os::unix::fs::MetadataExt as _;

use super::super::kernel_functions::is_since;
use super::super::machine::{Directory, patience, skip, with_enough_calls};
use super::super::recipes::Outcome;
use super::{Case, Is, Row, find, printed};

/// One period for the whole run, and all rows.
const OVERVIEW: &[&str] = &["host/overview", "--every", "1h", "--top", "1000"];

/// The run is longer than the load, in which three threads compete for a CPU.
#[test]
fn an_overview_has_the_cpus_and_who_uses_them() {
    if skip() {
        return;
    }
    with_enough_calls(400, |ms| {
        let load = format!("act crowd 3 {ms}");
        // Rows of errors are there without errors.
        let errors = [("count", Is::Number(0.0))];
        let outcome = Case {
            load: &load,
            recipe: OVERVIEW,
            rows: &[Row { view: "errors", keys: &[("what", "failed disk requests")], cells: &errors }],
            lines: &[],
        }
        .check();
        let cpu = outcome.row("CPUs", "cpu", &0.into());
        let talker = find(&outcome, "top talkers", &[("process", "workload"), ("pid", "=pid")]);
        // The load does not know how long its first thread waits for a CPU.
        let waited_ns = talker["waited for a CPU"].as_f64().unwrap_or(f64::NAN);
        outcome.expect_between(waited_ns, outcome.truth("waited_least_ns"), f64::INFINITY, "waited for a CPU");
        let is_above = |row: &serde_json::Value, column: &str, least: f64| row[column].as_f64() >= Some(least);
        let is_busy = is_above(cpu, "busy %", 70.0) && is_above(cpu, "user %", 30.0) && is_above(cpu, "waiting", 1.0);
        is_busy && is_above(talker, "cpu %", 5.0)
    });
}

#[test]
fn an_overview_has_the_errors_and_the_network() {
    if skip() {
        return;
    }
    // Since 6.10, the kernel tells of a reset that no socket sends.
    let sent = if is_since((6, 10)) { Is::AtLeast("refused") } else { Is::Above(0.0) };
    Case {
        load: "act dials 30",
        recipe: OVERVIEW,
        rows: &[
            Row {
                view: "failed system calls",
                keys: &[("process", "workload"), ("pid", "=pid"), ("call", "connect")],
                cells: &[("count", Is::Truth("refused")), ("error", Is::Text("Connection refused"))],
            },
            Row {
                view: "errors",
                keys: &[("what", "failed system calls")],
                cells: &[("count", Is::AtLeast("refused"))],
            },
            Row { view: "errors", keys: &[("what", "TCP resets sent")], cells: &[("count", sent)] },
            Row {
                view: "errors",
                keys: &[("what", "TCP resets received")],
                cells: &[("count", Is::AtLeast("refused"))],
            },
            // A connection that is refused is two packets, one that is opened and closed five or
            // more, of at least 40 bytes each.
            Row {
                view: "network",
                keys: &[("device", "lo")],
                cells: &[
                    ("packets in", Is::Above(30.0 * 7.0)),
                    ("packets out", Is::Above(30.0 * 7.0)),
                    ("bytes in", Is::Above(30.0 * 7.0 * 40.0)),
                    ("bytes out", Is::Above(30.0 * 7.0 * 40.0)),
                ],
            },
            Row {
                view: "top talkers",
                keys: &[("process", "workload"), ("pid", "=pid")],
                cells: &[("failed calls", Is::AtLeast("refused"))],
            },
        ],
        lines: &[],
    }
    .check();
}

#[test]
fn an_overview_has_the_disks() {
    if skip() {
        return;
    }
    let directory = Directory::new("overview");
    let (path, parent) = (directory.path("data"), directory.path(""));
    // The major number of a file system without a device is 0.
    if std::fs::metadata(&parent).expect("a directory").dev() >> 8 == 0 {
        println!("SKIPPED: {parent} is not on a block device");
        return;
    }
    let outcome =
        Case { load: &format!("act direct {path} 100 8192"), recipe: OVERVIEW, rows: &[], lines: &[] }.check();
    // Other programs may write at the same time, and to other disks.
    let disks = outcome.rows("disks");
    let is_it = |row: &&serde_json::Value| {
        let at_least = |column: &str, truth: &str| row[column].as_f64() >= Some(outcome.truth(truth));
        at_least("requests", "writes") && at_least("bytes", "written") && row["served p50"].as_f64() > Some(100.0)
    };
    assert!(disks.iter().any(|row| is_it(&row)), "{}", outcome.text);
    assert!(disks.iter().all(|row| row["served p50"].as_f64() <= row["max"].as_f64()), "{}", outcome.text);
}

/// The kernel's own account of the stolen time of a CPU since boot. It is in units of 10 ms.
fn stolen_ns(cpu: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/stat").expect("it");
    let line = text.lines().find_map(|line| line.strip_prefix(cpu)?.strip_prefix(' ')).expect("a CPU");
    line.split_whitespace().nth(7).expect("the eighth number").parse::<f64>().expect("a number") * 1e7
}

#[test]
fn stolen_time_is_that_of_the_kernel() {
    if skip() {
        return;
    }
    let before_ns = stolen_ns("cpu0");
    let outcome = Outcome::run(&format!("spin {}", 300 * patience()), &["host/steal"]);
    let after_ns = stolen_ns("cpu0");
    let row = outcome.row("CPU time taken by the host", "cpu", &0.into());
    let number = |column: &str| row[column].as_f64().unwrap_or_else(|| panic!("{column}: {}", outcome.text));
    // The file has whole units.
    let (total, stolen) = (number("since boot"), number("stolen"));
    assert!((before_ns..=after_ns + 1e7).contains(&total), "{before_ns} {after_ns}\n{}", outcome.text);
    assert!(stolen <= total - before_ns + 1e7 && number("max") <= stolen, "{before_ns}\n{}", outcome.text);
    assert!(number("samples") > 10.0 && (0.0..=100.0).contains(&number("%")), "{}", outcome.text);
    let is_silent = outcome.document("view", "view", "CPU time taken by the host")["rows"]
        .as_array()
        .is_some_and(|rows| rows.iter().all(|row| row["since boot"] == 0));
    let said = printed(&outcome, &["no time was stolen since boot"]).len();
    assert_eq!(said, usize::from(is_silent), "{}", outcome.text);
}
