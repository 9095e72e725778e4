//! Every recipe on the running kernel.
//!
//! In: the list of recipes of the command. Out: each loads and attaches, or is refused.
//! Guarantee: a refusal is one sentence about this machine, never one of the kernel's verifier.
//! On an emulated processor each recipe is loaded once: by this test, or with windows by the other;
//! with `PROFILER_ONLY=functions` only those that probe functions of the kernel.

use std::process::Command;

use super::super::machine::{PROFILER, patience, run, skip};
use super::windows;
use crate::selection::{has_functions_only, probes_functions};

/// The names of all recipes.
pub fn recipes() -> Vec<String> {
    let listed = Command::new(PROFILER).args(["list", "recipes"]).output().expect("the list");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let names: Vec<String> =
        listed.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert!(names.len() >= 50, "{listed}");
    names
}

/// Whether a recipe is loaded with windows on this machine. On an emulated processor a recipe takes
/// seconds to start: Linux 6.1 has every second one, and other kernels the rest. The host has all.
pub fn has_windows_here(at: usize) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel's version");
    patience() == 1 || at.is_multiple_of(2) == release.starts_with("6.1.")
}

/// Whether a recipe probes functions of the kernel.
fn is_of_functions(recipe: &str) -> bool {
    let path = format!("{}/../stdlib/{recipe}.prof", env!("CARGO_MANIFEST_DIR"));
    probes_functions(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
}

#[test]
fn recipe_loads_here_or_says_why_not() {
    if skip() {
        return;
    }
    let is_loaded = |at, name: &str| patience() == 1 || !has_windows_here(at) || windows::lacks(name);
    let mut names = recipes();
    let mut places = 0..;
    if has_functions_only() {
        names.retain(|name| is_of_functions(name));
    } else {
        names.retain(|name| places.next().is_some_and(|at| is_loaded(at, name)));
    }
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
    assert!(!names.is_empty() && refused.len() * 4 < names.len(), "{}", refused.join("\n"));
}
