//! Every recipe on the running kernel.
//!
//! In: the list of recipes of the command. Out: each loads and attaches, or is refused.
//! Guarantee: a refusal is one sentence about this machine, never one of the kernel's verifier.

use std::process::Command;

use super::super::machine::{PROFILER, run, skip};

/// The names of all recipes.
pub fn recipes() -> Vec<String> {
    let listed = Command::new(PROFILER).args(["list", "recipes"]).output().expect("the list");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let names: Vec<String> =
        listed.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert!(names.len() >= 50, "{listed}");
    names
}

#[test]
fn recipe_loads_here_or_says_why_not() {
    if skip() {
        return;
    }
    let names = recipes();
    let mut refused = Vec::new();
    for name in &names {
        let ended = run(&["-q", name, "--dry-run"]);
        if ended.code() != 0 {
            let errors = ended.stderr.lines().filter(|line| line.starts_with("error")).count();
            let is_one_sentence = matches!(ended.code(), 1 | 3) && errors == 1 && !ended.stderr.contains("verifier");
            assert!(is_one_sentence, "{name}: {}\n{}", ended.code(), ended.stderr);
            refused.push(format!("{name}: {}", ended.stderr.lines().next().unwrap_or_default()));
        }
    }
    println!("{}", refused.join("\n"));
    // Tracepoints and BTF are enough for most.
    assert!(refused.len() * 4 < names.len(), "{}", refused.join("\n"));
}
