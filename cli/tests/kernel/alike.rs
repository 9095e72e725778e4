//! Rows of different processes whose stacks or addresses print the same.
//!
//! In: a program that runs several times, at different addresses each time. Out: one row with the
//! sum; separate rows under the name `bpftrace`. Stacks are walked by frame pointers: until a
//! process has unwind tables, its stacks end with a line that others do not have.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::machine::{Directory, PROFILER, copy, profiler, skip, tracer_beside, workload};

const PROCESSES: u64 = 3;
const CALLS: u64 = 5;

/// Runs a script while three processes of a private program run, each of which calls a function
/// with 0 to 4. Returns the script's output.
fn of_processes(command: impl FnOnce(&[&str]) -> Command, options: &[&str], body: &str) -> String {
    let directory = Directory::new("alike");
    let program = directory.path("alike");
    copy(workload(), &program);
    let script = format!("uprobe:{program}:workload_step {{ {body} }}");
    let arguments: Vec<&str> = options.iter().copied().chain(["-q", "-e", &script]).collect();
    let ended = tracer_beside(command(&arguments), &format!("{program} execs {PROCESSES} {CALLS}"));
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    ended.stdout
}

const AGGREGATIONS: &str = "@count[ustack(fp)] = count(); @sum[ustack(fp), 7] = sum(arg0); @avg[ustack(fp)] = avg(arg0); @min[ustack(fp)] = min(arg0);
    @max[ustack(fp)] = max(arg0); @stats[usym(reg(\"ip\"))] = stats(arg0); @hist[ustack(1)] = hist(arg0); @lhist[ustack(1)] = lhist(arg0, 0, 10, 5);
    @dist[ustack(1)] = dist(arg0); @single = count(); @alone = hist(arg0); @linear = lhist(arg0, 0, 10, 5); @spread = dist(arg0);";

#[test]
fn stacks_of_several_processes_that_print_alike_are_one_row() {
    if skip() {
        return;
    }
    let text = of_processes(profiler, &[], AGGREGATIONS);
    for (name, value) in [
        ("@count", "15"),
        ("@sum", "30"),
        ("@avg", "2"),
        ("@min", "0"),
        ("@max", "4"),
        ("@stats", "{ .count = 15, .average = 2, .total = 30 }"),
    ] {
        let rows: Vec<&str> = text.split("\n@").filter(|row| row.starts_with(&format!("{}[", &name[1..]))).collect();
        assert_eq!(rows.len(), 1, "{name}: {text}");
        assert!(rows[0].trim_end().ends_with(&format!("]: {value}")), "{name}: {}", rows[0]);
    }
    let buckets = |name: &str| {
        let row = text.split("\n@").find(|row| row.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        row.split_once(":\n").expect("a block").1.trim_end().to_owned()
    };
    for (keyed, whole) in [("hist[", "alone"), ("lhist[", "linear"), ("dist[", "spread")] {
        assert_eq!(text.matches(&format!("@{keyed}")).count(), 1, "{text}");
        assert_eq!(buckets(keyed), buckets(whole), "{text}");
    }
}

#[test]
fn what_differs_in_more_than_addresses_or_cannot_be_merged_stays_apart() {
    if skip() {
        return;
    }
    let text = of_processes(
        profiler,
        &[],
        "@pids[ustack(fp), pid] = count(); @plain[ustack(fp)] = arg0; @args[ustack(fp), arg0] = count(); @top[ustack(fp)] = count();",
    );
    let rows = |name: &str| text.matches(&format!("@{name}[")).count() as u64;
    assert_eq!((rows("pids"), rows("plain"), rows("args"), rows("top")), (PROCESSES, PROCESSES, CALLS, 1), "{text}");
}

#[test]
fn rows_for_machines_are_merged_too() {
    if skip() {
        return;
    }
    let body = "@stacks[ustack(2, fp)] = count();";
    let json = of_processes(profiler, &["-f", "json"], body);
    let line = json.lines().find(|line| line.contains("@stacks")).expect("a map");
    let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let rows = value["data"]["@stacks"].as_array().expect("rows");
    assert_eq!((rows.len(), rows[0]["value"].as_u64()), (1, Some(PROCESSES * CALLS)), "{line}");
    let pids = rows[0]["pids"].as_array().expect("processes");
    assert_eq!(pids.len() as u64, PROCESSES, "{line}");
    assert!(pids.contains(&rows[0]["key"][0]["pid"]), "{line}");
    let csv = of_processes(profiler, &["-f", "csv"], body);
    assert_eq!(csv.matches("workload_step").count(), 1, "{csv}");
    let view = of_processes(profiler, &[], "@stacks[ustack(1)] = count(); } view \"stacks\" { of @stacks } END {");
    assert_eq!(view.matches("workload_step").count(), 1, "{view}");
}

/// bpftrace prints a row for each process.
#[test]
fn under_the_name_of_bpftrace_each_process_has_its_row() {
    if skip() {
        return;
    }
    let directory = Directory::new("named");
    let link = directory.path("bpftrace");
    symlink(PROFILER, &link).expect("a link");
    let text = of_processes(
        |arguments| {
            let mut command = Command::new(&link);
            command.args(arguments);
            command
        },
        &[],
        "@stacks[ustack(fp)] = count();",
    );
    assert_eq!(text.matches("@stacks[").count() as u64, PROCESSES, "{text}");
}
