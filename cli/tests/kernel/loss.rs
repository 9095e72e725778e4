//! Losses are counted exactly.
//!
//! In: more output than a small ring buffer holds, more keys than a small map holds. Out: produced
//! = received + reported lost.

use std::process::Command;

use super::machine::{self, Ended, Running, run, skip, workload};

const CALLS: u64 = 300_000;

/// The number after `words: ` in standard error; 0 if it is not printed.
fn reported(ended: &Ended, words: &str) -> u64 {
    let line = ended.stderr.lines().find_map(|line| line.trim().strip_prefix(words)?.strip_prefix(": "));
    line.map_or(0, |number| number.parse().expect("a number"))
}

fn command(threads: u64) -> String {
    // The command's output is discarded, because it could split a line of results in the shared
    // pipe. The shell calls getppid too.
    format!("sh -c 'exec {} getppid {} {threads} >/dev/null'", workload(), CALLS / threads)
}

const FLOOD: &str = r#"config = { perf_rb_pages = 1 }
tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == "workload"/ { printf("enter\n"); }
tracepoint:syscalls:sys_exit_getppid /pid == cpid && comm == "workload"/ { printf("exit %d\n", args.ret > 0); }"#;

#[test]
fn produced_is_received_plus_lost_for_each_probe() {
    if skip() {
        return;
    }
    for threads in [1, 2] {
        let ended = run(&["-q", "-e", FLOOD, "-c", &command(threads)]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let lost =
            |probe| reported(&ended, &format!("events of tracepoint:syscalls:sys_{probe}_getppid: ring buffer full"));
        let (enter, exit) = (lost("enter"), lost("exit"));
        assert!(enter > 0 && exit > 0, "the ring was never full, so nothing was tested: {}", ended.stderr);
        assert_eq!((ended.lines("enter") + enter, ended.lines("exit 1") + exit), (CALLS, CALLS));
        let totals = ended.stderr.lines().filter_map(|line| line.strip_prefix("Lost ")?.strip_suffix(" events"));
        assert_eq!(totals.map(|n| n.parse::<u64>().expect("a number")).sum::<u64>(), enter + exit);
    }
}

#[test]
fn json_has_the_same_losses_and_strict_makes_them_an_error() {
    if skip() {
        return;
    }
    let directory = machine::Directory::new("loss");
    let output = directory.path("out");
    let ended = run(&["-f", "json", "--strict", "-o", &output, "-e", FLOOD, "-c", &command(2)]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (4, ""));
    let text = std::fs::read_to_string(&output).expect("results");
    let number = |line: &str, name: &str| -> u64 {
        let (_, rest) = line.split_once(&format!("\"{name}\": ")).expect(name);
        rest.trim_end_matches(['}', ']']).split([',', '}']).next().and_then(|n| n.parse().ok()).expect("a number")
    };
    let received = text.lines().filter(|line| line.starts_with("{\"type\": \"printf\"")).count() as u64;
    let lost: u64 =
        text.lines().filter(|line| line.contains("\"lost_events\"")).map(|line| number(line, "events")).sum();
    assert_eq!(received + lost, 2 * CALLS);
    let ledger = text.lines().find(|line| line.starts_with("{\"type\": \"quality\"")).expect("a ledger");
    let entries: u64 = ledger.split("{\"what\"").skip(1).map(|entry| number(entry, "count")).sum();
    assert_eq!(entries, lost);

    let nothing_lost = run(&["-q", "--strict", "-e", "BEGIN { printf(\"x\\n\"); exit(); }"]);
    assert_eq!((nothing_lost.code(), nothing_lost.lines("x")), (0, 1));
}

#[test]
fn a_full_map_is_named_with_its_size_and_what_it_refused() {
    if skip() {
        return;
    }
    let script = "config = { max_map_keys = 10 }
        tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
            $n = @n; @n++; @plain[$n] = 1; @added[$n]++; @counted[$n, 1] = count(); @spread[$n] = hist(1);
        }";
    let ended = run(&["-q", "--strict", "-e", script, "-c", &format!("{} getppid 1000", workload())]);
    assert_eq!(ended.code(), 4, "{}", ended.stderr);
    for map in ["plain", "added", "counted", "spread"] {
        let kept = ended.stdout.lines().filter(|line| line.starts_with(&format!("@{map}["))).count();
        let refused = reported(&ended, &format!("updates of @{map}: map full, it holds 10 keys"));
        assert_eq!((map, kept, refused), (map, 10, 990), "{}", ended.stderr);
    }
    assert_eq!(ended.lines("@n: 1000"), 1);
}

#[test]
fn a_recipe_says_nothing_of_spans_that_are_whole() {
    if skip() {
        return;
    }
    let recipe = ["syscall/latency", "--pid", "1", "--duration", "20ms"];
    let quiet = run(&recipe);
    assert!(quiet.code() == 0 && !quiet.stderr.contains("span "), "{}", quiet.stderr);
    let told = run(&[&recipe[..], &["-v"]].concat());
    assert!(told.code() == 0 && told.stderr.contains("span call: "), "{}", told.stderr);
}

