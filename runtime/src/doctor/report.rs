//! What was found out about a script.
//!
//! In: made by [`super::visit`]. Out: read by whoever shows it.
//! Guarantee: plain data; what is not known is absent, not 0.

use std::time::Duration;

use profiler_compiler::diagnostic::Diagnostic;

use super::Row;
use super::findings::Finding;

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// What the script needs of the machine.
    pub needs: Vec<Row>,
    /// Its probes.
    pub probes: Vec<Probe>,
    /// The ledgers of its spans, with their names.
    pub spans: Vec<(String, String)>,
    /// What is wrong, or worth knowing.
    pub findings: Vec<Finding>,
    /// How long it was watched; `None` when it never ran.
    pub elapsed: Option<Duration>,
    /// What it printed in that time.
    pub prints: u64,
    /// Entries of the maps and rows of the views that it left.
    pub entries: u64,
    /// What the compiler has to say of the script.
    pub warnings: Vec<Diagnostic>,
    /// What it comes to.
    pub verdict: Verdict,
}

/// What a report comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Probes fired, and nothing was lost.
    Well,
    /// Something that is needed is missing or was refused.
    Refused,
    /// No probe fired, or no filter let anything through.
    Silent,
    /// Something was lost.
    Lossy,
}

/// A program with its probes.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Probe {
    /// Its first probe, and how many more there are.
    pub name: String,
    /// How it is attached.
    pub way: String,
    /// Where, when that is a file.
    pub place: Option<String>,
    /// At how many places.
    pub points: u32,
    /// Why it could not be attached.
    pub refusal: Option<String>,
    /// Whether it was attached, or run by profiler itself.
    pub is_attached: bool,
    /// Whether something else than profiler makes it run.
    pub is_event: bool,
    /// Whether an event came to it.
    pub has_fired: bool,
    /// How often the kernel ran it, and for how long altogether, when that was measured.
    pub cost: Option<(u64, Duration)>,
    /// Events that came to its block, before its filter and behind it; `None` where that was not counted, or was counted for an earlier
    /// program of the block.
    pub counted: Option<(u64, u64)>,
    /// Whether an earlier program's events and its own were counted together.
    pub is_counted_before: bool,
    /// Whether its block has a filter.
    pub has_filter: bool,
    /// Records received; `None` when it sends none.
    pub received: Option<u64>,
    /// Records and updates lost.
    pub lost: u64,
    /// Runs that the kernel skipped, or that had no scratch memory.
    pub skipped: u64,
}
