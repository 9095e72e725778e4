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

/// The same for longer and longer times in milliseconds, until something is seen: on a busy
/// machine, the line may be late.
fn on_terminal_until(line: impl Fn(u32) -> String, is_seen: impl Fn(&Ended) -> bool) -> Ended {
    let runs = [2500, 6500, 30_500].into_iter().map(|ms| on_terminal(100, "xterm", &line(ms)));
    let mut seen = Vec::new();
    for ended in runs {
        if is_seen(&ended) {
            return ended;
        }
        seen.push(ended);
    }
    panic!("{seen:?}");
}

/// How often the line was drawn.
fn drawn(ended: &Ended) -> usize {
    lines_in(&ended.stdout)
}

/// How often it is in a text.
fn lines_in(text: &str) -> usize {
    text.matches(" lost, ").count()
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
    let line = |ms: u32| format!("{PROFILER} run --duration {ms}ms -e '{COLLECTS}'");
    let ended = on_terminal_until(line, |ended| drawn(ended) >= 2);
    assert!(ended.stdout.contains(" s, 0 events, 0 lost, ") && ended.stdout.contains("Control-C"), "{ended:?}");
    let screen = screen(&ended.stdout);
    assert_eq!(screen, ["Attached 2 probes", "", "", "@x: 5", ""], "{ended:?}");
    let narrow = on_terminal(20, "xterm", &line(2500));
    assert!(narrow.stdout.contains(" s, 0 events\r") || narrow.stdout.contains(" s, 0 events\x1b"), "{narrow:?}");
}

#[test]
fn once_the_script_prints_the_line_does_not_come_back() {
    if skip() {
        return;
    }
    // The line is drawn each second: before the first part, and in between if it were to come back.
    let line = |ms: u32| {
        let (first, second) = (ms - 1200, ms + 800);
        format!(
            "{PROFILER} run -e 'interval:ms:{first} {{ if (!@part) {{ printf(\"part\"); @part = true; }} }} \
             interval:ms:{second} {{ printf(\" of a line\\n\"); exit(); }} END {{ clear(@part); }}'"
        )
    };
    let parts = |ended: &Ended| {
        ended.stdout.find("part").map_or((0, 0), |at| (lines_in(&ended.stdout[..at]), lines_in(&ended.stdout[at..])))
    };
    let ended = on_terminal_until(line, |ended| parts(ended).0 > 0);
    assert_eq!(parts(&ended).1, 0, "{ended:?}");
    let screen = screen(&ended.stdout);
    assert_eq!(screen[..2], ["Attached 3 probes", "part of a line"], "{ended:?}");
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
    let line = |ms: u32| format!("{PROFILER} run --duration {ms}ms -o {} -e '{script}'", directory.path("results"));
    let ended = on_terminal_until(line, |ended| drawn(ended) >= 2);
    let results = std::fs::read_to_string(directory.path("results")).expect("a file");
    assert!(!results.contains('\x1b') && results.lines().filter(|line| *line == "x").count() >= 20, "{results}");
    assert_eq!(screen(&ended.stdout), ["Attached 1 probe", ""], "{ended:?}");
}
