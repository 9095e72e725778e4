//! Merges blocks on the same event into one kernel program.
//!
//! In: the programs that blocks and attach points ask for. Out: which of them share one, and the
//! code that runs them in turn.
//! Guarantee: blocks run in script order. Leaving one block does not end the next, except with
//! `exit`. Either all blocks of an event are part of the run or none. A system call that no block
//! wants costs one table look-up.
//!
//! The kernel takes about 50 ns to call a program at a tracepoint, whatever the program does: ten
//! programs that test the system call number and return cost ten times as much as one. And several
//! programs at one event read the gate at different times.
//! Each block remains a function with its own stack and registers: the verifier checks it where it
//! is called, and its state after the call does not depend on it.

use std::collections::BTreeSet;

use crate::typed::{Probe, Program};

/// Most blocks in a program: each has a bit in the entries of its table.
const MAX_BLOCKS: usize = 31;

/// Blocks that one program can run.
struct Shareable<'a> {
    first: &'a Probe,
    blocks: Vec<usize>,
    /// Whether blocks may be added.
    is_open: bool,
}

impl Shareable<'_> {
    fn takes(&self, probe: &Probe) -> bool {
        self.is_open
            && self.blocks.len() < MAX_BLOCKS
            && self.first.section == probe.section
            && self.first.attach.is_same_event(&probe.attach)
    }
}

/// Which blocks share programs.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// The block indices of each kernel program that has several.
    pub programs: Vec<Vec<usize>>,
    /// By block: an index into `programs`.
    of_block: Vec<Option<usize>>,
}

impl Merged {
    /// Merges blocks on the same event, except blocks that must have their own program.
    pub(super) fn of(program: &Program, apart: &BTreeSet<usize>) -> Merged {
        let mut found: Vec<Shareable> = Vec::new();
        for (index, probe) in program.probes.iter().enumerate() {
            let is_apart = apart.contains(&index) || !probe.attach.has_events();
            match found.iter_mut().find(|it| !is_apart && it.takes(probe)) {
                Some(shareable) => shareable.blocks.push(index),
                None => {
                    // Later blocks of the script must not run before this one.
                    for earlier in found.iter_mut().filter(|it| it.is_open) {
                        earlier.is_open = !earlier.first.attach.overlaps(&probe.attach);
                    }
                    found.push(Shareable { first: probe, blocks: vec![index], is_open: !is_apart });
                }
            }
        }
        let programs: Vec<Vec<usize>> = found.into_iter().map(|it| it.blocks).filter(|it| it.len() > 1).collect();
        let of_block = |index| programs.iter().position(|blocks| blocks.contains(&index));
        let of_block = (0..program.probes.len()).map(of_block).collect();
        Merged { programs, of_block }
    }

    /// Whether a block shares its program.
    pub(super) fn has(&self, index: usize) -> bool {
        self.first_beside(index).is_some()
    }

    /// The first of the blocks that share this block's program.
    fn first_beside(&self, index: usize) -> Option<usize> {
        let program = (*self.of_block.get(index)?)?;
        self.programs.get(program)?.first().copied()
    }

    /// Whether a block shares its program with others that run before it.
    pub(super) fn is_later(&self, index: usize) -> bool {
        self.first_beside(index).is_some_and(|first| first != index)
    }

    /// Whether the program tests the process on behalf of this block.
    pub(super) fn tests_processes(&self, program: &Program, index: usize) -> bool {
        let blocks = self.of_block.get(index).copied().flatten().and_then(|at| self.programs.get(at));
        let probes = blocks.map(|blocks| blocks.iter().map(|index| &program.probes[*index]).collect::<Vec<_>>());
        probes.is_some_and(|probes| have_one_scope(&probes))
    }

    /// A number that all blocks of a program have in common.
    pub(super) fn program_of(&self, index: usize) -> usize {
        self.first_beside(index).unwrap_or(index)
    }

    /// The name of the program that a block runs in.
    pub(super) fn program_name(&self, index: usize) -> String {
        match self.first_beside(index) {
            Some(first) => format!("e{first}"),
            None => block_name(index),
        }
    }
}

/// The name of a block's own function.
pub(super) fn block_name(index: usize) -> String {
    format!("p{index}")
}

/// Whether all blocks are for the same processes.
pub(super) fn have_one_scope(probes: &[&Probe]) -> bool {
    probes.iter().all(|probe| probe.only_pids == probes[0].only_pids)
}
