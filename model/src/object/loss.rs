//! Kinds of losses and the counters that record them.
//!
//! In: offsets of counters in `.bss`. Out: what the ledger reads.
//! Guarantee: only programs update the counters, and counters never decrease.

use serde::{Deserialize, Serialize};

use crate::unwind::End;

/// The kinds of losses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Loss {
    /// Records that a program dropped because the data ring was full.
    Events {
        /// Index of the program.
        program: usize,
    },
    /// Control records that were dropped because the control ring was full.
    Control {
        /// Index of the program.
        program: usize,
    },
    /// Updates refused because a map was full.
    MapFull {
        /// Index of the map.
        map: usize,
    },
    /// Stacks that could not be stored.
    Stacks,
    /// Stacks without their outermost callers.
    Callers {
        /// Where they end.
        end: End,
    },
    /// Loops that exceeded the kernel's iteration limit.
    Rounds {
        /// Index of the program.
        program: usize,
    },
    /// Runs that found no free scratch memory.
    Scratch {
        /// Index of the program.
        program: usize,
    },
    /// Commands of `system` that were not run because the run ended first.
    Commands,
    /// Timer ticks at which the program should have run but did not.
    Ticks {
        /// Index of the program.
        program: usize,
    },
    /// Ticks of a CPU clock whose interrupt was so late that the kernel merged them with later
    /// ticks.
    MergedTicks {
        /// Index of the program.
        program: usize,
    },
    /// Runs that the kernel skipped because a program was already running on that CPU. Counted by
    /// the kernel, not by the program.
    Skipped {
        /// Index of the program.
        program: usize,
    },
    /// Returns that the kernel did not trace, because the thread was already in
    /// [`MAX_FOLLOWED_RETURNS`] probed functions.
    Returns {
        /// Index of the program.
        program: usize,
    },
}

impl Loss {
    /// Whether an event or a value is missing, and not only the callers of one.
    pub fn is_of_data(&self) -> bool {
        !matches!(self, Loss::Callers { .. })
    }
}

/// A `u64` in `.bss` that counts one kind of loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Offset in `.bss`.
    pub offset_bytes: u32,
    /// The loss that it counts.
    pub loss: Loss,
}

/// Two `u64` per CPU in `.bss`: the number of runs of a program on that CPU, then the number of
/// ticks of its clock that the kernel merged with others because they were late. Compared with the
/// count of the perf event, they show how often the kernel skipped the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCounter {
    /// Index of the program.
    pub program: usize,
    /// Offset of the first copy in `.bss`.
    pub offset_bytes: u32,
    /// Distance between two copies in bytes.
    pub stride_bytes: u32,
    /// Number of copies.
    pub copies: u32,
}

/// Offset of the merged ticks in a copy of a [`RunCounter`].
pub const MERGED_TICKS_BYTES: u32 = 8;

/// Maximum number of iterations of a loop, the kernel's `BPF_MAX_LOOPS`.
pub const MAX_ROUNDS: u32 = 8 << 20;

/// Maximum number of nested returns that the kernel traces in a thread (`MAX_URETPROBE_DEPTH`).
pub const MAX_FOLLOWED_RETURNS: u32 = 64;
