//! What the runtime needs to know about a span: its map, its counters and its key layout.
//!
//! In: made by `lower`. Out: read by the runtime.
//! Guarantee: `started = matched + replaced + expired + evicted + abandoned + ended + open` holds
//! for the counters summed over all CPUs whenever no program is between two updates.

use serde::{Deserialize, Serialize};

/// A span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub name: String,
    /// The BPF map of the open starts. A value begins with a word that encodes its stage: see
    /// [`Span::is_open`]. `None` if the values are in task storage, where user space cannot count
    /// them.
    pub map: Option<String>,
    /// Maximum depth, if a value is a stack of frames; its first word is then the depth.
    pub max_depth: Option<u64>,
    /// Maximum number of keys.
    pub limit: u32,
    /// Size of a key in bytes; 0 if the values are in task storage.
    pub key_size_bytes: u32,
    /// Size of the value of a key in bytes: one start, or a stack of them.
    pub value_size_bytes: u32,
    /// Whether map entries are allocated on demand.
    pub on_demand: bool,
    /// `.bss` offset of the first CPU's counters, an array of `u64` indexed by [`SpanCounter`].
    pub counters_offset: u32,
    /// Distance to the next CPU's counters in bytes.
    pub stride_bytes: u32,
    /// Number of CPUs with counters.
    pub copies: u32,
    /// What a start does if the map is full.
    pub when_full: WhenFull,
    /// Whether a second start under an open key is refused.
    pub keeps: bool,
    /// Whether the span has marks.
    pub has_marks: bool,
    /// How the keys of exited threads and processes are removed. `None` if the key contains
    /// neither, or if the values are in task storage.
    pub ended: Option<EndedKeys>,
}

/// How to tell from a key whether its thread or process has ended, and where to put the key for the
/// program that removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedKeys {
    /// Offset in the key of the thread or process id, a `u32`.
    pub number_offset: u32,
    /// Offset in the key of its start time, a `u64` in nanoseconds since boot.
    pub start_offset: u32,
    /// `.bss` offset of the key for the program to remove.
    pub key_offset: u32,
    /// Whether the ids are those of threads.
    pub of_threads: bool,
}

/// What a start does if the map is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenFull {
    /// The start is refused and counted.
    Refuse,
    /// The oldest entry is evicted and counted.
    Evict,
}

/// The span's counters, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanCounter {
    /// Starts that opened an entry.
    Started = 0,
    /// Ends that closed an open entry.
    Matched,
    /// Ends without an open entry.
    Unmatched,
    /// Entries closed by a second start.
    Replaced,
    /// Entries closed because they expired.
    Expired,
    /// Starts refused because the key was open.
    Kept,
    /// Starts refused because the map was full.
    DroppedFull,
    /// Starts refused because of contention: the key was being closed in every attempt, or the
    /// kernel was busy with it.
    DroppedBusy,
    /// Marks without an open entry.
    UnmatchedMarks,
    /// Ends that found the key being marked in every attempt; included in `Unmatched`.
    EndsBusy,
    /// Starts refused because the stack of frames was full.
    DroppedDeep,
    /// Entries evicted to make space for a start.
    Evicted,
    /// Calls that were left without a return that a probe could see.
    Abandoned,
    /// Entries closed because the key's thread or process has ended.
    Ended,
}

impl SpanCounter {
    /// The number of counters.
    pub const COUNT: u32 = 14;
}

impl Span {
    /// The number of open starts in a map value, given its first word.
    pub fn open_in(&self, word: u64) -> u64 {
        self.max_depth.map_or_else(|| u64::from(Span::is_open(word)), |most| word.min(most))
    }

    /// Whether a word is that of an open entry: the start time in ns, shifted left by four bits,
    /// plus the stage. Smaller values appear only while an entry is being closed.
    pub fn is_open(word: u64) -> bool {
        word >= 16
    }
}
