//! Where the values of spans are stored.
//!
//! In: a span, decided once for all programs. Out: read by the code of its stages.
//! Guarantee: plain data.

use crate::ir::MapId;
use crate::object;
use crate::typed::Restart;

/// Maximum nesting of functions: as deep as the kernel follows their returns.
pub(super) const MAX_DEPTH: u32 = object::MAX_FOLLOWED_RETURNS;

/// One table slot per this many keys, within the bounds below.
const KEYS_FOR_A_PLACE: u32 = 64;
const FEWEST: u32 = 16;
const MOST: u32 = 256;

/// Offset of the slots: a time, or 0 if the slot is empty, and a key.
pub(super) const PLACES: u32 = 16;
/// Offset of the key in a slot.
pub(super) const KEY: i32 = 8;

/// The storage of a span.
#[derive(Debug, Clone)]
pub(crate) struct SpanPlace {
    /// The map's id.
    pub id: MapId,
    /// Whether values are in task-local storage.
    pub in_threads: bool,
    /// Whether no other program can access such a value while one does.
    pub in_turns: bool,
    /// Whether marks write to a start.
    pub has_marks: bool,
    /// What a start does to a span that is open under its key.
    pub restart: Restart,
    /// Offset of the stack pointer at the start, if frames are function calls.
    pub stack_pointer: Option<i32>,
    /// Offset of the time of the last stage.
    pub last: Option<i32>,
    /// Offsets of the stored fields.
    pub fields: Vec<i32>,
    /// The table of the oldest starts, for spans that evict.
    pub oldest: Option<OldestTable>,
    /// `.bss` offset of the key whose thread or process has ended, if a program closes such keys.
    pub ended_key: Option<u32>,
    /// Size of one start: a value, or one frame of a value.
    pub size_bytes: u32,
    /// `.bss` offset of the first CPU's counters.
    pub counters: u32,
    pub stride_bytes: u32,
}

/// The table of a span's oldest starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OldestTable {
    pub offset: u32,
    pub places: u32,
    pub key_size_bytes: u32,
}

impl OldestTable {
    /// The number of slots for a span with up to `limit` keys.
    pub(crate) fn places(limit: u32) -> u32 {
        (limit / KEYS_FOR_A_PLACE).clamp(FEWEST, MOST)
    }

    /// Its size in bytes.
    pub(crate) fn size_bytes(limit: u32, key_size_bytes: u32) -> u32 {
        PLACES + Self::places(limit) * Self::stride(key_size_bytes)
    }

    /// The table at this offset of `.bss`, for a span with up to `limit` keys.
    pub(crate) fn new(offset: u32, limit: u32, key_size_bytes: u32) -> OldestTable {
        OldestTable { offset, places: Self::places(limit), key_size_bytes }
    }

    /// The size of a slot in bytes.
    pub(crate) fn stride(key_size_bytes: u32) -> u32 {
        KEY as u32 + key_size_bytes.next_multiple_of(8)
    }
}
