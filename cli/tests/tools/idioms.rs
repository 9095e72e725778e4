//! Short scripts and settings under the current bpftrace and under our drop-in of the same name.
//!
//! In: tests/tools/idioms. Out: the outputs and exit codes of both, compared.
//! Guarantee: what differs on purpose is said with its reason in the list, and does differ.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::differential::{AT_ONCE, Ours, current};

/// The script that a setting is before.
const AFTER_SETTING: &str = "BEGIN { printf(\"x\\n\"); @a = 1; exit(); }";
/// How many scripts and settings there are at least.
const LEAST: [usize; 2] = [200, 100];
/// Without `scripts/test --all`, one of this number is run.
const PART: usize = 4;

/// Two command lines with what they have in their environment.
struct Case {
    name: String,
    runs: [Vec<String>; 2],
    environment: Option<(String, String)>,
    differs: Option<String>,
}

fn cases() -> (Vec<Case>, Vec<Case>) {
    let (mut scripts, mut settings): (Vec<Case>, Vec<Case>) = (Vec::new(), Vec::new());
    let mut is_setting = false;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    for line in include_str!("../../../tests/tools/idioms").lines() {
        let name = line.to_owned();
        if line.is_empty() || line.starts_with("# ") || line == "#" {
        } else if let Some(reason) = line.strip_prefix('!') {
            let last = if is_setting { settings.last_mut() } else { scripts.last_mut() };
            last.expect("a reason follows what it is about").differs = Some(reason.to_owned());
        } else if let Some((key, value)) = line.strip_prefix("= ").and_then(|setting| setting.split_once(' ')) {
            is_setting = true;
            let block = format!("config = {{ {key} = {value} }} {AFTER_SETTING}");
            let variable = (format!("BPFTRACE_{}", key.to_uppercase()), value.trim_matches('"').to_owned());
            let runs = [words(&["-e", &block]), words(&["-e", AFTER_SETTING])];
            settings.push(Case { name, runs, environment: Some(variable), differs: None });
        } else {
            is_setting = false;
            let runs = [words(&["-e", line]), words(&["-f", "json", "-e", line])];
            scripts.push(Case { name, runs, environment: None, differs: None });
        }
    }
    (scripts, settings)
}

/// What a tool prints on its standard output, and its exit code, for both command lines.
fn answers(tool: &Path, case: &Case) -> [(Option<i32>, String); 2] {
    let answer = |index: usize| {
        let mut command = Command::new(tool);
        command.args(&case.runs[index]).stdin(Stdio::null());
        // The first command line of a setting has it in the script.
        if let Some((key, value)) = case.environment.as_ref().filter(|_| index == 1) {
            command.env(key, value);
        }
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let counts = |line: &&str| {
            !line.trim().is_empty() && !line.starts_with("Attach") && !line.contains("\"attached_probes\"")
        };
        let lines = text.lines().filter(counts).map(|line| line.trim_end().to_owned() + "\n");
        (output.status.code(), lines.collect())
    };
    [answer(0), answer(1)]
}

/// Compares the answers of both tools; returns what is wrong.
fn faults(theirs: &Path, ours: &Path, cases: &[Case]) -> Vec<String> {
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (expected, found) = (answers(theirs, case), answers(ours, case));
                    let fault = match (&case.differs, expected == found) {
                        (None, true) | (Some(_), false) => continue,
                        (None, false) => format!("bpftrace: {expected:?}\nours: {found:?}"),
                        (Some(reason), true) => format!("the answers are the same, although {reason}"),
                    };
                    faults.lock().expect("no test panics with it").push(format!("{}\n{fault}", case.name));
                }
            });
        }
    });
    faults.into_inner().expect("no test panics with it")
}

#[test]
fn short_scripts_and_settings_are_answered_as_the_current_bpftrace_answers_them() {
    let Some(theirs) = current() else { return };
    let ours = Ours::new();
    let (mut scripts, mut settings) = cases();
    assert!(scripts.len() >= LEAST[0] && settings.len() >= LEAST[1], "{} {}", scripts.len(), settings.len());
    let times = std::env::var("PROFILER_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1_usize);
    if times < PART {
        for cases in [&mut scripts, &mut settings] {
            let mut number = 0;
            cases.retain(|_| {
                number += 1;
                number % PART == 1
            });
        }
    }
    let mut all = faults(&theirs, &ours.path(), &scripts);
    all.extend(faults(&theirs, &ours.path(), &settings));
    let differing = scripts.iter().chain(&settings).filter(|case| case.differs.is_some()).count();
    println!("{} scripts, {} settings, {differing} with known differences", scripts.len(), settings.len());
    assert!(all.is_empty(), "{}:\n{}", all.len(), all.join("\n"));
}
