//! The data that programs share with us, for a thread that only reads it.
//!
//! In: the descriptor of an array that can be mapped. Out: [`Words`].
//! Guarantee: a mapping of its own, so that it outlives the object that it was taken from.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A read-only view of `.bss`.
#[derive(Debug)]
pub struct Words {
    start: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: the mapping is read-only and lives until drop; nothing about it belongs to a thread.
unsafe impl Send for Words {}

impl Words {
    /// Maps `size_bytes` bytes of an array.
    pub fn map(array: BorrowedFd<'_>, size_bytes: usize) -> io::Result<Words> {
        // SAFETY: a new mapping at an address that the kernel chooses; no memory of ours is touched.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), size_bytes, libc::PROT_READ, libc::MAP_SHARED, array.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Words { start, size_bytes })
    }

    /// The `u64` at an offset; `None` outside of it or when it is not aligned.
    pub fn at(&self, offset_bytes: u32) -> Option<u64> {
        let offset = offset_bytes as usize;
        if !offset.is_multiple_of(8) || offset + 8 > self.size_bytes {
            return None;
        }
        // SAFETY: within the mapping, which is page-aligned and lives as long as `self`; programs write it by words.
        Some(unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }.load(Ordering::Acquire))
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made; no reference to it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size_bytes) };
    }
}
