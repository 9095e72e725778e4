//! Tests and benchmarks inside a script, and probes that the command line selects or adds.
//!
//! In: scripts with `test:` and `bench:` probes. Out: exact verdicts; of times, only that they are
//! numbers.

use super::machine::{run, skip};

/// The columns `Iterations` and `Time(ns)` of a benchmark's row.
fn row(stdout: &str, name: &str) -> Option<(u64, u64)> {
    let row = stdout.lines().find_map(|line| line.strip_prefix(&format!("{name:<41}")))?;
    let mut numbers = row.split_whitespace().map(|number| number.parse().expect("a number"));
    Some((numbers.next()?, numbers.next()?))
}

#[test]
fn a_test_fails_by_what_it_returns_by_an_exit_code_and_by_an_error() {
    if skip() {
        return;
    }
    let script = r#"
        begin { printf("begin\n"); }
        test:fine { printf("unseen\n"); return false; }
        test:returns { for $i : 0..9 { if ($i == 3) { printf("seen\n"); return 7; } } }
        test:exits { exit(2); }
        test:quiet_exit { exit(); }
        test:asserts { assert(1 + 1 == 3, "wrong"); }
        interval:ms:1 { printf("traced\n"); }
        end { printf("end\n"); }"#;
    let ended = run(&["--test", "-e", script]);
    assert_eq!(ended.code(), 1, "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    // Strip the times.
    let lines: Vec<&str> = lines.iter().map(|line| line.split(" (").next().unwrap_or_default()).collect();
    let expected = [
        "begin",
        "[==========] Running 5 tests.",
        "[ RUN      ] fine",
        "[       OK ] fine",
        "[ RUN      ] returns",
        "seen",
        "[  FAILED  ] returns",
        "[ RUN      ] exits",
        "[  FAILED  ] exits",
        "[ RUN      ] quiet_exit",
        "[       OK ] quiet_exit",
        "[ RUN      ] asserts",
        "-e:7:24-51: ERROR: assert failed: wrong",
        "[  FAILED  ] asserts",
        "[==========] 5 tests ran.",
        "[  PASSED  ] 2 tests.",
        "[  FAILED  ] 3 tests, listed below:",
        "[  FAILED  ] returns",
        "[  FAILED  ] exits",
        "[  FAILED  ] asserts",
        "end",
    ];
    assert_eq!(lines, expected, "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
    let ended = run(&["-f", "json", "--test", "--probe-filter", "fine", "-e", script]);
    assert_eq!(ended.code(), 0);
    let verdict = r#", "passed": true, "output": "unseen\n"}}}"#;
    assert!(
        ended
            .stdout
            .lines()
            .any(|line| line.starts_with(r#"{"type": "test_result", "data": {"fine": "#) && line.ends_with(verdict)),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_benchmark_runs_as_often_as_it_says() {
    if skip() {
        return;
    }
    // The script counts the runs of all rounds; the row shows only the last round.
    let script = r#"
        bench:counted { @runs++; printf("never seen\n"); }
        bench:left_out { return 1; }
        bench:fails { errorf("no"); }
        end { printf("ran %d\n", @runs); }"#;
    let ended = run(&["--bench", "-e", script]);
    assert_eq!(ended.code(), 1);
    let (_, runs) = row(&ended.stdout, "counted").expect("a row");
    let all: u64 = ended.stdout.lines().find_map(|line| line.strip_prefix("ran ")?.parse().ok()).expect("a count");
    assert!(runs > 100 && all > runs && !ended.stdout.contains("never"), "{}", ended.stdout);
    assert_eq!((row(&ended.stdout, "left_out"), row(&ended.stdout, "fails")), (None, None));
    assert!(ended.stderr.ends_with("ERROR: benchmark `fails` failed\n"), "{}", ended.stderr);
}

#[test]
fn without_being_asked_for_tests_do_nothing() {
    if skip() {
        return;
    }
    let ended = run(&[
        "-e",
        "begin { printf(\"begin\\n\"); } test:a { printf(\"test\\n\"); } bench:b { printf(\"bench\\n\"); }",
    ]);
    assert_eq!((ended.code(), ended.stdout.trim(), ended.stderr.as_str()), (0, "begin", "Attached 1 probe\n"));
    let ended = run(&["-e", "test:a { }"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains("run with --test and --bench"), "{}", ended.stderr);
    assert_eq!(run(&["--bench", "-e", "test:a { }"]).code(), 1);
}

#[test]
fn a_filter_leaves_the_probes_whose_names_match() {
    if skip() {
        return;
    }
    let script = "tracepoint:syscalls:sys_enter_* /pid == cpid/ { @[probe] = count(); }
        interval:ms:1 { printf(\"bad\\n\"); }
        mine = tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @mine = count(); }";
    let command = format!("{} getppid 100", super::machine::workload());
    let ended = run(&["--probe-filter", "getppid$|^mine$", "-e", script, "-c", &command]);
    assert_eq!(ended.stderr, "Attached 2 probes\n");
    assert!(
        ended.stdout.ends_with("\n@[tracepoint:syscalls:sys_enter_getppid]: 100\n@mine: 100\n"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("bad"));
    let ended = run(&["--probe-filter", "[x", "-e", script]);
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains("Invalid --probe-filter regex `[x`"), "{}", ended.stderr);
}

#[test]
fn an_argument_may_be_a_probe_or_a_part_of_one() {
    if skip() {
        return;
    }
    let script = "BEG$1 { printf(\"%s\\n\", probe); } $2 { printf(\"%s\\n\", probe); } $3:ms:$4 { printf(\"%s\\n\", probe); exit(); }";
    let ended = run(&["-e", script, "IN", "END", "interval", "50"]);
    let mut lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    // The timer may fire once more before the run ends.
    lines.dedup();
    assert_eq!((ended.code(), lines), (0, vec!["BEGIN", "interval:ms:50", "END"]), "{}", ended.stderr);
    let ended = run(&["-e", "$1 { printf(\"%s\\n\", probe); exit(); }", "i:us:50"]);
    assert_eq!((ended.code(), ended.stdout.lines().next()), (0, Some("interval:us:50")), "{}", ended.stderr);
}
