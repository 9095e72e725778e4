//! All probes of a run begin and end at the same time.
//!
//! In: probes under load that are slow to detach, scripts that end themselves. Out: map contents
//! and printed output.

use std::process::Command;

use super::machine::{Directory, Ended, Running, attached, run, skip, wait_for, workload};

/// Two processes that call `workload_step` for as long as the test needs them.
fn load() -> [Running; 2] {
    [(); 2].map(|()| Running::start(Command::new(workload()).args(["functions", "1000000000000"])))
}

/// The sum of a map's values, as printed at the end.
fn total(ended: &Ended, map: &str) -> u64 {
    let of_map = |line: &&str| line.strip_prefix(map).is_some_and(|rest| rest.starts_with([':', '[']));
    let value = |line: &str| line.rsplit(": ").next().and_then(|value| value.parse::<u64>().ok()).expect("a number");
    ended.stdout.lines().filter(of_map).map(value).sum()
}

#[test]
fn what_one_run_of_a_probe_counts_is_in_all_maps_or_in_none() {
    if skip() {
        return;
    }
    let _load = load();
    let steps = format!("uprobe:{}:workload_step", workload());
    let script = format!(
        "{steps} {{ @a = count(); @big[arg0 % 4000] = count(); @plain[arg0 % 3]++; @z = count(); }}
        {steps} {{ @late = count(); }}
        tracepoint:sched:sched_switch {{ @first = count(); @of[args.next_comm] = count(); @last = count(); }}
        interval:ms:200 {{ if (@plain[0] > 0) {{ exit(); }} }}"
    );
    let directory = Directory::new("moments");
    for end in ["exit", "signal"] {
        let output = directory.path(end);
        let options = ["-q", "-o", &output, "-e"];
        let mut ended = match end {
            "exit" => run(&[&options[..], &[&script]].concat()),
            _ => {
                let script = script.replace("exit();", "printf(\"a tick\\n\");");
                let running = attached(&[&options[..], &[&script]].concat());
                let is_seen = || std::fs::read_to_string(&output).is_ok_and(|text| text.contains("a tick"));
                wait_for("a tick", || is_seen().then_some(()));
                running.signal("INT");
                running.end()
            }
        };
        ended.stdout = std::fs::read_to_string(&output).expect("results");
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let all = total(&ended, "@a");
        assert!(all > 0, "{}", ended.stdout);
        for map in ["@big", "@plain", "@z", "@late"] {
            assert_eq!(total(&ended, map), all, "{map} after {end}");
        }
        let switches = total(&ended, "@first");
        assert_eq!((total(&ended, "@of"), total(&ended, "@last")), (switches, switches), "after {end}");
    }
}

