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

/// Most that a time of three digits differs from the exact one, as a part of it.
const ROUNDED: f64 = 0.005;

/// The number that a text begins with; a time is in nanoseconds.
fn value(text: &str) -> f64 {
    let mut words = text.split_whitespace();
    let number: f64 = words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number: {text}"));
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];
    let unit = words.next().and_then(|word| units.iter().find(|(unit, _)| *unit == word));
    number * unit.map_or(1.0, |(_, ns)| *ns)
}

/// Whether a number for people is this one.
#[expect(clippy::cast_precision_loss, reason = "three digits are compared")]
fn is_about(text: &str, exact: u64) -> bool {
    (value(text) - exact as f64).abs() <= exact as f64 * ROUNDED
}

/// What a run wrote about threads.
struct Written {
    /// The analyses of threads with a name: of ours, and of those of tests that run at the same
    /// time.
    analyses: Vec<String>,
    /// What our load printed.
    load: String,
}

impl Written {
    /// The time that our load says that a thread spent, in nanoseconds.
    fn truth(&self, name: &str) -> f64 {
        let line = self.load.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}: {}", self.load))
    }

    /// Fails unless a thread was in a state for a time between these.
    fn expect_state(&self, state: &str, least_ns: f64, most_ns: f64) {
        let of_state = |analysis: &String| {
            let time = |line: &str| {
                let cells = line.strip_prefix(state)?.strip_prefix(' ')?;
                Some(value(cells))
            };
            analysis.lines().skip_while(|line| !line.starts_with("state ")).find_map(time)
        };
        let mut times = self.analyses.iter().filter_map(of_state);
        let is_there = times.any(|ns| ns >= least_ns * (1.0 - ROUNDED) && ns <= most_ns * (1.0 + ROUNDED));
        assert!(is_there, "{state}: {least_ns} to {most_ns} in {:?}\n{}", self.analyses, self.load);
    }
}

/// How long each thread of the load does what it has the name of, in nanoseconds.
const NOMINAL_NS: f64 = 250e6;

/// Runs a script beside threads of known names, and compares the files with the whole. A thread
/// with this name has its own file.
fn expect_parts_of_the_whole(script: &[&str], thread: &str) -> Written {
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
        // A name may contain spaces and numbers, but not the id.
        let after_id = |line: &str| line.split_once(&format!(" {id} ")).map(|(_, rest)| rest.to_owned());
        let cells = summary.lines().find_map(after_id).unwrap_or_else(|| panic!("{id}: {summary}"));
        assert!(is_about(&cells, total), "{id} {total}: {summary}");
        let analysis = read(&format!("{parts}/{name}.txt"));
        let shown = analysis.lines().find_map(|line| line.strip_prefix("total ")).expect("a total");
        assert!(is_about(shown, total), "{total}: {analysis}");
        assert!(read(&format!("{parts}/{name}.svg")).starts_with("<?xml"), "{name}");
    }
    let whole = numbers(&whole);
    assert_eq!(sum.iter().map(|(stack, number)| (stack.as_str(), *number)).collect::<BTreeMap<_, _>>(), whole);
    let total = whole.values().sum::<u64>();
    let all = summary.lines().find_map(|line| line.strip_prefix("all ")).expect("a sum");
    assert!(is_about(all, total), "{total}: {all}");
    let mode = fs::metadata(format!("{parts}/summary.txt")).expect("written").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "stacks of other users' processes");
    let id_of = |name: &&&str| name.strip_prefix(thread).and_then(|rest| rest.strip_prefix('-')).is_some();
    let analyses: Vec<String> = folded.iter().filter(id_of).map(|name| read(&format!("{parts}/{name}.txt"))).collect();
    assert!(!analyses.is_empty(), "{thread}: {names:?}");
    Written { analyses, load: ended.stdout }
}

#[test]
fn the_files_of_threads_add_up_to_the_samples_of_a_script() {
    if skip() {
        return;
    }
    let script = "profile:hz:999 /pid != 0/ { @[tid, comm, ustack] = count(); }";
    for analysis in expect_parts_of_the_whole(&["-e", script], "running").analyses {
        assert!(analysis.contains("  function\n") && !analysis.contains("\nstate "), "{analysis}");
    }
}

#[test]
fn the_files_of_threads_add_up_to_the_times_of_a_recipe_with_its_states() {
    if skip() {
        return;
    }
    let recipe = ["cpu/offcpu", "--comm", "^(lock|pipe|hog|runnable)$"];
    let written = expect_parts_of_the_whole(&recipe, "lock");
    // A wait contains the time until the thread gets a CPU.
    let [blocked, off] = ["lock_blocked_ns", "lock_off_ns"].map(|name| written.truth(name));
    written.expect_state("blocked", blocked - NOMINAL_NS * 0.02, off + NOMINAL_NS * 0.02);
    for analysis in &written.analyses {
        assert!(analysis.contains("_[k]\n"), "{analysis}");
    }
}

#[test]
fn the_files_of_threads_have_the_shares_of_their_states() {
    if skip() {
        return;
    }
    let recipe = ["wall/profile", "--comm", "^(sleep|pipe)$"];
    let written = expect_parts_of_the_whole(&recipe, "pipe");
    // It is not in its state while it has a CPU or waits for one. A wait for memory that another
    // thread maps meanwhile is of another state, too, and shorter than half of one of the five
    // waits.
    let [truth, existed, blocked, off] =
        ["pipe_ns", "pipe_thread_ns", "pipe_blocked_ns", "pipe_off_ns"].map(|name| written.truth(name));
    let least = truth - (existed - blocked) - NOMINAL_NS / 10.0;
    written.expect_state("pipe", least, off + NOMINAL_NS * 0.02);
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
        (&["cpu/profile", "--by-thread=no"], "leave `--by-thread=false` out"),
        (&["wall/profile", "--by-thread", "false"], "leave `--by-thread=false` out"),
    ] {
        let ended = run(&[&["-q"], script, &["--per-thread", &parts]].concat());
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("not kept apart by thread") && ended.stderr.contains(help), "{}", ended.stderr);
    }
    assert!(fs::metadata(&parts).is_err(), "nothing is made");
}
