//! Random programs: whatever compiles loads, and means the same wherever it runs.
//!
//! In: seeds. A script is made as a tree (`generate`), printed (`print`), compiled, and run by three executors (`executors`): the
//! evaluator of the IR, as lowered and optimised; the interpreter of the bytecode (`interpreted`); the kernel, by test run. Maps, ring
//! records and losses must agree. A script that fails is made as small as it can be (`shrink`) and printed with its seed.
//! Out: counts, and whatever disagrees.
//! Guarantee: each test has a fixed first seed and a number of programs that fits a build. `PROFILER_RANDOM=N` makes it N programs,
//! also 0 (a night: `PROFILER_RANDOM=100000 PROFILER_SEED=$(date +%s)`), `PROFILER_SEED=S` begins at another seed,
//! `PROFILER_KEEP=FOLDER` keeps the scripts.

mod agrees;
mod arithmetic;
mod dice;
mod executors;
mod generate;
mod intermediate;
mod interpreted;
mod loads;
mod print;
mod readback;
mod shrink;
mod stress;
mod tree;

/// How many programs to make, and the first seed.
fn range(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PROFILER_SEED").unwrap_or(1);
    first..first + number("PROFILER_RANDOM").unwrap_or(usual)
}

/// Keeps a script for whoever asked for it.
fn keep(name: &str, text: &str) {
    if let Ok(folder) = std::env::var("PROFILER_KEEP") {
        let path = std::path::Path::new(&folder).join(name);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// Whether this process may load programs; says so when it may not.
fn can_load() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !is_root {
        println!("SKIPPED: loading programs needs root");
    }
    is_root
}
