//! `mem/…`: memory that a load touches, maps, allocates and keeps.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use super::super::machine::{Directory, PROFILER, Running, patience, skip};
use super::super::recipes::Outcome;
use super::programs::{PROGRAMS, beside};
use super::{Case, Is, NOBODY, Row, printed, says_in_words, says_nothing};

#[test]
fn faults_are_those_of_the_pages_that_are_touched() {
    if skip() {
        return;
    }
    let outcome = Case {
        load: "touches 400",
        recipe: &["mem/faults", "--pid", "PID"],
        rows: &[Row {
            view: "page faults",
            keys: &[("process", "workload")],
            cells: &[("writes", Is::AtLeast("touches")), ("writes", Is::Below(600.0)), ("faults", Is::Above(400.0))],
        }],
        lines: &[],
    }
    .check();
    let rows = outcome.rows("where memory is touched first");
    let faults = |is_it: &dyn Fn(&str) -> bool| -> u64 {
        let of_them = rows.iter().filter(|row| row["stack"].as_str().is_some_and(is_it));
        of_them.filter_map(|row| row["faults"].as_u64()).sum()
    };
    let named = faults(&|stack| stack.contains("touches"));
    // On an emulated processor the tables of the process can take longer than a run waits for them.
    // Such a stack may be of the load, or of what the process did before.
    let is_early = |stack: &str| !stack.contains("touches") && stack.contains("no unwind table yet");
    let early = if patience() > 1 { faults(&is_early) } else { 0 };
    // The allocator touches the first page, and a page that it has already may be the last.
    assert!(named <= 402 && named + early >= 398, "{named} and {early}\n{}", outcome.text);
    says_nothing("mem/faults", NOBODY, &["page faults", "where memory is touched first"]);
}

#[test]
fn growth_is_what_the_process_maps() {
    if skip() {
        return;
    }
    // The load maps 32 MiB at once.
    Case {
        load: "act refill",
        recipe: &["mem/growth", "--pid", "PID", "--min", "30MiB"],
        rows: &[
            Row {
                view: "growth of address space",
                keys: &[("process", "workload")],
                cells: &[("mapped", Is::Number(33_554_432.0)), ("heap", Is::Nothing)],
            },
            Row {
                view: "where memory is asked for",
                keys: &[("process", "workload")],
                cells: &[("bytes", Is::Number(33_554_432.0)), ("share", Is::Number(100.0))],
            },
        ],
        lines: &[],
    }
    .check();
    // Once a large block was freed, malloc grows the heap for such blocks.
    Case {
        load: "act leaks 20 1000000",
        recipe: &["mem/growth", "--pid", "PID", "--min", "900000"],
        rows: &[Row {
            view: "growth of address space",
            keys: &[("process", "workload")],
            cells: &[("heap", Is::Above(8e6)), ("heap", Is::Below(12e6)), ("mapped", Is::Above(1e6))],
        }],
        lines: &[],
    }
    .check();
    says_nothing("mem/growth", NOBODY, &["growth of address space", "where memory is asked for"]);
}

#[test]
fn allocations_have_their_number_and_size() {
    if skip() {
        return;
    }
    let outcome = Case {
        load: "act leaks 2000 12345",
        recipe: &["mem/alloc", "--pid", "PID", "--min", "12345"],
        rows: &[Row {
            view: "allocations",
            keys: &[("process", "workload")],
            cells: &[
                ("allocations", Is::Truth("allocated")),
                ("bytes", Is::Number(2000.0 * 12345.0)),
                ("max", Is::Number(12345.0)),
                ("size p50", Is::Above(12345.0 * 0.99)),
                ("size p50", Is::Below(12345.0)),
                ("frees", Is::AtLeast("leaked")),
            ],
        }],
        lines: &[],
    }
    .check();
    expect_stack(&outcome.document("view", "view", "where memory is allocated")["rows"], "workload_allocate");
    says_nothing("mem/alloc", NOBODY, &["allocations", "where memory is allocated"]);
}

/// Profiler uses libc too. It is not among the processes, even if it is asked for.
#[test]
fn memory_is_that_of_others() {
    if skip() {
        return;
    }
    for recipe in ["mem/alloc", "mem/leaks"] {
        let command = format!("exec \"$0\" -q -f json {recipe} --pid $$ --duration 100ms");
        let ended = Running::start(Command::new("sh").args(["-c", &command, PROFILER])).end();
        assert_eq!(ended.code(), 0, "{recipe}: {}", ended.stderr);
        let outcome = Outcome::read(ended.stdout);
        let title = if recipe == "mem/alloc" { "allocations" } else { "memory that was not freed" };
        assert!(outcome.rows(title).is_empty(), "{recipe}: {}", outcome.text);
    }
}

