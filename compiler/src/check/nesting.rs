//! How deep the current code is nested in loops.
//!
//! In: set by `loops`. Out: read wherever a loop makes a difference.
//! Guarantee: plain data.

/// The loops around the current code.
#[derive(Debug, Default)]
pub(super) struct Loops {
    /// All loops.
    pub(super) all: u32,
    /// Loops that are not unrolled: each runs as a function of its own.
    pub(super) running: u32,
    /// Copies made by `unroll` so far in this round.
    pub(super) copies: u32,
}

impl Loops {
    /// Whether a loop that is not unrolled surrounds the current code.
    pub(super) fn has_running(&self) -> bool {
        self.running > 0
    }
}
