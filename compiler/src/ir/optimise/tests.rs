//! What each pass makes of small programs, and that thousands of random programs keep their meaning.

use super::optimise;
use crate::ir::eval::{EvalError, Machine, MapEntry};
use crate::ir::print::print;
use crate::ir::random;
use crate::ir::verify::verify;
use crate::ir::{MapId, Program};

const RANDOM_PROGRAMS: u64 = 4000;

/// All that a program shows to the outside.
#[derive(Debug, PartialEq)]
struct Observed {
    results: Vec<Result<i64, EvalError>>,
    bss: Vec<u8>,
    maps: Vec<Vec<MapEntry>>,
    records: Vec<Vec<u8>>,
}

/// Runs a random program a few times, on different CPUs and contexts.
fn observe(program: &Program) -> Observed {
    let mut machine = Machine::new(program);
    let mut results = Vec::new();
    for run in 0..4u8 {
        machine.environment.cpu = u32::from(run % 2);
        let context = [run.wrapping_mul(85); random::CONTEXT_SIZE_BYTES as usize];
        results.push(machine.run(random::FUNCTION, &context));
    }
    let maps = (0..program.maps.len()).map(|map| machine.map_entries(MapId(map as u32))).collect();
    let records = machine.ring_records(random::RING);
    Observed { results, bss: machine.bss().to_vec(), maps, records }
}

fn instructions(program: &Program) -> usize {
    program.functions.iter().flat_map(|f| &f.blocks).map(|block| block.insts.len() + 1).sum()
}

#[test]
fn random_programs_keep_their_meaning() {
    let (mut before_total, mut after_total) = (0, 0);
    for seed in 0..RANDOM_PROGRAMS {
        let before = random::program(seed);
        assert_eq!(verify(&before), Ok(()), "seed {seed}\n{}", print(&before));
        let mut after = before.clone();
        optimise(&mut after);
        assert_eq!(verify(&after), Ok(()), "seed {seed}\n{}\n{}", print(&before), print(&after));
        let (expected, found) = (observe(&before), observe(&after));
        assert!(expected.results.iter().all(Result::is_ok), "seed {seed}: {:?}", expected.results);
        assert_eq!(expected, found, "seed {seed}\n{}\n{}", print(&before), print(&after));
        before_total += instructions(&before);
        after_total += instructions(&after);
    }
    // A compiler that does nothing would pass the comparison.
    assert!(after_total * 4 < before_total * 3, "{before_total} to {after_total}");
}
