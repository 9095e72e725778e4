//! Random programs: whatever compiles loads, and does the same on every executor.
//!
//! In: seeds. A script is generated as a tree (`generate`), printed (`print`), compiled, and run by
//! three executors (`executors`): the evaluator on the IR, as lowered and optimized; the
//! interpreter on the bytecode (`interpreted`); the kernel, by test run. Maps, ring buffer records
//! and losses must agree. A failing script is shrunk (`shrink`) and printed with its seed.
//! Out: counts, and all disagreements.
//! Guarantee: each test has a fixed first seed and a number of programs that is small enough for
//! every build. `PROFILER_TIMES=N` runs N times as many, `PROFILER_RANDOM=N` runs N, also 0 (for a
//! night: `PROFILER_RANDOM=100000 PROFILER_SEED=$(date +%s)`), `PROFILER_SEED=S` sets the first
//! seed, `PROFILER_KEEP=DIRECTORY` keeps the scripts.

mod agrees;
mod arithmetic;
mod branches;
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
mod sys;
mod tree;

/// The seeds to run: how many programs, and the first seed.
fn range(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PROFILER_SEED").unwrap_or(1);
    let times = number("PROFILER_TIMES").unwrap_or(1);
    first..first + number("PROFILER_RANDOM").unwrap_or(usual * times)
}

/// Writes a script to the directory `PROFILER_KEEP`, if it is set.
fn keep(name: &str, text: &str) {
    if let Ok(directory) = std::env::var("PROFILER_KEEP") {
        let path = std::path::Path::new(&directory).join(name);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// Whether this process may load programs; prints the reason if it may not.
fn can_load() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !is_root {
        println!("SKIPPED: loading programs needs root");
    }
    is_root
}
