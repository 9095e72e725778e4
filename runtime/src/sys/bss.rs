//! A mapping of the global data shared with BPF programs.
//!
//! In: the descriptor of a mappable array. Out: [`BssMapping`].
//! Guarantee: a mapping of its own, so it outlives the object that the descriptor came from, and
//! another thread may have it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ring::Mapping;

/// A mapping of `.bss`. The default has no words.
#[derive(Debug, Default)]
pub struct BssMapping {
    mapping: Option<Mapping>,
    size_bytes: usize,
    is_writable: bool,
}

// SAFETY: the mapping is accessed by atomic words and lives until drop; it is not tied to a thread.
unsafe impl Send for BssMapping {}

impl BssMapping {
    /// Maps `size_bytes` bytes of an array, for reading.
    pub fn map(array: BorrowedFd<'_>, size_bytes: usize) -> io::Result<BssMapping> {
        let mapping = Mapping::new(array, size_bytes, libc::PROT_READ, 0)?;
        Ok(BssMapping { mapping: Some(mapping), size_bytes, is_writable: false })
    }

    /// The same, for writing too.
    pub fn map_writable(array: BorrowedFd<'_>, size_bytes: usize) -> io::Result<BssMapping> {
        let mapping = Mapping::new(array, size_bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        Ok(BssMapping { mapping: Some(mapping), size_bytes, is_writable: true })
    }

    /// The word at an offset; `None` if out of bounds or unaligned.
    fn word(&self, offset_bytes: u32) -> Option<&AtomicU64> {
        let offset = offset_bytes as usize;
        let mapping = self.mapping.as_ref()?;
        if !offset.is_multiple_of(8) || offset + 8 > self.size_bytes {
            return None;
        }
        // SAFETY: within the mapping, which is page-aligned and lives as long as `self`; BPF
        // programs and this process access it by words.
        Some(unsafe { AtomicU64::from_ptr(mapping.at(offset).cast()) })
    }

    /// The same, if it may be written.
    fn writable_word(&self, offset_bytes: u32) -> Option<&AtomicU64> {
        self.word(offset_bytes).filter(|_| self.is_writable)
    }

    /// Reads a `u64`.
    pub fn bss_u64(&self, offset_bytes: u32) -> Option<u64> {
        Some(self.word(offset_bytes)?.load(Ordering::Acquire))
    }

    /// Writes a `u64`; returns false if out of bounds.
    pub fn set_bss_u64(&self, offset_bytes: u32, value: u64) -> bool {
        self.writable_word(offset_bytes).map(|word| word.store(value, Ordering::SeqCst)).is_some()
    }

    /// Sets a `u64` to `to` if it still is `from`; returns whether it was.
    pub fn replace_bss_u64(&self, offset_bytes: u32, from: u64, to: u64) -> bool {
        let word = self.writable_word(offset_bytes);
        word.is_some_and(|word| word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok())
    }

    /// Adds to a `u64` atomically; it wraps around on overflow.
    pub fn add_bss_u64(&self, offset_bytes: u32, by: u64) {
        if let Some(word) = self.writable_word(offset_bytes) {
            word.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Copies bytes, word by word; `None` if any word is out of bounds.
    pub fn bss_bytes(&self, offset_bytes: u32, size_bytes: u32) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(size_bytes.next_multiple_of(8) as usize);
        for at in (offset_bytes..offset_bytes.checked_add(size_bytes)?).step_by(8) {
            bytes.extend(self.word(at)?.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes.truncate(size_bytes as usize);
        Some(bytes)
    }

    /// Zeroes bytes, word by word.
    pub fn zero_bss(&self, offset_bytes: u32, size_bytes: u32) {
        for at in (offset_bytes..offset_bytes.saturating_add(size_bytes)).step_by(8) {
            if let Some(word) = self.writable_word(at) {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Writes bytes starting at an aligned offset; pads the last word with zeros. Returns false if
    /// out of bounds or if the mapping is read-only.
    pub fn set(&self, offset_bytes: u32, bytes: &[u8]) -> bool {
        (offset_bytes..).step_by(8).zip(bytes.chunks(8)).all(|(offset, chunk)| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.set_bss_u64(offset, u64::from_ne_bytes(word))
        })
    }
}
