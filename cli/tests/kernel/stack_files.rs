//! Stacks of a run as files: `--folded`, `--flame`, `--pprof`.
//!
//! In: a workload that calls a function a known number of times. Out: the files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::machine::{Directory, Running, run, skip, workload};

#[test]
fn the_numbers_of_the_files_are_those_of_the_map() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let [folded, flame] = ["folded", "svg"].map(|name| directory.path(name));
    let script = format!("uprobe:{0}:workload_step {{ @[comm, ustack(fp)] = count(); }}", workload());
    let command = format!("{} functions 1000", workload());
    let ended = run(&["-q", "-e", &script, "-c", &command, "--folded", &folded, "--flame", &flame]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    assert!(ended.stdout.contains("workload_step"), "the map is printed as well: {}", ended.stdout);
    let text = fs::read_to_string(&folded).expect("written");
    let rows: Vec<(&str, u64)> = text
        .lines()
        .map(|line| {
            let (stack, count) = line.rsplit_once(' ').expect("a number");
            (stack, count.parse().expect("a number"))
        })
        .collect();
    assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), 1000, "{text}");
    for (stack, _) in rows {
        assert!(stack.starts_with("workload;") && stack.ends_with(";workload_step"), "{stack}");
    }
    let svg = fs::read_to_string(&flame).expect("written");
    assert!(svg.starts_with("<?xml") && svg.contains("<title>workload_step (1,000 in total, 100.00%)</title>"));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert!(svg.contains(&format!(" on {}, ", host.trim())) && svg.contains(" UTC, "), "the title");
    for path in [&folded, &flame] {
        let mode = fs::metadata(path).expect("written").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{path}: stacks of other users' processes");
    }
}

#[test]
fn stacks_of_a_view_that_clears_are_those_of_its_last_window() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let folded = directory.path("folded");
    let script = format!(
        "uprobe:{}:workload_step {{ @s[ustack(fp)] = count(); }}
        view \"v\" {{ of @s  show key1, count  every 1h clear }}",
        workload()
    );
    let ended = run(&["-q", "-e", &script, "-c", &format!("{} functions 100", workload()), "--folded", &folded]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    let text = fs::read_to_string(&folded).expect("written");
    let sum: u64 = text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    assert_eq!(sum, 100, "{text}");
}

#[test]
fn what_cannot_be_written_is_reported_before_anything_runs() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let (marker, missing) = (directory.path("ran"), directory.path("no/such"));
    let touch = format!("touch {marker}");
    let with_stacks = "profile:hz:1 { @[kstack] = count(); }";
    for (script, path, words) in [
        (with_stacks, missing.as_str(), "no/such"),
        ("BEGIN { @x = count(); }", "/dev/null", "no map of this script has stacks in its keys"),
    ] {
        let ended = run(&["-q", "-e", script, "-c", &touch, "--flame", path]);
        assert_ne!(ended.code(), 0);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
    assert!(fs::metadata(&marker).is_err(), "the command ran");
}

#[test]
fn a_run_without_stacks_says_that_the_picture_is_empty() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let [folded, flame] = ["folded", "svg"].map(|name| directory.path(name));
    let ended = run(&[
        "-q",
        "-e",
        "profile:hz:1 / pid == 0 && pid == 1 / { @[kstack] = count(); } BEGIN { exit(); }",
        "--folded",
        &folded,
        "--flame",
        &flame,
    ]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for path in [folded, flame] {
        assert!(ended.stderr.contains(&format!("no stacks were counted, so `{path}` is empty")), "{}", ended.stderr);
        assert_eq!(fs::metadata(&path).expect("opened").len(), 0);
    }
}

#[test]
fn idle_threads_are_left_out_of_files_and_pictures() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let folded = directory.path("folded");
    let probe = format!("uprobe:{}:workload_step", workload());
    let command = format!("{} functions 100", workload());
    let busy = |script: &str| run(&["-q", "-e", script, "-c", &command, "--busy", "--folded", &folded, "--icicle"]);
    let key = |state: &str| format!("@[comm, \"{state}\", ustack(fp)] = count();");
    let ended = busy(&format!("{probe} {{ {} {} }}", key("poll"), key("running")));
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    assert!(ended.stdout.ends_with("idle threads are left out: poll 100\n"), "{}", ended.stdout);
    let text = fs::read_to_string(&folded).expect("written");
    assert!(text.starts_with("workload;running;") && text.ends_with(" 100\n") && text.lines().count() == 1, "{text}");
    let ended = busy(&format!("{probe} {{ {} }}", key("poll")));
    assert!(ended.stderr.contains("note: no stacks of busy threads were counted"), "{}", ended.stderr);
    let ended = busy(&format!("{probe} {{ @[ustack(fp)] = count(); }}"));
    assert!(ended.code() == 0 && ended.stderr.contains("`--busy` leaves nothing out"), "{}", ended.stderr);
    let ended = run(&["-e", "BEGIN { exit(); }", "--busy"]);
    assert!(ended.code() != 0 && ended.stderr.contains("--flame"), "nothing to draw: {}", ended.stderr);
}

