//! A BPF ring buffer mapped into memory.
//!
//! In: the descriptor of a ring-buffer map. Out: [`RingMemory`], from which the consumer reads
//! records in place.
//! Guarantee: reads stay inside the mapping; only the consumer's position is written.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::ring::RingMemory;

use super::map::Map;

/// A shared memory mapping of a descriptor.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes starting at `offset`.
    pub(super) fn new(fd: BorrowedFd<'_>, len: usize, protection: i32, offset: usize) -> io::Result<Mapping> {
        // SAFETY: requests a new mapping at any address; no existing memory is touched.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset as libc::off_t)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Mapping { base, len })
    }

    /// The address of a byte of the mapping; out-of-bounds offsets give the last byte.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: the offset is inside the mapping.
        unsafe { self.base.as_ptr().add(offset.min(self.len - 1)) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, unmapped only here; all references into it borrow its owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A ring buffer: one page with the consumer's position, one with the producer's, then the data,
/// followed by a second mapping of the start of the data, so that a record that wraps around is
/// contiguous. The kernel would map all data twice. Every mapped page counts towards our memory, so
/// only as much as the longest record needs is mapped again.
#[derive(Debug)]
pub struct MappedRing {
    consumer: Mapping,
    producer: Mapping,
    page_bytes: usize,
    size_bytes: usize,
    tail_bytes: usize,
}

impl MappedRing {
    /// Maps a ring-buffer map whose records have at most `max_record_bytes` bytes.
    pub fn new(map: &Map<'_>, max_record_bytes: u32) -> io::Result<MappedRing> {
        let size_bytes = map.max_entries() as usize;
        // SAFETY: takes a number only.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        if !map.is_ring() || !size_bytes.is_power_of_two() || size_bytes < page_bytes {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let consumer = Mapping::new(map.fd(), page_bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let tail_bytes = (max_record_bytes as usize).next_multiple_of(page_bytes).clamp(page_bytes, size_bytes);
        let len = page_bytes + size_bytes + tail_bytes;
        let producer = Mapping::new(map.fd(), len, libc::PROT_READ, page_bytes)?;
        Ok(MappedRing { consumer, producer, page_bytes, size_bytes, tail_bytes })
    }

    /// Address of the data at a position.
    fn at(&self, position: u64) -> *mut u8 {
        let offset = self.page_bytes + (position as usize & (self.size_bytes - 1));
        // SAFETY: the sum is less than page + size, inside the mapping of page + size + tail.
        unsafe { self.producer.base.as_ptr().add(offset) }
    }
}

impl RingMemory for MappedRing {
    fn size_bytes(&self) -> u64 {
        self.size_bytes as u64
    }

    fn consumer(&self) -> u64 {
        // SAFETY: the page starts with the position, a word that kernel and reader share.
        unsafe { AtomicU64::from_ptr(self.consumer.base.as_ptr().cast()) }.load(Ordering::Acquire)
    }

    fn publish(&mut self, position: u64) {
        // SAFETY: as in `consumer`; `&mut self` proves that no record is borrowed that the kernel
        // may now overwrite.
        unsafe { AtomicU64::from_ptr(self.consumer.base.as_ptr().cast()) }.store(position, Ordering::SeqCst);
    }

    fn producer(&self) -> u64 {
        // SAFETY: the second page starts with the position. The page is read-only, which a relaxed
        // load may read.
        let position = unsafe { AtomicU64::from_ptr(self.producer.base.as_ptr().cast()) }.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        position
    }

    fn header(&self, position: u64) -> u32 {
        if !position.is_multiple_of(8) {
            return 0;
        }
        // SAFETY: positions are multiples of 8, so the word is aligned and inside; relaxed loads
        // may read read-only memory.
        let header = unsafe { AtomicU32::from_ptr(self.at(position).cast()) }.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        header
    }

    fn bytes(&self, position: u64, len: u32) -> &[u8] {
        let len = (len as usize).min(self.tail_bytes);
        // SAFETY: at most `tail` bytes from an offset below page + size, inside the mapping. The
        // record is committed, and the kernel does not change it until `publish`, which needs `&mut
        // self`.
        unsafe { std::slice::from_raw_parts(self.at(position), len) }
    }
}
