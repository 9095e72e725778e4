//! `io/…`: files that a load reads, writes and flushes.

use std::os::unix::fs::MetadataExt as _;

use super::super::machine::{Directory, skip};
use super::super::recipes::Outcome;
use super::{Case, Is, NOBODY, Row, cell, says_in_words, says_nothing};

/// A load on a new file, and the last two parts of its path.
struct Load {
    directory: Directory,
    act: String,
    name: String,
}

fn load(act: &str, amount: &str) -> Load {
    let directory = Directory::new("shelf");
    let path = directory.path("data");
    let parts: Vec<&str> = path.rsplit('/').take(2).collect();
    let name = format!("{}/data", parts[1]);
    Load { act: format!("act {act} {path} {amount}"), name, directory }
}

#[test]
fn calls_on_a_file_have_its_name_their_bytes_and_errors() {
    if skip() {
        return;
    }
    let load = load("file", "20 5000");
    let row = |call| [("file", load.name.as_str()), ("call", call)];
    // The load's time is that of the calls and of reading its clock.
    Case {
        load: &load.act,
        recipe: &["io/files", "--pid", "PID"],
        rows: &[
            Row {
                view: "calls on files",
                keys: &row("read"),
                cells: &[
                    ("calls", Is::Number(21.0)),
                    ("bytes", Is::Truth("read")),
                    ("errors", Is::Number(1.0)),
                    ("time", Is::AtMost("read_ns")),
                    ("process", Is::Text("workload")),
                ],
            },
            Row {
                view: "calls on files",
                keys: &row("write"),
                cells: &[
                    ("calls", Is::Truth("writes")),
                    ("bytes", Is::Truth("written")),
                    ("errors", Is::Nothing),
                    ("time", Is::AtMost("write_ns")),
                ],
            },
            Row {
                view: "calls on files",
                keys: &row("flush"),
                cells: &[
                    ("calls", Is::Truth("flushes")),
                    ("bytes", Is::Nothing),
                    ("time", Is::AtMost("flush_ns")),
                    // A flush of a file in memory takes less time than to read the clock.
                    ("time", Is::Above(2000.0)),
                    ("max", Is::AtMost("flush_longest_ns")),
                    ("p50", Is::AtMost("flush_longest_ns")),
                ],
            },
        ],
        lines: &[],
    }
    .check();
    for (path, name, errors) in
        [("/proc/version", "/version", Is::Nothing), ("/missing/file", "/missing/file", Is::Number(1.0))]
    {
        let row = Row {
            view: "calls on files",
            keys: &[("file", name), ("call", "open")],
            cells: &[("calls", Is::Number(1.0)), ("errors", errors), ("p50", Is::Above(200.0))],
        };
        let load = format!("act open {path}");
        // The loader may look for libraries in many directories.
        let recipe = ["io/files", "--pid", "PID", "--top", "1000"];
        Case { load: &load, recipe: &recipe, rows: &[row], lines: &[] }.check();
    }
    says_nothing("io/files", NOBODY, &["calls on files"]);
}

#[test]
fn a_file_is_one_row_over_all_calls() {
    if skip() {
        return;
    }
    let load = load("file", "20 5000");
    let cells = [
        ("reads", Is::Number(21.0)),
        ("read", Is::Truth("read")),
        ("writes", Is::Truth("writes")),
        ("written", Is::Truth("written")),
        ("time", Is::AtLeast("flushes")),
    ];
    Case {
        load: &load.act,
        recipe: &["io/by-file", "--pid", "PID"],
        rows: &[Row { view: "files", keys: &[("file", &load.name)], cells: &cells }],
        lines: &[],
    }
    .check();
    says_nothing("io/by-file", NOBODY, &["files"]);
}

#[test]
fn each_slow_call_on_a_file_is_a_line() {
    if skip() {
        return;
    }
    let load = load("file", "20 5000");
    Case {
        load: &load.act,
        recipe: &["io/slow", "--pid", "PID", "--min", "1ns"],
        rows: &[],
        lines: &[
            (&[&load.name, " write ", " 5000 "], 40),
            (&[&load.name, " read ", " 5000 "], 20),
            (&[&load.name, " flush "], 20),
            (&[&load.name, " read ", ": Bad file number"], 1),
        ],
    }
    .check();
    let none: [(&[&str], usize); 2] = [(&[&load.name], 0), (&["calls of 1 min or longer: 0"], 1)];
    Case { load: &load.act, recipe: &["io/slow", "--pid", "PID", "--min", "1m"], rows: &[], lines: &none }.check();
    says_nothing("io/slow", NOBODY, &["calls of 10 ms or longer: 0"]);
}