#[test]
fn an_icicle_follows_the_results() {
    if skip() {
        return;
    }
    let script = "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @[comm, kstack] = count(); }";
    let ended = run(&["-q", "-e", script, "-c", &format!("{} getppid 100", workload()), "--icicle"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let (results, picture) = ended.stdout.split_once("|all 100.0 %\n").expect("a picture");
    assert!(results.contains("]: 100\n"), "{}", ended.stdout);
    assert!(picture.starts_with("|workload 100.0 %\n|"), "{}", ended.stdout);
    let nothing = run(&[
        "-q",
        "-e",
        "profile:hz:1 / pid == 0 && pid == 1 / { @[kstack] = count(); } BEGIN { exit(); }",
        "--icicle",
    ]);
    assert!(nothing.stderr.contains("note: no stacks were counted"), "{}", nothing.stderr);
}

#[test]
fn scripts_draw_their_maps_and_machines_get_rows() {
    if skip() {
        return;
    }
    let script =
        "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @[comm, kstack] = count(); @v[comm, kstack] = count(); }
        tracepoint:syscalls:sys_enter_getppid /pid == cpid && !@drawn/ { @drawn = 1; flame(@); }
        view \"calls\" { of @v  flame } END { flame(@); clear(@); clear(@drawn); }";
    let command = format!("{} getppid 100", workload());
    let ended = run(&["-q", "-e", script, "-c", &command]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    let titles = ended.stdout.lines().filter(|line| line.contains(" in 1 stacks")).collect::<Vec<_>>();
    assert_eq!(titles.len(), 3, "{}", ended.stdout);
    assert!(
        titles[0].starts_with("@: ") && titles[1..] == ["@: 100 in 1 stacks", "calls: 100 in 1 stacks"],
        "{titles:?}"
    );
    assert_eq!(ended.stdout.matches("|all 100.0 %\n|workload 100.0 %\n|").count(), 3, "{}", ended.stdout);
    let json = run(&["-q", "-f", "json", "-e", script, "-c", &command]);
    assert!(json.stdout.contains("\"view\": \"calls\"") && json.stdout.contains("\"count\": 100"), "{}", json.stdout);
    assert!(!json.stdout.contains("|all"), "{}", json.stdout);
}

#[test]
fn a_reader_who_leaves_early_costs_no_stacks() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let folded = directory.path("folded");
    let script =
        format!("uprobe:{}:workload_step {{ @[ustack(fp)] = count(); printf(\"%0100d\\n\", arg0); }}", workload());
    let line = format!(
        "'{}' run -q -e '{script}' -c '{} functions 100000' --folded '{folded}' | head -n 1",
        super::machine::PROFILER,
        workload()
    );
    let ended = Running::start(Command::new("sh").args(["-c", &line])).end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let text = fs::read_to_string(&folded).expect("written");
    let sum: u64 = text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    assert!(sum > 0, "{text}{}", ended.stderr);
}

/// Runs `go tool pprof`; `None` without Go.
fn go_pprof(arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new("go").args(["tool", "pprof"]).args(arguments).output() else {
        println!("SKIPPED: no `go`, whose pprof reads the files");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn pprof_reads_counts_and_times_with_their_files() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let [pprof, folded] = ["pb.gz", "folded"].map(|name| directory.path(name));
    let script = format!(
        "uprobe:{0}:workload_step {{ @n[comm, ustack(fp)] = count(); @t[ustack(fp)] = sum(7ms); }}",
        workload()
    );
    let command = format!("{} functions 1000", workload());
    let ended = run(&["-q", "-e", &script, "-c", &command, "--pprof", &pprof, "--folded", &folded]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    let Some(raw) = go_pprof(&["-raw", &pprof]) else { return };
    assert!(raw.contains("samples/count time/nanoseconds\n"), "{raw}");
    let sums = raw.lines().filter_map(|line| {
        let mut numbers = line.split(':').next()?.split_whitespace().map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    let (counts, times): (Vec<u64>, Vec<u64>) = sums.unzip();
    assert_eq!((counts.iter().sum::<u64>(), times.iter().sum::<u64>()), (1000, 7_000_000_000), "{raw}");
    assert!(raw.contains("key1:[workload]") && raw.contains("map:[@n]"), "{raw}");
    let build_id = raw.lines().find_map(|line| line.split_once(&format!("{} ", workload()))).expect("a mapping").1;
    assert!(build_id.split_whitespace().next().is_some_and(|id| id.len() == 40), "{raw}");
    let top = go_pprof(&["-top", "-sample_index=time", &pprof]).expect("it ran before");
    assert!(top.lines().any(|line| line.trim().starts_with("7s") && line.ends_with("workload_step")), "{top}");
}
