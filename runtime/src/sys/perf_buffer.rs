//! Perf buffers: what the kernel records about processes (exec, executable file mappings, forks and
//! exits), and what programs send with perf helpers.
//!
//! In: a CPU. Out: records as described in `perf_event_open(2)`; those about processes end with a
//! timestamp.
//! Guarantee: reads stay inside the mapping; only the reader's position is written; closing ends
//! the event.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_sys as sys;

use super::perf::{Where, open_mappings, open_output, open_process_events};
use super::ring::Mapping;

/// Data pages per CPU for records about processes; a power of two. The start of a program takes
/// about ten records of 100 bytes.
const DATA_PAGES: usize = 16;

/// The record buffer of one CPU.
#[derive(Debug)]
pub struct PerfBuffer {
    ring: Mapping,
    page_bytes: usize,
    data_bytes: usize,
    event: OwnedFd,
}

fn page_bytes() -> usize {
    // SAFETY: takes a number only.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

// SAFETY: the mapping belongs to the process, not to a thread, and only `&mut self` reads or writes
// it.
unsafe impl Send for PerfBuffer {}

impl PerfBuffer {
    /// Starts recording processes.
    pub fn of_processes(cpu: u32) -> io::Result<PerfBuffer> {
        let watermark_bytes = page_bytes() * DATA_PAGES / 4;
        PerfBuffer::of(open_process_events(Where::Cpu(cpu), watermark_bytes as u32)?, DATA_PAGES)
    }

    /// Starts recording mappings of code alone; each record wakes the reader.
    pub fn of_mappings(cpu: u32) -> io::Result<PerfBuffer> {
        PerfBuffer::of(open_mappings(Where::Cpu(cpu), 1)?, DATA_PAGES)
    }

    /// Starts receiving what programs send on this CPU; each record wakes the reader. The size is
    /// rounded up to a power of two of pages.
    pub fn of_programs(cpu: u32, size_bytes: usize) -> io::Result<PerfBuffer> {
        let pages = size_bytes.div_ceil(page_bytes()).next_power_of_two();
        PerfBuffer::of(open_output(Where::Cpu(cpu))?, pages)
    }

    fn of(event: OwnedFd, data_pages: usize) -> io::Result<PerfBuffer> {
        let page_bytes = page_bytes();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let ring = Mapping::new(event.as_fd(), page_bytes * (1 + data_pages), protection, 0)?;
        Ok(PerfBuffer { ring, page_bytes, data_bytes: page_bytes * data_pages, event })
    }

    /// The event, as a program's map of perf events has it.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// A descriptor that is readable while at least a quarter of the buffer is in use, or any of it
    /// if each record wakes the reader.
    pub fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.event.try_clone()
    }

    /// Passes each pending record with its header to `see`, then advances the tail.
    pub fn drain(&mut self, see: &mut dyn FnMut(&[u8])) {
        let size = self.data_bytes as u64;
        let (head, tail) = (self.position(std::mem::offset_of!(sys::perf_event_mmap_page, data_head)), self.tail());
        let (head, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let mut record = Vec::new();
        while at < head {
            let header = self.copy(at, 8, size, &mut record);
            let length = u64::from(u16::from_ne_bytes([header[6], header[7]]));
            if length < 8 || length > (head - at).min(size) {
                break;
            }
            see(self.copy(at, length as usize, size, &mut record));
            at += length;
        }
        tail.store(head, Ordering::Release);
    }

    fn tail(&self) -> &AtomicU64 {
        self.position(std::mem::offset_of!(sys::perf_event_mmap_page, data_tail))
    }

    /// One of the two positions, at a byte offset in the first page.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are multiples of 8 within the first page, which is mapped for
        // reading and writing as long as `self` lives, and which kernel and reader share by words.
        unsafe { AtomicU64::from_ptr(self.ring.at(offset).cast()) }
    }

    /// The bytes from a position; they may wrap around at the end of the data.
    fn copy<'a>(&self, from: u64, length: usize, size: u64, into: &'a mut Vec<u8>) -> &'a [u8] {
        into.clear();
        into.reserve(length);
        let start = (from % size) as usize;
        let first = length.min(size as usize - start);
        for (start, length) in [(start, first), (0, length - first)] {
            // SAFETY: the range is below one page plus the data, all of which is mapped: `length`
            // is at most `size`, and the second part begins at 0. The kernel does not write between
            // tail and head until the tail is moved, which `&mut self` of `drain` does after the
            // last copy, so the bytes do not change while the slice lives.
            let bytes = unsafe { std::slice::from_raw_parts(self.ring.at(self.page_bytes + start), length) };
            into.extend_from_slice(bytes);
        }
        into
    }
}
