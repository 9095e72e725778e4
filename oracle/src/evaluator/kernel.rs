//! The simulated kernel: its maps, its memory, and the system that programs observe.
//!
//! In: the maps that a program declares. Out: a kernel, on which helpers act.
//! Guarantee: nothing here runs a program; helpers that call back into one are those of the VM.

use super::environment::Environment;
use super::maps::Storage;
use super::memory::Memory;
use profiler_compiler::ir::Map;

/// The kernel in which a program runs.
#[derive(Debug, Clone)]
pub struct Kernel<'p> {
    /// The inputs and outputs of helpers.
    pub environment: Environment,
    pub(super) memory: Memory,
    pub(super) declarations: &'p [Map],
    /// The contents of each map.
    pub(super) maps: Vec<Storage>,
}

impl<'p> Kernel<'p> {
    /// A kernel with empty maps and the default environment.
    pub(super) fn new(declarations: &'p [Map], memory: Memory) -> Kernel<'p> {
        let maps = vec![Storage::default(); declarations.len()];
        Kernel { environment: Environment::default(), memory, declarations, maps }
    }
}
