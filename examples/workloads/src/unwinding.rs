//! Chains of calls that are known: a tracer's user stacks can be compared with them.
//!
//! In: seeds and counts. Out: lines `chain ID NAME…` with the functions named `workload_f_…` that
//! were active when `workload_leaf(ID)` was called, innermost first.
//! Guarantee: before, `workload_warm(FRAMES)` is called for a while, until a tracer says by
//! SIGUSR1 that it is ready.

use std::io::{Error, Result, Write as _};
use std::os::unix::process::CommandExt as _;

use crate::sys::chains::{self, End, Extra};

/// The command line after `unwind`.
pub const USAGE: &str = "\
workload unwind KIND SEED COUNT WARM_MS [FROM]
                                 calls workload_leaf(FROM), workload_leaf(FROM + 1), … COUNT times, from functions in random order;
                                 prints their names for each; before, workload_warm(FRAMES OF ITS CALLER) for WARM_MS or until SIGUSR1.
                                 KIND: chains, thread, made (with code in no file), signals (with handlers),
                                 exec (executes itself for a second part), interrupted (from signal handlers at any
                                 instruction), spin (COUNT milliseconds at the end of one chain) or recursion (SEED deep)
";

/// The numbers of a command line.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    /// What the order of the functions follows from.
    seed: u64,
    count: u64,
    warm_ms: u64,
    /// The id of the first chain.
    from: u64,
}

/// Runs the chains of this kind, with the numbers that follow it on the command line.
pub fn unwind(kind: &str, numbers: &[u64]) -> Result<()> {
    let numbers = match *numbers {
        [seed, count, warm_ms] => Numbers { seed, count, warm_ms, from: 1 },
        [seed, count, warm_ms, from] => Numbers { seed, count, warm_ms, from },
        _ => return Err(Error::other(format!("a number is missing\n{USAGE}"))),
    };
    match kind {
        "chains" => chains(Extra::Nothing, numbers),
        "made" => chains(Extra::Made, numbers),
        "signals" => chains(Extra::Signals, numbers),
        "thread" => {
            let thread = std::thread::Builder::new().spawn(move || chains(Extra::Nothing, numbers))?;
            thread.join().map_err(|_| Error::other("a thread failed"))?
        }
        "exec" => {
            chains(Extra::Nothing, numbers)?;
            let (seed, from) = (numbers.seed + 1, numbers.from + numbers.count);
            let words = [seed, numbers.count, numbers.warm_ms, from].map(|number| number.to_string());
            Err(std::process::Command::new("/proc/self/exe").args(["unwind", "chains"]).args(words).exec())
        }
        "interrupted" => interrupted(numbers),
        "spin" => {
            chains::warm_up(numbers.warm_ms)?;
            print_chain(numbers.from, &chains::chain(numbers.seed, chains::MAX_FRAMES, End::Spin(numbers.count)))
        }
        "recursion" => {
            chains::warm_up(numbers.warm_ms)?;
            for id in (numbers.from..).take(numbers.count as usize) {
                chains::workload_f_recursion(numbers.seed.clamp(1, 10_000), id);
            }
            Ok(())
        }
        _ => Err(Error::other(format!("these are known:\n{USAGE}"))),
    }
}

/// A number that follows from the seed and the id; their order is random.
fn random(seed: u64, id: u64) -> u64 {
    let mixed = (seed << 32 | id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

fn chains(extra: Extra, numbers: Numbers) -> Result<()> {
    chains::allow(extra)?;
    chains::warm_up(numbers.warm_ms)?;
    for id in (numbers.from..).take(numbers.count as usize) {
        let random = random(numbers.seed, id);
        print_chain(id, &chains::chain(random, 3 + random % (chains::MAX_FRAMES - 2), End::Leaf(id)))?;
    }
    std::io::stdout().flush()
}

/// Interrupts chains until `count` interrupts have come.
fn interrupted(numbers: Numbers) -> Result<()> {
    chains::warm_up(numbers.warm_ms)?;
    let count = (numbers.count as usize).min(chains::MAX_INTERRUPTS);
    chains::interrupt_every(500)?;
    let mut id = 0;
    while chains::interrupts() < count {
        id += 1;
        let random = random(numbers.seed, id);
        chains::chain(random, 3 + random % (chains::MAX_FRAMES - 2), End::Return);
    }
    chains::interrupt_every(0)?;
    (0..chains::interrupts()).try_for_each(|number| print_chain(number as u64 + 1, &chains::interrupted(number)))
}

fn print_chain(id: u64, names: &[&str]) -> Result<()> {
    writeln!(std::io::stdout(), "chain {id} {}", names.join(" "))
}