#[test]
fn what_end_clears_stays_empty() {
    if skip() {
        return;
    }
    let _load = load();
    let script = format!(
        "uprobe:{}:workload_step {{ @start[tid] = nsecs; @n[arg0 % 100] = count(); }}
        interval:ms:100 {{ exit(); }} END {{ clear(@start); clear(@n); printf(\"end\\n\"); }}",
        workload()
    );
    let ended = run(&["-q", "-e", &script]);
    assert_eq!((ended.code(), ended.stdout.trim()), (0, "end"), "{}", ended.stderr);
}

#[test]
fn nothing_after_exit_is_printed_or_counted() {
    if skip() {
        return;
    }
    let (workload, last) = (workload(), 1000);
    // There is one thread, so what it does after the call happens after `exit()`.
    let script = format!(
        "uprobe:{workload}:workload_step /pid == cpid/ {{ printf(\"%d\\n\", arg0); @n = count(); if (arg0 == {last}) {{ exit(); }} }}
        uretprobe:{workload}:workload_step /pid == cpid/ {{ @returned = count(); }}
        END {{ printf(\"end\\n\"); }}"
    );
    let ended = run(&["-q", "-e", &script, "-c", &format!("sh -c 'exec {workload} functions 200000 > /dev/null'")]);
    let mut lines: Vec<String> = (0..=last).map(|n| n.to_string()).collect();
    lines.extend(["end", "", "", &format!("@n: {}", last + 1), &format!("@returned: {last}")].map(String::from));
    assert_eq!(
        (ended.code(), ended.stdout.lines().collect::<Vec<_>>()),
        (0, lines.iter().map(String::as_str).collect())
    );
}

#[test]
fn an_exit_is_followed_even_when_its_record_finds_no_room() {
    if skip() {
        return;
    }
    let script = format!(
        "uprobe:{}:workload_step {{ for $i : 0..20000 {{ print(@x); }} exit(3); }} END {{ printf(\"end\\n\"); }}",
        workload()
    );
    let script = script.replace("print(@x)", "@x = 1; print(@x)");
    let ended =
        run(&["-q", "-o", "/dev/null", "-e", &script, "-c", &format!("{} functions 1000000000000", workload())]);
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
}

#[test]
fn every_tick_of_an_interval_runs() {
    if skip() {
        return;
    }
    // When several ticks are due at once, they run in script order, so the counts between two slow
    // ticks are exact.
    let script = "interval:us:100 { @fast = count(); } interval:ms:1 { @middle = count(); }
        interval:ms:100 { @slow = count(); if (@n++ == 9) { exit(); } } END { clear(@n); }";
    let ended = run(&["-q", "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!(total(&ended, "@slow"), 10);
    let slow = missed(&ended, "interval:ms:100");
    assert_eq!(total(&ended, "@fast") + missed(&ended, "interval:us:100"), 10_000 + 1000 * slow);
    assert_eq!(total(&ended, "@middle") + missed(&ended, "interval:ms:1"), 1000 + 100 * slow);
}

#[test]
fn ticks_after_exit_are_not_missing() {
    if skip() {
        return;
    }
    // The tick that ends the run is late, because the thousand ticks before it take longer than
    // their period. Those that are due by then come after it.
    let script = "interval:us:1 { for $i : 0..2000 { @work += $i } @fast = count(); }
        interval:ms:1 { exit(); } END { clear(@work); }";
    let ended = run(&["-q", "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let due = 1000 * (1 + missed(&ended, "interval:ms:1"));
    assert_eq!(total(&ended, "@fast") + missed(&ended, "interval:us:1"), due, "{}", ended.stderr);
}

/// The ticks of an interval that did not run.
fn missed(ended: &Ended, name: &str) -> u64 {
    let line = format!("ticks of {name}: did not run: ");
    let count = ended.stderr.lines().find_map(|found| found.trim().strip_prefix(&line));
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[test]
fn samples_that_the_kernel_leaves_out_are_counted() {
    if skip() {
        return;
    }
    // A program that is attached through perf and runs for milliseconds.
    let script = "profile:hz:997 { @samples = count(); }
        tracepoint:sched:sched_process_exec { $p = args.pid; for $i : 0..2000000 { @work += $i } }";
    let ended = run(&["-q", "--strict", "-e", script, "-c", &format!("{} execs 50 1", workload())]);
    assert_eq!(ended.code(), 4, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("ticks of profile:hz:997: did not run: "), "{}", ended.stderr);
}

/// Counts the ticks of a 997 Hz clock that are due between the first and the last sample of each
/// CPU.
const TICKS: &str = "profile:hz:997 { if (@first[cpu] == 0) { @first[cpu] = nsecs; } @last[cpu] = nsecs; @ran[cpu]++; }
    END { for $of : @ran { $cpu = $of.0; @due += (@last[$cpu] - @first[$cpu] + 501504) / 1003009 + 1; @samples += $of.1; @cpus++; }
        clear(@first); clear(@last); clear(@ran); }";

#[test]
fn samples_and_those_that_are_reported_missing_are_all_that_were_due() {
    if skip() {
        return;
    }
    let script = format!(
        "{TICKS} tracepoint:sched:sched_process_exec {{ $p = args.pid; for $i : 0..2000000 {{ @work += $i }} }}"
    );
    let running = attached(&["-q", "--strict", "-e", &script]);
    let load = Command::new(workload()).args(["execs", "50", "1"]).output().expect("the workload");
    assert!(load.status.success());
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 4, "{}{}", ended.stdout, ended.stderr);
    let (due, samples, cpus) = (total(&ended, "@due"), total(&ended, "@samples"), total(&ended, "@cpus"));
    let reported = reported_ticks(&ended, "did not run: skipped by the kernel");
    let merged = reported_ticks(&ended, "came late, and the kernel merged them with later ones");
    assert!(reported > 100, "{}{}", ended.stdout, ended.stderr);
    // One in a hundred merged ticks is not reported, and a tick may be lost at each end of the run.
    // The script's own count of due ticks was seen to be off by 2 % on a machine whose processors
    // are shared.
    let (sum, tolerated) = (samples + reported + merged, due / 20 + 2 * cpus);
    assert!(due.abs_diff(sum) <= tolerated, "{due} due, {samples} + {reported} + {merged}");
}

#[test]
fn few_samples_that_are_missing_are_a_loss_beside_programs_that_are_attached_through_perf() {
    if skip() {
        return;
    }
    let script = "profile:hz:997 { @samples = count(); } interval:s:1 { exit(); }
        tracepoint:sched:sched_process_exec /args.pid == cpid/ { for $i : 0..500000 { @work += $i } }";
    let ended = run(&["-q", "--strict", "-e", script, "-c", &format!("{} sleepers 1 2000", workload())]);
    assert_eq!(ended.code(), 4, "{}{}", ended.stdout, ended.stderr);
    assert!(reported_ticks(&ended, "did not run: skipped by the kernel") > 0, "{}", ended.stderr);
}

#[test]
fn a_run_in_which_all_samples_were_taken_reports_none() {
    if skip() {
        return;
    }
    // Some hosts hide idle threads and threads of their own from perf, so keep every processor
    // busy. Another test's program may delay samples. They are missing then, and the test tries
    // again: this fails by chance below 1e-6 if one in seven of these short runs has all samples.
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let busy = || Running::start(Command::new(workload()).args(["functions", "1000000000000"]));
    let _busy: Vec<Running> = (0..cpus).map(|_| busy()).collect();
    let runs = || run(&["-q", "--strict", "-e", "profile:hz:99 { @samples = count(); } interval:ms:300 { exit(); }"]);
    let complete = (0..100).map(|_| runs()).find(|ended| ended.code() == 0).expect("a run that took all samples");
    assert!(total(&complete, "@samples") > 0 && complete.stderr.is_empty(), "{}", complete.stderr);
}

/// The number of ticks that are reported with this label.
fn reported_ticks(ended: &Ended, words: &str) -> u64 {
    let line = format!("ticks of profile:hz:997: {words}: ");
    let count = ended.stderr.lines().find_map(|found| found.trim().strip_prefix(&line));
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[test]
fn what_clear_removes_is_not_counted_by_len() {
    if skip() {
        return;
    }
    let script = "BEGIN { for $i : 0..1000 { @x[$i] = 1; @y[$i] = count(); } clear(@x); clear(@y); }
        interval:ms:10 { if (len(@x) == 0 && len(@y) == 0) { @x[1] = 1; printf(\"%d\\n\", len(@x)); exit(); } }
        END { clear(@x); }";
    let ended = run(&["-q", "-e", script]);
    assert_eq!((ended.code(), ended.stdout.trim()), (0, "1"), "{}", ended.stderr);
}
