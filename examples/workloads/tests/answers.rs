//! The workloads do what they say: each subcommand through its binary.

use std::io::Write as _;
use std::process::{Command, Stdio};

fn workload(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_workload"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn counts_are_those_asked_for() {
    assert!(workload(&["getppid", "1000", "3"]).starts_with("calls 3000\nns_per_call "));
    assert!(workload(&["paced", "1000", "1"]).starts_with("calls 1000\ncalls_per_second "));
    assert_eq!(workload(&["reads", "10", "100"]), "reads 10\nbytes 1000\n");
    assert_eq!(workload(&["files", "7"]), "opens 7\n");
    assert_eq!(workload(&["sleepers", "3", "1"]), "sleepers 3\nms 1\n");
    assert_eq!(workload(&["closes", "900", "1000"]), "closes 100\n");
    assert_eq!(workload(&["functions", "1000"]), "calls 1000\nsum 1000000\n");
    assert_eq!(workload(&["execs", "9", "5", "4"]), "execs 9\n");
    assert_eq!(workload(&["pinned", "0", env!("CARGO_BIN_EXE_workload"), "files", "7"]), "opens 7\n");
    assert_eq!(workload(&["spin", "1"]), "");
}

/// The number after a name.
fn number<T: std::str::FromStr>(output: &str, name: &str) -> T {
    let line = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}: {output}"))
}

fn value(output: &str, name: &str) -> u64 {
    number(output, name)
}

/// What a load knows of a time encloses it.
fn expect_order(output: &str, least: &[&str], most: &str) {
    let least: u64 = least.iter().map(|name| value(output, name)).sum();
    assert!(least <= value(output, most), "{output}");
}

#[test]
fn a_pool_serves_every_request_and_takes_its_time() {
    let output = workload(&["pool", "2", "4", "12", "3", "1000"]);
    assert_eq!((value(&output, "connections"), value(&output, "requests")), (12, 36), "{output}");
    assert!(value(&output, "served_ns") >= 36_000_000, "{output}");
    // Two threads have 12 connections of 3 ms each: the last two wait for the ten before them.
    assert!(value(&output, "wall_ns") >= 18_000_000, "{output}");
    expect_order(&output, &["queued_least_ns", "served_ns"], "answered_ns");
    assert!((1..=2).contains(&value(&output, "servers")), "{output}");
}

#[test]
fn an_event_loop_answers_every_request_after_its_last_piece() {
    for family in ["tcp", "unix"] {
        let output = workload(&["keepalive", family, "4", "5", "3", "1000"]);
        assert!(output.starts_with("ready\n"), "{output}");
        assert_eq!((value(&output, "requests"), value(&output, "reads")), (20, 60), "{output}");
        assert!(value(&output, "served_ns") >= 20_000_000 && value(&output, "busy_max") <= 4, "{output}");
        expect_order(&output, &["queued_least_ns", "served_ns"], "answered_ns");
    }
}

#[test]
fn one_thread_holds_the_lock_at_a_time() {
    let output = workload(&["contend", "3", "4", "1000"]);
    assert_eq!(value(&output, "locks"), 12, "{output}");
    assert!(value(&output, "held_ns") >= 12_000_000 && value(&output, "waited_ns") > 0, "{output}");
    expect_order(&output, &["waited_least_ns"], "waited_ns");
    expect_order(&output, &["waited_least_ns", "held_ns"], "used_ns");
}

#[test]
fn a_condition_and_a_rwlock_take_their_time() {
    let output = workload(&["conditions", "5", "1000", "2000"]);
    assert!(value(&output, "failed") == 5 && value(&output, "waits") >= 5, "{output}");
    assert!(value(&output, "held_ns") >= 5_000_000 && value(&output, "waited_least_ns") >= 10_000_000, "{output}");
    expect_order(&output, &["waited_least_ns"], "waited_ns");
    expect_order(&output, &["held_ns"], "held_most_ns");
    let output = workload(&["rwlock", "2", "5", "1000"]);
    assert!(value(&output, "read_held_ns") >= 10_000_000 && value(&output, "write_held_ns") >= 5_000_000, "{output}");
    for side in ["read", "write"] {
        let [least, waited, held, used] =
            ["waited_least_ns", "waited_ns", "held_ns", "used_ns"].map(|name| format!("{side}_{name}"));
        expect_order(&output, &[&least], &waited);
        expect_order(&output, &[&least, &held], &used);
    }
    // Its input is at its end.
    assert!(workload(&["parked", "3"]).ends_with("\nready\n"));
}

/// Fails by chance below 1e-6: 5.5 sigma for three shares of as many draws as there are slices. A
/// slice is long if the host took the CPU away meanwhile, and then there are fewer.
#[test]
fn shares_of_the_time_are_near_those_in_the_names() {
    let output = workload(&["shares", "300"]);
    let percents = [70, 20, 10];
    let spent: [f64; 3] = percents.map(|percent| number(&output, &format!("share_{percent}_ns")));
    let total: f64 = spent.iter().sum();
    let [slices, cpu_ns]: [f64; 2] = ["slices", "cpu_ns"].map(|name| number(&output, name));
    assert!(total >= 3e8 && cpu_ns >= total && slices > 0.0, "{output}");
    for (percent, spent) in percents.into_iter().zip(spent) {
        let (wanted, share) = (f64::from(percent) / 100.0, spent / total);
        let sigma = (wanted * (1.0 - wanted) / slices).sqrt();
        assert!((share - wanted).abs() <= 5.5 * sigma, "{percent}: {share} ± {sigma}\n{output}");
    }
}

#[test]
fn descriptors_that_were_made_are_closed_or_left_open() {
    let output = workload(&["descriptors", "2", "3000", "7"]);
    let of = |name| value(&output, name);
    assert_eq!(of("opened"), of("closed") + of("left_open"), "{output}");
    assert!(of("duplicated") > 100 && of("closed_in_vain") > 100 && of("refused") > 100, "{output}");
    assert_eq!(output, workload(&["descriptors", "2", "3000", "7"]), "the seed says everything");
}

#[test]
fn what_is_demanded_is_done_and_added_up() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_workload"));
    let mut child =
        command.arg("on-demand").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(b"5\n0\n7\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends with its input");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ready\ndone 5\ndone 5\ndone 12\n");
}

#[test]
fn measurements_name_what_they_measured() {
    let output = workload(&["rss", "sh", "-c", "exit 7"]);
    assert!(output.starts_with("exit 7\nwall_ns ") && output.contains("\npeak_rss_kb "), "{output}");
    assert!(workload(&["first-event", "echo", "x"]).starts_with("first_event_ns "));
    assert!(workload(&["interrupt", "50", "sleep", "60"]).starts_with("exit 130\ninterrupt_to_end_ns "));
}

#[test]
fn mistakes_are_explained() {
    for arguments in [&[][..], &["reads"], &["reads", "x", "1"], &["rss"], &["first-event", "true"], &["pinned", "0"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_workload")).args(arguments).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stderr.starts_with(b"workload: "), "{arguments:?}");
    }
}
