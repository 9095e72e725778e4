//! Random programs: whatever compiles loads, and means the same wherever it runs.
//!
//! Each test has a fixed seed and a number of programs that fits a build. `PROFILER_RANDOM=N` makes each run N programs
//! from a seed of the clock's choosing, or from `PROFILER_SEED=S`.

mod agrees;
mod arithmetic;
mod dice;
mod loads;
mod scripts;

/// How many programs to make, and the first seed.
fn range(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PROFILER_SEED").unwrap_or(1);
    first..first + number("PROFILER_RANDOM").unwrap_or(usual)
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
