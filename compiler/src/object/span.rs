//! What a runtime must know of a span: where its ledger is, and what it must agree with.
//!
//! In: made by `lower`. Out: read by the runtime.
//! Guarantee: `started = matched + replaced + expired + evicted + open` holds for the counters of all CPUs together whenever no program
//! is between two of them.

/// A span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// The BPF map with what is open. A value begins with a word that says which stage it is in: see [`Span::is_open`]. `None` where
    /// threads have the values themselves, which cannot be counted from outside.
    pub map: Option<String>,
    /// Most frames, where a value is a stack of them, whose depth is the word.
    pub max_depth: Option<u64>,
    /// Most keys.
    pub limit: u32,
    /// Bytes of a key; 0 where threads have the values.
    pub key_size_bytes: u32,
    /// Bytes of what is kept of a key: one start, or a stack of them.
    pub value_size_bytes: u32,
    /// Whether the map takes memory as keys come.
    pub on_demand: bool,
    /// `.bss` offset of the first CPU's counters, each a `u64` at the place of its [`SpanCounter`].
    pub counters_offset: u32,
    /// Distance to the next CPU's.
    pub stride_bytes: u32,
    /// How many CPUs have some.
    pub copies: u32,
    /// What a start does that finds no room.
    pub when_full: WhenFull,
    /// Whether a second start is refused.
    pub keeps: bool,
    /// Whether there are marks.
    pub has_marks: bool,
}

/// What a start does that finds no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It is refused, and counted.
    Refuse,
    /// It takes the room of the oldest, which is counted.
    Evict,
}

/// The ledger's counters, by their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanCounter {
    /// Starts that opened.
    Started = 0,
    /// Ends of what was open.
    Matched,
    /// Ends of what was not.
    Unmatched,
    /// Closed by a second start.
    Replaced,
    /// Closed because they were too old.
    Expired,
    /// Starts refused because the key was live.
    Kept,
    /// Starts refused because there was no room.
    DroppedFull,
    /// Starts refused because the key was being closed all the while, or the kernel was busy with it.
    DroppedBusy,
    /// Marks of what was not open.
    UnmatchedMarks,
    /// Ends that found the key being marked all the while; they are among the unmatched.
    EndsBusy,
    /// Starts refused because the stack of frames was full.
    DroppedDeep,
    /// Closed to make room for a start.
    Evicted,
}

impl SpanCounter {
    /// How many there are.
    pub const COUNT: u32 = 12;
}

impl Span {
    /// How many starts are open in a map's value, by its first word.
    pub fn open_in(&self, word: u64) -> u64 {
        self.max_depth.map_or_else(|| u64::from(Span::is_open(word)), |most| word.min(most))
    }

    /// Whether the word is that of an open span: the start's time in ns above four bits of its stage. Smaller ones are left for
    /// the moment in which it is closed.
    pub fn is_open(word: u64) -> bool {
        word >= 16
    }
}
