//! Samples of CPU time, of a program that measures itself.
//!
//! In: `workload shares`, which prints the CPU time of each of three functions. Out: the samples
//! are divided among the functions in the same way.

use super::{skip, stacks};
use crate::machine::{Directory, Running, profiler, with_enough_calls, workload};

/// CPU time of the first run: about 3,000 samples.
const FIRST_MS: u64 = 3000;
const LEAST_SAMPLES: f64 = 2000.0;

/// The number that the workload printed.
fn number(output: &str, name: &str) -> f64 {
    let line = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}: {output}"))
}

/// With n samples, a share p has a standard error of sqrt(p (1 - p) / n). The measured time has one
/// as well, by its number of slices: it is about as large where a hypervisor stops a CPU for
/// milliseconds, which are a part of the measured time but one sample.
#[test]
fn shares_of_samples_are_those_of_the_cpu_time() {
    if skip() {
        return;
    }
    with_enough_calls(FIRST_MS, |ms| {
        let directory = Directory::new("shares");
        let output = directory.path("output");
        let script = "profile:hz:999 / pid == cpid / { @sample[1, ustack] = count(); }";
        let command = format!("{} shares {ms}", workload());
        let ended = Running::start(&mut profiler(&["-q", "-e", script, "-o", &output, "-c", &command])).end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let samples = stacks(&std::fs::read_to_string(&output).expect("results"));
        let names = [70, 20, 10].map(|percent| format!("share_{percent}"));
        let count = |name: &String| {
            let function = format!("workload_{name}");
            let is_of_it = |innermost: Option<&str>| innermost == Some(&function);
            let of_it =
                samples.iter().filter(|stack| is_of_it(stack.names().find(|name| name.starts_with("workload_share_"))));
            f64::from(u32::try_from(of_it.map(|stack| stack.count).sum::<u64>()).expect("a count"))
        };
        let counts = names.each_ref().map(count);
        let spent_ns = names.each_ref().map(|name| number(&ended.stdout, &format!("{name}_ns")));
        let slices = number(&ended.stdout, "slices");
        let (n, total_ns) = (counts.iter().sum::<f64>(), spent_ns.iter().sum::<f64>());
        if n < LEAST_SAMPLES || slices < LEAST_SAMPLES {
            return false;
        }
        for ((name, count), ns) in names.iter().zip(counts).zip(spent_ns) {
            let p = ns / total_ns;
            let error = (p * (1.0 - p) * (1.0 / n + 1.0 / slices)).sqrt();
            let off = (count / n - p).abs();
            assert!(off <= 4.0 * error, "{name}: {count} of {n} for {p}, {} errors off\n{}", off / error, ended.stdout);
        }
        true
    });
}
