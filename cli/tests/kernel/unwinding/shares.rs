//! Samples of CPU time, of a program that measures itself.
//!
//! In: `workload shares`, which prints the CPU time of each of three functions. Out: the samples
//! are divided among the functions in the same way.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::{Stack, skip, stacks};
use crate::machine::{Directory, Running, profiler, with_enough_calls, workload};

/// CPU time of the first run: about 3,000 samples.
const FIRST_MS: u64 = 3000;
const LEAST_SAMPLES: f64 = 2000.0;
/// Runs that may be off by chance: the machine can stop its CPUs for longer than a block.
const TRIES: u32 = 3;

const NAMES: [&str; 3] = ["share_70", "share_20", "share_10"];

/// Samples of each function in blocks of 10 ms. Where a hypervisor stops a CPU, several samples
/// are of one slice, so a block is what is independent of the others, not a sample.
const SCRIPT: &str = "config = { max_map_keys=65536 }
    profile:hz:999 / pid == cpid / { @sample[nsecs / 10ms, ustack] = count(); }";

/// The number that the workload printed.
fn number(output: &str, name: &str) -> f64 {
    let line = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}: {output}"))
}

/// The samples of each function, by block.
fn blocks(samples: &[Stack]) -> Vec<[f64; 3]> {
    let mut blocks: BTreeMap<u64, [f64; 3]> = BTreeMap::new();
    for stack in samples {
        let function = stack.names().find_map(|name| name.strip_prefix("workload_share_"));
        let index = function.and_then(|function| NAMES.iter().position(|name| name.ends_with(function)));
        let Some(index) = index else { continue };
        let count = f64::from(u32::try_from(stack.count).expect("a count"));
        blocks.entry(stack.id).or_default()[index] += count;
    }
    blocks.into_values().collect()
}

/// With blocks of n samples, k of them in a function, the sum of (k - p n)² is the variance of the
/// function's samples. The measured time has an error as well, by its number of slices: it is about
/// as large where a hypervisor stops a CPU, for milliseconds that are a part of the measured time
/// but one sample.
///
/// Fails by chance below 1e-6: each of the three shares of a run is off by more than four standard
/// errors with a probability of 6.3e-5, and the test fails after three independent runs that are
/// off: (3 × 6.3e-5)³ = 7e-12.
#[test]
fn shares_of_samples_are_those_of_the_cpu_time() {
    if skip() {
        return;
    }
    let tries = Cell::new(0);
    with_enough_calls(FIRST_MS, |ms| {
        let directory = Directory::new("shares");
        let output = directory.path("output");
        let command = format!("{} shares {ms}", workload());
        let ended = Running::start(&mut profiler(&["-q", "-e", SCRIPT, "-o", &output, "-c", &command])).end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let blocks = blocks(&stacks(&std::fs::read_to_string(&output).expect("results")));
        let spent_ns = NAMES.map(|name| number(&ended.stdout, &format!("{name}_ns")));
        let slices = number(&ended.stdout, "slices");
        let n = blocks.iter().flatten().sum::<f64>();
        if n < LEAST_SAMPLES || slices < LEAST_SAMPLES {
            return false;
        }
        tries.set(tries.get() + 1);
        let mut is_true = true;
        for (index, name) in NAMES.iter().enumerate() {
            let p = spent_ns[index] / spent_ns.iter().sum::<f64>();
            let spread = |block: &[f64; 3]| (block[index] - p * block.iter().sum::<f64>()).powi(2);
            let variance = blocks.iter().map(spread).sum::<f64>() / n.powi(2);
            let error = (variance + p * (1.0 - p) / slices).sqrt();
            let share = blocks.iter().map(|block| block[index]).sum::<f64>() / n;
            let off = (share - p).abs() / error;
            println!("{name}: {share:.4} of {n} samples for {p:.4}, {off:.1} errors off");
            is_true &= off <= 4.0;
        }
        assert!(is_true || tries.get() < TRIES, "shares are off in {TRIES} runs\n{}", ended.stdout);
        is_true
    });
}