/// The first row has a stack with this function.
fn expect_stack(rows: &serde_json::Value, function: &str) {
    assert!(rows[0]["stack"].as_str().is_some_and(|stack| stack.contains(function)), "{rows}");
}

#[test]
fn what_is_not_freed_is_what_leaks() {
    if skip() {
        return;
    }
    let outcome = Case {
        load: "act leaks 2000 12345",
        recipe: &["mem/leaks", "--pid", "PID", "--min", "12345"],
        rows: &[Row {
            view: "memory that was not freed",
            keys: &[("process", "workload")],
            cells: &[("size", Is::Number(12345.0)), ("pid", Is::Truth("pid"))],
        }],
        lines: &[],
    }
    .check();
    // Stacks of a program that has just begun are not all complete, so there may be several rows.
    let rows = &outcome.document("view", "view", "memory that was not freed")["rows"];
    let total =
        |column: &str| rows.as_array().expect("rows").iter().filter_map(|row| row[column].as_f64()).sum::<f64>();
    assert_eq!(Some(total("blocks")), Some(outcome.truth("leaked")), "{}", outcome.text);
    assert_eq!(Some(total("bytes")), Some(outcome.truth("leaked_bytes")), "{}", outcome.text);
    expect_stack(rows, "workload_allocate");
    a_part_stands_for_all();
    // All of it is younger than an hour.
    says_nothing("mem/leaks", &["--older", "1h", "--comm", "^sh$"], &["memory that was not freed"]);
}

#[test]
fn aligned_memory_is_memory() {
    if skip() {
        return;
    }
    let directory = Directory::new("aligned");
    // A program that is statically linked has an allocator of its own.
    for linking in ["-rdynamic", "-static"] {
        let program = directory.path(linking);
        let built =
            Command::new("cc").args(["-O1", linking, "-o", &program, &format!("{PROGRAMS}/aligned.c")]).output();
        let Ok(built) = built else {
            println!("SKIPPED: there is no C compiler");
            return;
        };
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let recipe = ["mem/leaks", "--pid", "PID", "--min", "30000"];
        let outcome = beside(&mut Command::new(&program), &recipe).expect("it was compiled");
        let rows = outcome.rows("memory that was not freed");
        let total = |column: &str| rows.iter().filter_map(|row| row[column].as_f64()).sum::<f64>();
        assert_eq!(Some(total("blocks")), Some(outcome.truth("kept")), "{}", outcome.text);
        assert_eq!(Some(total("bytes")), Some(outcome.truth("kept_bytes")), "{}", outcome.text);
        let recipe = ["mem/alloc", "--pid", "PID", "--min", "30000"];
        let outcome = beside(&mut Command::new(&program), &recipe).expect("it was compiled");
        let row = &outcome.rows("allocations")[0];
        // With six that are freed, and one that fails.
        assert_eq!(row["allocations"].as_f64(), Some(outcome.truth("kept") + 7.0), "{}", outcome.text);
        assert_eq!(row["bytes"].as_f64(), Some(outcome.truth("kept_bytes") + 360_000.0), "{}", outcome.text);
    }
}

