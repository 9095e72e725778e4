//! Memory for what is read of files.
//!
//! In: sizes in bytes, before they are allocated. Out: reservations.
//! Guarantee: all reservations of this process together are at most [`MAX_BYTES`], and at most its
//! share of what its control groups left. Whoever gets none goes without the file.
//!
//! Anyone can write a file that takes a thousand times its size when it is read: sections are
//! compressed, and a byte of a line table is a row of 24. Several threads read files at once, so
//! the budget is one for all of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::memory;

/// The most that is reserved at any time. With the rest of the process it stays below 256 MiB.
pub(crate) const MAX_BYTES: usize = 192 << 20;

static RESERVED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: OnceLock<usize> = OnceLock::new();

/// Limits this process to a part of the budget: another one has reserved the rest. Nothing has been
/// reserved yet.
pub(crate) fn limit_to(most_bytes: usize) {
    LIMIT.get_or_init(|| limit_bytes().min(most_bytes));
}

/// What may still be reserved.
pub(crate) fn left_bytes() -> usize {
    LIMIT.get_or_init(limit_bytes).saturating_sub(RESERVED.load(Ordering::Relaxed))
}

/// A part of the budget, which is given back when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    size_bytes: usize,
}

impl Reserved {
    /// Reserves this many bytes; `None` if fewer are left.
    pub(crate) fn new(size_bytes: usize) -> Option<Reserved> {
        let mut reserved = Reserved::default();
        reserved.grow(size_bytes).then_some(reserved)
    }

    /// Reserves more; whether there was enough.
    pub(crate) fn grow(&mut self, more_bytes: usize) -> bool {
        let limit = *LIMIT.get_or_init(limit_bytes);
        let sum = |all: usize| all.checked_add(more_bytes).filter(|sum| *sum <= limit);
        let is_enough = RESERVED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok();
        self.size_bytes += if is_enough { more_bytes } else { 0 };
        is_enough
    }

    /// Adds another reservation to this one.
    pub(crate) fn add(&mut self, mut other: Reserved) {
        self.size_bytes += std::mem::take(&mut other.size_bytes);
    }

    /// Its size in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        RESERVED.fetch_sub(self.size_bytes, Ordering::Relaxed);
    }
}

/// What this process grows by while it parses a file: how much memory that takes is up to the file,
/// and is in structures of other crates.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    before_bytes: usize,
    reserved: Reserved,
}

impl Growth {
    /// Nothing has been parsed yet.
    pub(crate) fn begin() -> Growth {
        Growth { before_bytes: memory::resident_bytes(), reserved: Reserved::default() }
    }

    /// Measures and reserves what the process has grown by; whether there was enough.
    pub(crate) fn is_within_budget(&mut self) -> bool {
        let grown_bytes = memory::resident_bytes().saturating_sub(self.before_bytes);
        self.reserved.grow(grown_bytes.saturating_sub(self.reserved.size_bytes()))
    }

    /// The growth in bytes, as last measured.
    pub(crate) fn size_bytes(&self) -> usize {
        self.reserved.size_bytes()
    }
}

fn limit_bytes() -> usize {
    let share = memory::share_bytes().and_then(|bytes| usize::try_from(bytes).ok());
    share.map_or(MAX_BYTES, |share| share.min(MAX_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_reserved_again() {
        let limit = limit_bytes();
        for _ in 0..3 {
            let mut half = Reserved::new(limit / 2).expect("nothing is reserved yet");
            assert!(Reserved::new(limit).is_none() && Reserved::new(usize::MAX).is_none());
            assert!(!half.grow(limit) && half.grow(limit / 4));
            assert_eq!(half.size_bytes(), limit / 2 + limit / 4);
        }
    }

    #[test]
    fn growth_is_what_was_allocated_since() {
        let mut growth = Growth::begin();
        assert!(growth.is_within_budget());
        let bytes = vec![1_u8; 32 << 20];
        assert!(growth.is_within_budget() && growth.size_bytes() >= bytes.len() / 2, "{growth:?}");
    }
}