#[test]
fn flushes_of_a_file_are_beside_what_was_written_to_it() {
    if skip() {
        return;
    }
    let load = load("file", "20 5000");
    let cells = [
        ("flushes", Is::Truth("flushes")),
        ("time", Is::AtMost("flush_ns")),
        // A flush of a file in memory takes less time than to read the clock.
        ("time", Is::Above(2000.0)),
        ("max", Is::AtMost("flush_longest_ns")),
        ("written", Is::Truth("written")),
        ("errors", Is::Nothing),
    ];
    Case {
        load: &load.act,
        recipe: &["io/fsync", "--pid", "PID"],
        rows: &[Row { view: "flushes of files", keys: &[("file", &load.name)], cells: &cells }],
        lines: &[],
    }
    .check();
    says_nothing("io/fsync", NOBODY, &["flushes of files", "where files are flushed"]);
}

#[test]
fn requests_of_a_disk_are_those_that_pass_the_page_cache() {
    if skip() {
        return;
    }
    says_nothing("io/block", &["--disk", "no-such-disk"], &["requests of block devices"]);
    let load = load("direct", "100 8192");
    let directory = load.directory.path("");
    // The major number of a file system without a device is 0.
    if std::fs::metadata(&directory).expect("a directory").dev() >> 8 == 0 {
        println!("SKIPPED: {directory} is not on a block device");
        return;
    }
    // Other programs may write at the same time, and to other disks.
    let outcome = Outcome::run(&load.act, &["io/block", "--top", "1000"]);
    let wanted = [
        ("requests", Is::AtLeast("writes")),
        ("bytes", Is::AtLeast("written")),
        ("served", Is::Above(100.0)),
        ("errors", Is::Nothing),
    ];
    let is_it = |row: &&serde_json::Value| {
        row["operation"] == "write" && wanted.iter().all(|(column, is)| cell(&outcome, &row[*column], *is).is_none())
    };
    let row = outcome.rows("requests of block devices").iter().find(is_it);
    let times = row.map(|row| ["served", "served p99", "max"].map(|column| row[column].as_f64().unwrap_or(f64::NAN)));
    assert!(times.is_some_and(|times| times.is_sorted()), "{}", outcome.text);
}

#[test]
fn reads_hit_what_is_in_the_page_cache_and_miss_the_rest() {
    if skip() {
        return;
    }
    let load = load("cached", "100");
    let directory = load.directory.path("");
    // A file in memory is in the page cache only.
    let is_on_disk = std::fs::metadata(&directory).expect("a directory").dev() >> 8 != 0;
    let cells = if is_on_disk {
        // Each page is missing the first time, and nothing is read ahead.
        vec![
            ("misses", Is::Truth("once")),
            ("hits", Is::Truth("once")),
            ("hit %", Is::Number(50.0)),
            ("ahead", Is::Number(0.0)),
            ("read missed", Is::Above(1000.0)),
        ]
    } else {
        vec![("misses", Is::Number(0.0)), ("hits", Is::Truth("pages")), ("hit %", Is::Number(100.0))]
    };
    Case {
        load: &load.act,
        recipe: &["io/page-cache", "--pid", "PID"],
        rows: &[
            Row { view: "page cache by file", keys: &[("file", &load.name)], cells: &[("pages", Is::Truth("pages"))] },
            Row { view: "page cache by file", keys: &[("file", &load.name)], cells: &cells },
            Row {
                view: "page cache by process",
                keys: &[("process", "workload"), ("pid", "=pid")],
                // Those of the program's libraries are in it.
                cells: &[("pages", Is::AtLeast("pages")), ("misses", Is::Below(200.0))],
            },
        ],
        lines: &[],
    }
    .check();
    let said = "no read of a file passes the filters";
    says_in_words("io/page-cache", NOBODY, said);
}
