//! Results of examining a script.
//!
//! In: filled by [`super::visit`]. Out: read by the code that prints it.
//! Guarantee: plain data; unknown values are absent, not 0.

use std::time::Duration;

use profiler_compiler::diagnostic::Diagnostic;

use super::Row;
use super::findings::Finding;

/// The results.
#[derive(Debug)]
pub struct Report {
    /// What the script requires of the machine.
    pub needs: Vec<Row>,
    pub probes: Vec<Probe>,
    /// The names of its spans with their ledgers.
    pub spans: Vec<(String, String)>,
    /// Problems, and facts worth knowing.
    pub findings: Vec<Finding>,
    /// How long it was watched; `None` if it never ran.
    pub elapsed: Option<Duration>,
    /// Number of prints in that time.
    pub prints: u64,
    /// Number of map entries and view rows that it left.
    pub entries: u64,
    /// Compiler warnings.
    pub warnings: Vec<Diagnostic>,
    /// The overall result.
    pub verdict: Verdict,
}

/// The overall result of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Probes fired, and nothing was lost.
    Well,
    /// Something required is missing or was refused.
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
    /// Its first probe, and the number of others.
    pub name: String,
    /// How it is attached.
    pub way: String,
    /// The file it is attached to, if any.
    pub place: Option<String>,
    /// Number of attach points.
    pub points: u32,
    /// Why it could not be attached.
    pub refusal: Option<String>,
    /// Whether it was attached, or run by profiler itself.
    pub is_attached: bool,
    /// Whether it is triggered by something other than profiler.
    pub is_event: bool,
    /// Whether an event reached it.
    pub has_fired: bool,
    /// Number of runs and their total duration, if measured.
    pub cost: Option<(u64, Duration)>,
    /// Estimated kernel overhead of a run in nanoseconds, if runs were measured.
    pub trap_ns: Option<f64>,
    /// Events that reached its block, before and after its filter; `None` if they were not counted,
    /// or were counted for an earlier program of the block.
    pub counted: Option<(u64, u64)>,
    /// Whether its events are included in the count of an earlier program.
    pub is_counted_before: bool,
    /// Whether its block has a filter.
    pub has_filter: bool,
    /// Records received; `None` if it sends none.
    pub received: Option<u64>,
    /// Data and control records lost, and loops that exceeded the kernel's iteration limit.
    pub lost: u64,
    /// Runs that the kernel skipped or that found no scratch memory, untraced returns, and missed
    /// or merged timer ticks.
    pub skipped: u64,
}
