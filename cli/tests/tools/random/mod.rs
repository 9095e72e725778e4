//! Random scripts under bpftrace and under our drop-in of the same name.
//!
//! In: seeds. Out: both outputs, compared after sorting their lines; the first differences.
//! Guarantee: a script that bpftrace runs and we refuse is a difference. Beside 0.17, so is one
//! that only bpftrace refuses.
//! `PROFILER_RANDOM=N` compares N scripts, `PROFILER_SEED=S` sets the first seed.

mod expression;
mod grammar;
mod script;
mod statement;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};

use super::differential::{AT_ONCE, Ours, answer, current, is_mute, theirs};
use grammar::Since;
use script::script;

/// How often bpftrace is started if it fails without a message.
const TRIES: usize = 4;

/// How long a script may take, on a machine that is busy.
const LIMIT_S: &str = "120";

/// How many differences are shown.
const SHOWN: usize = 5;

/// What both made of a script.
#[derive(Debug)]
enum Outcome {
    /// Both print this many lines.
    Same(u64),
    Refused,
    Different(String),
}

fn run(tool: &Path, options: &[&str], script: &str) -> Output {
    let mut command = Command::new("timeout");
    command.arg(LIMIT_S).arg(tool).args(options).args(["-e", script]).stdin(Stdio::null());
    command.output().expect("it runs")
}

fn run_theirs(tool: &Path, options: &[&str], script: &str) -> Output {
    let tries = (1..TRIES).map(|_| run(tool, options, script)).find(|output| !is_mute(output));
    tries.unwrap_or_else(|| run(tool, options, script))
}

/// A line as it is compared: the members of JSON in order of their names. `None` for what only
/// bpftrace prints in JSON: helpers that did not fail, and of all empty maps those of `avg` and
/// `stats`.
fn comparable(line: &str) -> Option<String> {
    let parsed = line.starts_with('{').then(|| serde_json::from_str::<Value>(line).ok());
    let Some(document) = parsed.flatten() else { return Some(line.to_owned()) };
    let is_empty = |map: &Value| map.as_object().is_some_and(Map::is_empty);
    let is_left_out = match document["type"].as_str() {
        Some("helper_error") => document["retcode"] == 0,
        Some("stats") => document["data"].as_object().is_some_and(|maps| maps.values().all(is_empty)),
        _ => false,
    };
    (!is_left_out).then(|| document.to_string())
}

/// The lines of an answer, sorted.
fn sorted(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = answer(output).lines().filter_map(comparable).collect();
    lines.sort_unstable();
    lines
}

/// The lines of each that the other does not have, or has less often.
fn difference(expected: &[String], found: &[String]) -> String {
    let mut more: BTreeMap<&str, i32> = BTreeMap::new();
    for (lines, step) in [(expected, 1), (found, -1)] {
        for line in lines {
            *more.entry(line).or_default() += step;
        }
    }
    let only = |sign: i32| {
        let lines = more.iter().filter(|(_, more)| **more * sign > 0).map(|(line, _)| *line);
        lines.fold(String::new(), |all, line| all + line + "\n")
    };
    format!("only bpftrace:\n{}only ours:\n{}", only(1), only(-1))
}

/// What both make of a script.
fn outcome(since: Since, seed: u64, [theirs, ours]: [&Path; 2]) -> Outcome {
    let text = script(since, seed);
    // 0.17 has another form of JSON.
    let is_json = since == Since::Current && seed.is_multiple_of(3);
    let options: &[&str] = if is_json { &["-f", "json"] } else { &[] };
    let (expected, found) = (run_theirs(theirs, options, &text), run(ours, options, &text));
    // The current version has limits of its own: a map in the key of `+=`, the stack, crashes.
    if !expected.status.success() && (since == Since::Current || !found.status.success()) {
        return Outcome::Refused;
    }
    let (lines, ours) = (sorted(&expected), sorted(&found));
    if lines == ours && expected.status.success() == found.status.success() {
        return Outcome::Same(lines.len() as u64);
    }
    let ended = format!("bpftrace: {}, ours: {}", expected.status, found.status);
    Outcome::Different(format!("seed {seed} {options:?}:\n{text}{ended}\n{}", difference(&lines, &ours)))
}

fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PROFILER_SEED").unwrap_or(1);
    first..first + number("PROFILER_RANDOM").unwrap_or(usual)
}

/// Compares scripts; of a hundred, at most `most_refused` may be refused.
fn compare(since: Since, theirs: &Path, usual: u64, most_refused: u64) {
    let (ours, seeds) = (Ours::new(), seeds(usual));
    let (next, outcomes) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    let outcome = outcome(since, seed, [theirs, &ours.path()]);
                    outcomes.lock().expect("no test panics with it").push(outcome);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no test panics with it");
    let (mut lines, mut refused, mut failures) = (0, 0, Vec::new());
    for outcome in outcomes {
        match outcome {
            Outcome::Same(number) => lines += number,
            Outcome::Refused => refused += 1,
            Outcome::Different(words) => failures.push(words),
        }
    }
    let all = seeds.end - seeds.start;
    println!("{all} scripts, {lines} lines, {refused} refused, {} differ", failures.len());
    assert!(failures.is_empty(), "{} of {all}:\n{}", failures.len(), failures[..failures.len().min(SHOWN)].join("\n"));
    assert!(refused * 100 <= all * most_refused, "{refused} of {all} are refused: the generator is off");
    assert!(lines >= 10 * (all - refused), "{lines} lines of {all} scripts: they print too little");
}

#[test]
fn random_scripts_are_answered_as_bpftrace_answers_them() {
    let Some(theirs) = theirs() else { return };
    compare(Since::V17, &theirs, 100, 5);
}

#[test]
fn random_scripts_are_answered_as_the_current_bpftrace_answers_them() {
    let Some(theirs) = current() else { return };
    compare(Since::Current, &theirs, 60, 10);
}

#[test]
fn a_line_that_only_one_prints_is_a_difference() {
    let lines = |text: &[&str]| text.iter().map(|line| (*line).to_string()).collect::<Vec<_>>();
    let words = difference(&lines(&["1: 4", "2", "@a: 1"]), &lines(&["1: 5", "2", "2", "@a: 1"]));
    assert_eq!(words, "only bpftrace:\n1: 4\nonly ours:\n1: 5\n2\n");
}

#[test]
fn a_failure_or_a_line_of_one_tool_is_a_difference() {
    let outcome = |since, theirs: &str, ours: &str| outcome(since, 1, [theirs, ours].map(Path::new));
    for since in [Since::V17, Since::Current] {
        assert!(matches!(outcome(since, "echo", "echo"), Outcome::Same(10..)));
        assert!(matches!(outcome(since, "echo", "true"), Outcome::Different(_)));
        assert!(matches!(outcome(since, "true", "false"), Outcome::Different(_)));
        assert!(matches!(outcome(since, "false", "false"), Outcome::Refused));
    }
    assert!(matches!(outcome(Since::V17, "false", "true"), Outcome::Different(_)));
    assert!(matches!(outcome(Since::Current, "false", "true"), Outcome::Refused));
}

#[test]
fn json_is_compared_without_the_order_of_members_and_what_only_bpftrace_prints() {
    assert_eq!(
        comparable(r#"{"type": "map", "data": {"@b": 1, "@a": 2}}"#),
        comparable(r#"{"data":{"@a":2,"@b":1},"type":"map"}"#)
    );
    assert_eq!(comparable(r#"{"type": "helper_error", "retcode": 0}"#), None);
    assert!(comparable(r#"{"type": "helper_error", "retcode": -2}"#).is_some());
    assert_eq!(comparable(r#"{"type": "stats", "data": {"@a": {}}}"#), None);
    assert!(comparable(r#"{"type": "stats", "data": {"@a": {"1": 2}}}"#).is_some());
}

#[test]
fn the_same_seed_gives_the_same_script() {
    for since in [Since::V17, Since::Current] {
        for seed in 1..100 {
            assert_eq!(script(since, seed), script(since, seed));
            assert_ne!(script(since, seed), script(since, seed + 1));
        }
    }
}
