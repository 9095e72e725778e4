//! The progress line on a terminal.
//!
//! In: runs on a terminal that `script` creates, and in pipes. Out: the line if nothing else is
//! shown, and no trace of it elsewhere.

use std::process::{Command, Stdio};
use std::thread;

use super::machine::{Directory, Ended, PROFILER, Running, skip};

/// Runs a shell command line on a terminal of `columns` columns.
fn on_terminal(columns: u32, term: &str, line: &str) -> Ended {
    let line = format!("stty cols {columns} rows 24; {line}");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", term).stdin(Stdio::null());
    Running::start(&mut command).end()
}

/// How often the line was drawn.
fn drawn(ended: &Ended) -> usize {
    ended.stdout.matches(" lost, ").count()
}

/// The lines that a terminal shows in the end.
fn screen(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("\x1b[2K") {
            lines.last_mut().expect("one").clear();
            rest = behind;
            continue;
        }
        match next {
            '\r' => {}
            '\n' => lines.push(String::new()),
            other => lines.last_mut().expect("one").push(other),
        }
        rest = &rest[next.len_utf8()..];
    }
    lines
}

const COLLECTS: &str = "BEGIN { @x = 5; } interval:s:60 { }";

#[test]
fn a_run_that_shows_nothing_says_how_far_it_is_and_leaves_no_trace() {
    if skip() {
        return;
    }
    let line = format!("{PROFILER} run --duration 2500ms -e '{COLLECTS}'");
    let ended = on_terminal(100, "xterm", &line);
    assert!(drawn(&ended) >= 2, "{ended:?}");
    assert!(ended.stdout.contains("1 s, 0 events, 0 lost, ") && ended.stdout.contains("Control-C"), "{ended:?}");
    let screen = screen(&ended.stdout);
    assert_eq!(screen, ["Attached 2 probes", "", "", "@x: 5", ""], "{ended:?}");
    let narrow = on_terminal(20, "xterm", &line);
    assert!(narrow.stdout.contains("1 s, 0 events\r") || narrow.stdout.contains("1 s, 0 events\x1b"), "{narrow:?}");
}

#[test]
fn once_the_script_prints_the_line_does_not_come_back() {
    if skip() {
        return;
    }
    let script = "interval:ms:1300 { printf(\"part\"); } interval:ms:3300 { printf(\" of a line\\n\"); exit(); }";
    let ended = on_terminal(100, "xterm", &format!("{PROFILER} run -e '{script}'"));
    assert_eq!(drawn(&ended), 1, "{ended:?}");
    let screen = screen(&ended.stdout);
    assert_eq!(screen[..2], ["Attached 2 probes", "partpart of a line"], "{ended:?}");
}

#[test]
fn where_it_would_disturb_there_is_no_line() {
    if skip() {
        return;
    }
    let directory = Directory::new("progress");
    let run = format!("{PROFILER} run --duration 1300ms -e '{COLLECTS}'");
    let lines = [
        format!("{run} -q"),
        format!("{run} --no-progress"),
        format!("{run} | cat"),
        format!("{run} 2> {}", directory.path("errors")),
        format!("{run} -c 'sleep 3'"),
    ];
    thread::scope(|scope| {
        for line in &lines {
            scope.spawn(move || {
                let ended = on_terminal(100, "xterm", line);
                assert_eq!((drawn(&ended), ended.stdout.contains("@x: 5")), (0, true), "{line}: {ended:?}");
                assert!(!ended.stdout.contains('\x1b'), "{line}: {ended:?}");
            });
        }
    });
    assert!(!std::fs::read_to_string(directory.path("errors")).expect("a file").contains("lost"));
    assert_eq!(drawn(&on_terminal(100, "dumb", &run)), 0);
    let bpftrace = directory.path("bpftrace");
    std::os::unix::fs::symlink(PROFILER, &bpftrace).expect("a link");
    let ended = on_terminal(100, "xterm", &format!("{bpftrace} -e '{COLLECTS} interval:ms:1300 {{ exit(); }}'"));
    assert_eq!((drawn(&ended), ended.stdout.contains("@x: 5")), (0, true), "{ended:?}");
    let view = "BEGIN { @x[1] = 5; } interval:s:60 { } view \"live\" { of @x every 500ms }";
    assert_eq!(drawn(&on_terminal(100, "xterm", &format!("{PROFILER} run --duration 2300ms -e '{view}'"))), 0);
    let ended = Running::start(Command::new(PROFILER).args(["run", "--duration", "1300ms", "-e", COLLECTS])).end();
    assert_eq!(ended.stderr, "Attached 2 probes\n");
}

#[test]
fn results_in_a_file_leave_the_line_alone() {
    if skip() {
        return;
    }
    let directory = Directory::new("progress");
    let script = "interval:ms:100 { printf(\"x\\n\"); }";
    let line = format!("{PROFILER} run --duration 2500ms -o {} -e '{script}'", directory.path("results"));
    let ended = on_terminal(100, "xterm", &line);
    assert!(ended.stdout.contains("2 s, ") && drawn(&ended) >= 2, "{ended:?}");
    let results = std::fs::read_to_string(directory.path("results")).expect("a file");
    assert!(!results.contains('\x1b') && results.lines().filter(|line| *line == "x").count() >= 20, "{results}");
    assert_eq!(screen(&ended.stdout), ["Attached 1 probe", ""], "{ended:?}");
}
