//! Every recipe on the running kernel.
//!
//! In: the list of recipes of the command. Out: each loads and attaches, or is refused.
//! Guarantee: a refusal is one sentence about this machine, never one of the kernel's verifier.

use super::super::machine::{run, skip};

#[test]
fn recipe_loads_here_or_says_why_not() {
    if skip() {
        return;
    }
    let listed = run(&["list", "recipes"]).stdout;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let faults: Vec<String> = names.filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What is wrong with a recipe.
fn fault(recipe: &str) -> Option<String> {
    let ended = run(&["-q", recipe, "--dry-run"]);
    let errors = ended.stderr.lines().filter(|line| line.starts_with("error")).count();
    let is_refused = matches!(ended.code(), 1 | 3) && errors == 1 && !ended.stderr.contains("verifier");
    if is_refused {
        println!("{recipe}: {}", ended.stderr.lines().next().unwrap_or_default());
    }
    (ended.code() != 0 && !is_refused).then(|| format!("{recipe}: {}\n{}", ended.code(), ended.stderr))
}