/// What a function of the allocator calls is no allocation of its own, and no block. A block that
/// becomes too small for the filter is not kept, nor is one that realloc frees.
#[test]
fn functions_that_call_each_other_count_once() {
    if skip() {
        return;
    }
    let directory = Directory::new("allocator");
    let program = directory.path("allocator");
    let source = format!("{PROGRAMS}/allocator.c");
    let Ok(built) = Command::new("cc").args(["-O1", "-fno-builtin", "-o", &program, &source]).output() else {
        println!("SKIPPED: there is no C compiler");
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let of = |recipe, others: &[&str]| {
        let arguments = [&[recipe, "--pid", "PID"], others].concat();
        beside(&mut Command::new(&program), &arguments).expect("it was compiled")
    };
    let outcome = of("mem/alloc", &["--min", "30000"]);
    let row = &outcome.rows("allocations")[0];
    for (column, truth) in [("allocations", "calls"), ("bytes", "bytes"), ("frees", "frees")] {
        assert_eq!(row[column].as_f64(), Some(outcome.truth(truth)), "{column}: {}", outcome.text);
    }
    let total = |outcome: &Outcome, column: &str| -> f64 {
        outcome.rows("memory that was not freed").iter().filter_map(|row| row[column].as_f64()).sum()
    };
    let outcome = of("mem/leaks", &["--min", "30000"]);
    for (column, truth) in [("blocks", "kept"), ("bytes", "kept_bytes")] {
        assert_eq!(Some(total(&outcome, column)), Some(outcome.truth(truth)), "{column}: {}", outcome.text);
    }
    // With 2000 smaller blocks. Fails by chance below 1e-6: 5.5 sigma of a binomial.
    let outcome = of("mem/leaks", &["--min", "1000", "--sample", "4"]);
    let (blocks, kept) = (total(&outcome, "blocks"), outcome.truth("kept") + 2000.0);
    assert!((blocks - kept).abs() < 5.5 * (kept * 3.0).sqrt(), "{blocks}: {}", outcome.text);
}

/// With one of four allocations, the number of blocks is right but for chance. Fails by chance
/// below 1e-6: 5.5 sigma of a binomial of 2000 blocks.
fn a_part_stands_for_all() {
    let arguments = ["mem/leaks", "--sample", "4", "--comm", "^workload$", "--min", "12345", "--top", "1000"];
    let outcome = Outcome::run("act leaks 4000 12345", &arguments);
    // Loads of other tests have the same name.
    let rows = outcome.rows("memory that was not freed");
    let of_it = rows.iter().filter(|row| row["pid"].as_f64() == Some(outcome.truth("pid")));
    let blocks: f64 = of_it.filter_map(|row| row["blocks"].as_f64()).sum();
    let leaked = outcome.truth("leaked");
    assert!((blocks - leaked).abs() < 5.5 * (leaked * 3.0).sqrt(), "{blocks}: {}", outcome.text);
    assert!((blocks / 4.0).fract() < 1e-9, "{}", outcome.text);
}

/// Whether a test can make a group with a limit of memory.
fn has_groups() -> bool {
    let has = |path: &str| std::path::Path::new(path).exists();
    let controllers = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    has("/sys/fs/cgroup/memory/memory.limit_in_bytes") || controllers.split_whitespace().any(|name| name == "memory")
}

#[test]
fn a_process_that_the_kernel_kills_is_a_line_with_its_memory() {
    if skip() {
        return;
    }
    says_nothing("mem/oom", NOBODY, &["no process was killed for lack of memory"]);
    if !has_groups() {
        println!("SKIPPED: no group with a limit of memory can be made here");
        return;
    }
    let outcome = Case {
        load: "act oom",
        recipe: &["mem/oom", "--tree", "PID"],
        rows: &[],
        lines: &[(&["processes killed: 1"], 1)],
    }
    .check();
    let child = outcome.truth("child").to_string();
    let killed = printed(&outcome, &[&format!(" {child} workload "), " workload-fill-"]);
    assert_eq!(killed.len(), 1, "{}", outcome.text);
    // Time, pid, name, anonymous memory: nearly all of the group's 16 MiB.
    let line = killed[0].split_once("\"data\": \"").map_or("", |(_, text)| text);
    let anonymous: f64 = line.split_whitespace().nth(3).and_then(|number| number.parse().ok()).expect("a number");
    assert!((12_000.0..=16_384.0).contains(&anonymous), "{}", outcome.text);
}

#[test]
fn stalls_for_memory_free_what_a_group_has_too_much() {
    if skip() {
        return;
    }
    let said = "no stall for memory passes the filters";
    says_in_words("mem/reclaim", NOBODY, said);
    if !has_groups() {
        println!("SKIPPED: no group with a limit of memory can be made here");
        return;
    }
    // Before the kernel kills a process, it tries to free memory.
    let keys = [("process", "workload"), ("pid", "=child"), ("why", "group")];
    let before = Row { view: "stalls for memory", keys: &keys, cells: &[("stalls", Is::Above(1.0))] };
    Case { load: "act oom", recipe: &["mem/reclaim", "--tree", "PID"], rows: &[before], lines: &[] }.check();
    let directory = Directory::new("reclaim");
    let path = directory.path("data");
    if std::fs::metadata(directory.path("")).expect("a directory").dev() >> 8 == 0 {
        return;
    }
    // Others may free memory at the same time, which the kernel's own count contains.
    let freed = [("freed", Is::AtLeast("least_bytes")), ("freed", Is::AtMost("stolen_bytes"))];
    Case {
        load: &format!("act reclaim {path} 64"),
        recipe: &["mem/reclaim", "--tree", "PID"],
        rows: &[Row { view: "stalls for memory", keys: &keys, cells: &freed }],
        lines: &[],
    }
    .check();
}