/// Ten keys come in the first tick, and the map holds two; then nothing is lost.
#[test]
fn a_window_has_its_own_losses() {
    if skip() {
        return;
    }
    let script = "config = { max_map_keys = 2 }
        view \"v\" { of @n every 100ms clear }
        interval:20ms {
            if (@filled == 0) { for $i : 0..10 { @n[$i] = count(); } @filled = 1; }
            @ticks++; if (@ticks == 25) { exit(); }
        }
        END { clear(@filled); clear(@ticks); }";
    let ended = run(&["-q", "-f", "json", "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let windows: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("{\"type\": \"view\"")).collect();
    let lossy = windows.iter().filter(|line| line.contains("map full") && line.contains("\"count\": 8")).count();
    assert!(windows.len() >= 3 && lossy == 1, "{}", ended.stdout);
    let whole = ended.stdout.lines().find(|line| line.starts_with("{\"type\": \"quality\""));
    assert!(whole.is_some_and(|line| line.contains("\"count\": 8")), "{}", ended.stdout);
}

#[test]
fn a_full_map_says_what_to_write_and_that_mends_it() {
    if skip() {
        return;
    }
    let body = "BEGIN { for $i : 0..12 { @plain[$i] = 1; @counted[$i] = count(); } exit(); }";
    let ended = run(&["-q", "-e", &format!("config = {{ max_map_keys = 3 }} {body}")]);
    let help = |words: &str| {
        let line = ended.stderr.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{}", ended.stderr));
        line.split('`').nth(1).expect("what to write").to_owned()
    };
    let (plain, counted) = (help("let @plain = "), help("let @counted = "));
    assert_eq!((plain.as_str(), counted.as_str()), ("let @plain = hash(12);", "let @counted = percpuhash(12);"));
    let mended = run(&["-q", "--strict", "-e", &format!("config = {{ max_map_keys = 3 }} {plain} {counted} {body}")]);
    assert_eq!((mended.code(), mended.stderr.as_str()), (0, ""));
}

#[test]
fn what_probes_cost_is_measured_with_exact_counts() {
    if skip() {
        return;
    }
    let script = r#"tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == "workload"/ { @calls = count(); }
        uprobe:WORKLOAD:workload_step { @never = count(); }"#;
    let script = script.replace("WORKLOAD", workload());
    let ended = run(&["-q", "--stats", "-e", &script, "-c", &command(1)]);
    assert_eq!((ended.code(), ended.lines(&format!("@calls: {CALLS}"))), (0, 1), "{}", ended.stderr);
    let row = |probe: &str| -> Vec<String> {
        let line = ended
            .stderr
            .lines()
            .find(|line| line.trim_end().ends_with(probe))
            .unwrap_or_else(|| panic!("{}", ended.stderr));
        line.split_whitespace().map(str::to_owned).collect()
    };
    // The dispatcher program runs for all system calls.
    let runs: u64 = row("sys_enter_getppid")[0].parse().expect("a number");
    assert!(runs >= CALLS, "{runs}");
    assert_eq!(row("workload_step")[..3], ["0", "0", "ns"]);
    assert!(run(&["-q", "-e", "BEGIN { exit(); }"]).stderr.is_empty(), "without `--stats` nothing is said");
}

/// A probe prints before and after each action, while the ring buffer overflows.
#[test]
fn actions_are_never_lost_in_a_flood_and_keep_their_place() {
    if skip() {
        return;
    }
    let script = r#"config = { perf_rb_pages = 1; print_maps_on_exit = false }
        tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == "workload"/ { printf("flood\n"); @calls++; }
        interval:ms:5 { @round++; @x = @round; @y = 1; @z = 1; printf("before %d\n", @round); print(@x); clear(@y); zero(@z); printf("after %d\n", @round); }
        END { printf("rounds %d\n", @round); }"#;
    let ended = run(&["-q", "-e", script, "-c", &command(2)]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("ring buffer full"), "no flood: {}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let rounds: u64 = lines.iter().find_map(|line| line.strip_prefix("rounds ")?.parse().ok()).expect("rounds");
    let prints = lines.iter().filter(|line| line.starts_with("@x: ")).count() as u64;
    assert_eq!(prints, rounds, "each print(@x) arrived");
    assert!(!ended.stderr.contains("actions of"), "{}", ended.stderr);
    // If both neighbors of an action arrived, the action is printed between them.
    for round in 1..=rounds {
        let at = |text: String| lines.iter().position(|line| *line == text);
        if let (Some(before), Some(after)) = (at(format!("before {round}")), at(format!("after {round}"))) {
            let between = lines[before..after].iter().filter(|line| line.starts_with("@x: ")).count();
            assert_eq!(between, 1, "round {round}");
        }
    }
}

#[test]
fn an_exit_in_a_flood_arrives() {
    if skip() {
        return;
    }
    let script = r#"config = { perf_rb_pages = 1 }
        tracepoint:syscalls:sys_enter_getppid /comm == "workload"/ { printf("flood\n"); @calls++; if (@calls == 5000) { exit(6); } }"#;
    let flood = Running::start(Command::new(workload()).args(["getppid", "100000000"]));
    let ended = run(&["-q", "-e", script]);
    assert_eq!(ended.code(), 6, "{}", ended.stderr);
    drop(flood);
}
