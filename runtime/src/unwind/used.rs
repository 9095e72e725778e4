//! How much memory the unwind tables take.
//!
//! In: what the thread has written. Out: the numbers so far, for other threads.
//! Guarantee: reading takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use profiler_model::unwind::{MAX_PROCESSES, MAX_SEGMENTS, PROCESS_BYTES, SEGMENT_WORDS};

/// Size of a segment as stored.
const SEGMENT_BYTES: u64 = SEGMENT_WORDS as u64 * 8;

/// What is in the maps.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub files: AtomicU64,
    pub processes: AtomicU64,
    pub segments: AtomicU64,
}

/// The memory of unwind tables, without what the kernel adds to each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Files with a table.
    pub files: u64,
    /// Processes that have asked, or were prepared.
    pub processes: u64,
    /// Memory in bytes.
    pub size_bytes: u64,
}

impl Used {
    /// Limit of the memory in bytes.
    pub const LIMIT_BYTES: u64 = MAX_SEGMENTS as u64 * SEGMENT_BYTES + MAX_PROCESSES as u64 * PROCESS_BYTES as u64;

    pub(super) fn of(written: &Written) -> Used {
        let number = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (segments, processes) = (number(&written.segments), number(&written.processes));
        let size_bytes = segments * SEGMENT_BYTES + processes * PROCESS_BYTES as u64;
        Used { files: number(&written.files), processes, size_bytes }
    }
}
