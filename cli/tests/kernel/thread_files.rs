//! Stacks of each thread as files: `--per-thread`.
//!
//! In: a workload whose threads have known names. Out: the files, against the stacks of the whole
//! run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::machine::{Directory, run, skip, workload};

/// The numbers of folded lines.
fn numbers(text: &str) -> BTreeMap<&str, u64> {
    let rows = text.lines().map(|line| line.rsplit_once(' ').expect("a number"));
    rows.map(|(stack, number)| (stack, number.parse().expect("a number"))).collect()
}

/// Runs a script beside threads of known names, and compares the files with the whole. A thread
/// with this name has its own file; returns the text of its analysis.
fn expect_parts_of_the_whole(script: &[&str], thread: &str) -> String {
    let directory = Directory::new("threads");
    let (whole, parts) = (directory.path("folded"), directory.path("a/b"));
    let command = format!("{} states 50 5", workload());
    let options = ["-c", command.as_str(), "--folded", &whole, "--per-thread", &parts];
    let ended = run(&[&["-q"], script, &options].concat());
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let whole = read(&whole);
    let mut names: Vec<String> = fs::read_dir(&parts)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    let summary = read(&format!("{parts}/summary.txt"));
    let folded: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".folded")).collect();
    assert_eq!(names.len(), 3 * folded.len() + 1, "{names:?}");
    for name in &folded {
        let text = read(&format!("{parts}/{name}.folded"));
        for (stack, number) in numbers(&text) {
            *sum.entry(stack.to_owned()).or_default() += number;
        }
        let total: u64 = numbers(&text).values().sum();
        let id = name.rsplit_once('-').expect("an id").1;
        let row = |line: &&str| line.split_whitespace().any(|word| word == id);
        let line = summary.lines().find(row).unwrap_or_else(|| panic!("{id}: {summary}"));
        assert!(line.split_whitespace().any(|word| word == total.to_string()), "{total}: {line}");
        let analysis = read(&format!("{parts}/{name}.txt"));
        let is_total = |line: &str| line == format!("total {total}") || line == format!("total {total} ns");
        assert!(analysis.lines().any(is_total), "{total}: {analysis}");
        assert!(read(&format!("{parts}/{name}.svg")).starts_with("<?xml"), "{name}");
    }
    let whole = numbers(&whole);
    assert_eq!(sum.iter().map(|(stack, number)| (stack.as_str(), *number)).collect::<BTreeMap<_, _>>(), whole);
    let total = whole.values().sum::<u64>().to_string();
    let all = summary.lines().find(|line| line.starts_with("all ")).expect("a sum");
    assert!(all.split_whitespace().any(|word| word == total), "{total}: {all}");
    let mode = fs::metadata(format!("{parts}/summary.txt")).expect("written").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "stacks of other users' processes");
    let id_of = |name: &&&str| name.strip_prefix(thread).and_then(|rest| rest.strip_prefix('-')).is_some();
    let own = folded.iter().find(id_of).unwrap_or_else(|| panic!("{thread}: {names:?}"));
    read(&format!("{parts}/{own}.txt"))
}

#[test]
fn the_files_of_threads_add_up_to_the_samples_of_a_script() {
    if skip() {
        return;
    }
    let script = "profile:hz:999 /pid != 0/ { @[tid, comm, ustack] = count(); }";
    let analysis = expect_parts_of_the_whole(&["-e", script], "running");
    assert!(analysis.contains("  function\n") && !analysis.contains("\nstate "), "{analysis}");
}

#[test]
fn the_files_of_threads_add_up_to_the_times_of_a_recipe_with_its_states() {
    if skip() {
        return;
    }
    let recipe = ["cpu/offcpu", "--by-thread", "--comm", "^(lock|pipe|hog|runnable)$"];
    let analysis = expect_parts_of_the_whole(&recipe, "lock");
    let blocked = analysis.lines().find(|line| line.starts_with("blocked ")).expect("a state");
    // On a busy machine, a thread may be preempted on its way into a wait.
    let share = blocked.strip_suffix(" %").and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(blocked.contains(" ns ") && share.is_some_and(|share| share > 90.0), "{analysis}");
    assert!(analysis.contains("_[k]\n"), "{analysis}");
}

#[test]
fn the_files_of_threads_have_the_shares_of_their_states() {
    if skip() {
        return;
    }
    let recipe = ["wall/profile", "--by-thread", "--comm", "^(sleep|pipe)$"];
    let analysis = expect_parts_of_the_whole(&recipe, "pipe");
    let first = analysis.lines().skip_while(|line| !line.starts_with("state ")).nth(1).expect("a state");
    assert!(["pipe ", "runnable "].iter().any(|state| first.starts_with(state)), "{analysis}");
}

#[test]
fn stacks_that_do_not_have_the_thread_are_refused_before_the_run() {
    if skip() {
        return;
    }
    let directory = Directory::new("threads");
    let parts = directory.path("parts");
    for (script, help) in [
        (&["-e", "profile:hz:99 { @[comm, ustack] = count(); }"][..], "put `tid` into the key"),
        (&["cpu/profile"], "`--by-thread` puts the thread into the key"),
        (&["wall/profile"], "`--by-thread` puts the thread into the key"),
        (&["cpu/offcpu"], "`--by-thread` puts the thread into the key"),
    ] {
        let ended = run(&[&["-q"], script, &["--per-thread", &parts]].concat());
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("not kept apart by thread") && ended.stderr.contains(help), "{}", ended.stderr);
    }
    assert!(fs::metadata(&parts).is_err(), "nothing is made");
}
