//! CPU time in three functions: 70, 20 and 10 percent of it.
//!
//! In: the CPU time in milliseconds. Out: lines `share_70_ns N`, `share_20_ns N` and
//! `share_10_ns N` with the CPU time of `workload_share_70` and the others, `slices N`, and of the
//! whole process `cpu_ns N` and `switches N`, how often it left a CPU.
//! Guarantee: the time is spent in short slices whose functions are chosen at random, so the time
//! between two slices, when the clock is read, belongs to all functions in proportion.

use crate::sys;

/// CPU time of a slice: a sampler at 999 Hz sees one of ten slices.
const SLICE_NS: u64 = 100_000;

type Share = extern "C" fn(u64) -> u64;

/// The functions, with their names and the upper bounds of the random numbers that select them.
const SHARES: [(&str, Share, u64); 3] = [
    ("share_70_ns", sys::workload_share_70, 70),
    ("share_20_ns", sys::workload_share_20, 90),
    ("share_10_ns", sys::workload_share_10, 100),
];

/// Spends `ms` milliseconds of CPU time.
pub fn shares(ms: u64) {
    let rounds = rounds();
    let mut spent_ns = [0; SHARES.len()];
    let mut squares = 0;
    let mut random = 1u64;
    let mut before = sys::thread_cpu_ns();
    while spent_ns.iter().sum::<u64>() < ms * 1_000_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = (random >> 33) % 100;
        let index = SHARES.iter().take_while(|(_, _, bound)| *bound <= number).count();
        let Some(((_, share, _), spent_ns)) = SHARES.get(index).zip(spent_ns.get_mut(index)) else { continue };
        share(rounds);
        let now = sys::thread_cpu_ns();
        *spent_ns += now - before;
        squares += u128::from(now - before).pow(2);
        before = now;
    }
    for ((name, ..), ns) in SHARES.iter().zip(spent_ns) {
        println!("{name} {ns}");
    }
    // The number of slices of equal length whose shares would vary as much as these. A slice is
    // long if a hypervisor stopped its CPU meanwhile.
    println!("slices {}", u128::from(spent_ns.iter().sum::<u64>()).pow(2) / squares.max(1));
    let switches = sys::switches();
    println!("cpu_ns {}\nswitches {}", sys::process_cpu_ns(), switches.0 + switches.1);
}

/// The number of rounds that a slice takes on this CPU.
fn rounds() -> u64 {
    let mut rounds = 100;
    loop {
        let before = sys::thread_cpu_ns();
        sys::workload_share_70(rounds);
        if sys::thread_cpu_ns() - before >= SLICE_NS {
            return rounds;
        }
        rounds *= 2;
    }
}
