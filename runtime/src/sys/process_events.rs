//! What the kernel tells of processes: programs that start, files that they map to run code, children, ends.
//!
//! In: a CPU. Out: records as `perf_event_open(2)` describes them, each with the time at its end.
//! Guarantee: reads stay inside the mapping; the reader's position is the only thing written; closing ends the event.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_sys as sys;

use super::perf::{Where, open_process_events};
use super::ring::Mapping;

/// Pages of records a CPU; a power of two. A program's start takes some ten records of 100 bytes.
const DATA_PAGES: usize = 16;

/// The records of one CPU.
#[derive(Debug)]
pub struct ProcessEvents {
    ring: Mapping,
    page_bytes: usize,
    event: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only `&mut self` reads or writes it.
unsafe impl Send for ProcessEvents {}

impl ProcessEvents {
    /// Starts to record.
    pub fn open(cpu: u32) -> io::Result<ProcessEvents> {
        // SAFETY: takes a number only.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let event = open_process_events(Where::Cpu(cpu), (page_bytes * DATA_PAGES / 4) as u32)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let ring = Mapping::new(event.as_fd(), page_bytes * (1 + DATA_PAGES), protection, 0)?;
        Ok(ProcessEvents { ring, page_bytes, event })
    }

    /// A descriptor that is readable while a quarter of the room is taken.
    pub fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.event.try_clone()
    }

    /// Gives every record that is there to `see`, with its header, and makes room for others.
    pub fn drain(&mut self, see: &mut dyn FnMut(&[u8])) {
        let size = (self.page_bytes * DATA_PAGES) as u64;
        let (head, tail) = (self.position(std::mem::offset_of!(sys::perf_event_mmap_page, data_head)), self.tail());
        let (head, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let mut record = Vec::new();
        while at < head {
            let header = self.copy(at, 8, size, &mut record);
            let length = u64::from(u16::from_ne_bytes([header[6], header[7]]));
            if length < 8 || length > head - at {
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

    /// One of the two positions, at an offset of the first page.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are multiples of 8 within the first page, which is mapped for reading and writing as long as `self`
        // lives, and which kernel and reader share by words.
        unsafe { AtomicU64::from_ptr(self.ring.at(offset).cast()) }
    }

    /// The bytes from a position on, which may begin at the end of the data and go on at its start.
    fn copy<'a>(&self, from: u64, length: usize, size: u64, into: &'a mut Vec<u8>) -> &'a [u8] {
        into.clear();
        for step in 0..length as u64 {
            let offset = self.page_bytes + ((from + step) % size) as usize;
            // SAFETY: the offset is below one page and the data, all of which is mapped; the kernel does not write between tail and
            // head until the tail is moved, which `&mut self` of `drain` does behind the last copy.
            into.push(unsafe { self.ring.at(offset).read() });
        }
        into
    }
}
