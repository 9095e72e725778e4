//! Every recipe on the running kernel.
//!
//! In: the list of recipes of the command. Out: each loads and attaches, or is refused; one that
//! sees nothing says so.
//! Guarantee: a refusal is one sentence about this machine, never one of the kernel's verifier.
//! With `PROFILER_ONLY=functions` only those that probe functions of the kernel; with
//! `PROFILER_TURN=N` as well, every second one of the others: Linux 6.1 has those, and other
//! kernels the rest, or the opposite if N is odd.

use std::process::Command;

use super::super::machine::{PROFILER, run, skip};
use super::NOBODY;
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

/// Whether it is this kernel's turn to load the recipe at this place of the list.
fn has_turn(at: usize) -> bool {
    let turn: Option<usize> = std::env::var("PROFILER_TURN").ok().and_then(|turn| turn.parse().ok());
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel's version");
    turn.is_some_and(|turn| (at + turn).is_multiple_of(2) == release.starts_with("6.1."))
}

/// Whether a recipe probes functions of the kernel.
fn is_of_functions(recipe: &str) -> bool {
    let path = format!("{}/../stdlib/{recipe}.prof", env!("CARGO_MANIFEST_DIR"));
    probes_functions(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")))
}

/// Those that this kernel loads.
fn recipes_of_this_kernel() -> Vec<String> {
    let is_loaded = |(at, name): &(usize, String)| !has_functions_only() || is_of_functions(name) || has_turn(*at);
    recipes().into_iter().enumerate().filter(is_loaded).map(|(_, name)| name).collect()
}

/// A recipe without a filter has something to show, and one whose filter no thread passes has a
/// sentence for it.
#[test]
fn recipe_that_sees_nothing_says_so() {
    if skip() {
        return;
    }
    let says_nothing = |name: &String| {
        let arguments = ["-q", name, "--duration", "50ms"];
        let mut ended = run(&[&arguments[..], NOBODY].concat());
        if ended.stderr.contains("has an option `--comm`") {
            // `proc/exits` has a name of its own for it, and the others are about the machine.
            let own: &[&str] = if name == "proc/exits" { &["--name", NOBODY[1]] } else { &[] };
            ended = run(&[&arguments[..], own].concat());
        }
        // Another test says which may be refused.
        ended.code() == 0 && (ended.stdout.trim().is_empty() || ended.stdout.contains("(no rows)"))
    };
    let silent: Vec<String> = recipes_of_this_kernel().into_iter().filter(says_nothing).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn recipe_loads_here_or_says_why_not() {
    if skip() {
        return;
    }
    let names = recipes_of_this_kernel();
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
