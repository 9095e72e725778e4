//! Bytes of debug information, read within limits.
//!
//! In: the bytes of a section. Out: a reader for gimli.
//! Guarantee: all readers of a [`Meter`] together make a limited number of steps, and no read
//! succeeds deeper in the stack than [`MAX_STACK_BYTES`], or when what was parsed takes more memory
//! than is left: gimli and addr2line allocate, repeat and recurse only as they read, so this bounds
//! their time, memory and stack for any input.
//!
//! How much memory a step leaves is up to the file, from nothing to 120 bytes for one byte of a
//! line table's header, and is in structures of other crates. So it is measured: as what this
//! process has grown by since the parsing began.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use gimli::{Error, Reader, ReaderOffsetId, Result, RunTimeEndian};

use crate::host::budget::Growth;

/// Limit of the stack that parsing may use; the thread has 2 MiB.
const MAX_STACK_BYTES: usize = 512 << 10;
/// Limit of strings, in bytes: the longest path that the kernel opens.
const MAX_TEXT_BYTES: usize = 4096;
/// Steps from one measurement of memory to the next, which takes as long as a hundred of them.
const MEASURED_EVERY: u64 = 1 << 16;

/// What remains of a budget.
#[derive(Debug, Default)]
pub(super) struct Meter {
    steps: Cell<u64>,
    /// Address of a local variable of the caller.
    stack: Cell<usize>,
    /// What was parsed.
    parsed: RefCell<Growth>,
    /// Whether there was too little memory.
    is_refused: Cell<bool>,
}

impl Meter {
    /// Sets the number of steps that may be made. Nothing has been parsed, or it was dropped.
    pub(super) fn fill(&self, steps: u64) {
        self.steps.set(steps);
        self.is_refused.set(false);
        // First what is given back.
        self.parsed.take();
        self.parsed.replace(Growth::begin());
    }

    /// Whether the limit that was exceeded is that of memory.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.get()
    }

    /// Memory in bytes of what was parsed, as last measured.
    pub(super) fn parsed_bytes(&self) -> usize {
        self.parsed.borrow().size_bytes()
    }

    /// Gives the memory of what was parsed back: it was dropped.
    pub(super) fn release(&self) {
        self.parsed.take();
    }

    fn has_memory(&self) -> bool {
        let is_enough = self.parsed.borrow_mut().is_within_budget();
        self.is_refused.set(!is_enough);
        is_enough
    }

    /// Whether a limit was exceeded; nothing can be read any more.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.get() == 0
    }

    /// Measures the stack from the caller's frame.
    pub(super) fn start_here(&self) {
        let here = 0u8;
        self.stack.set(&raw const here as usize);
    }

    fn spend(&self, steps: usize) -> Result<()> {
        let here = 0u8;
        let depth_bytes = (&raw const here as usize).abs_diff(self.stack.get());
        let before = self.steps.get();
        match before.checked_sub(steps as u64) {
            Some(left)
                if depth_bytes < MAX_STACK_BYTES
                    && (left / MEASURED_EVERY == before / MEASURED_EVERY || self.has_memory()) =>
            {
                self.steps.set(left);
                Ok(())
            }
            _ => {
                self.steps.set(0);
                Err(Error::UnexpectedEof(ReaderOffsetId(0)))
            }
        }
    }
}

/// The bytes of a section.
#[derive(Debug)]
pub(super) struct Section {
    pub bytes: Vec<u8>,
    pub meter: Rc<Meter>,
    pub endian: RunTimeEndian,
}

/// A part of a section. Invariant: `start <= end <= section.bytes.len()`.
#[derive(Clone)]
pub(super) struct Metered {
    section: Rc<Section>,
    start: usize,
    end: usize,
}

impl Metered {
    /// All bytes of a section.
    pub(super) fn new(section: &Rc<Section>) -> Metered {
        Metered { section: Rc::clone(section), start: 0, end: section.bytes.len() }
    }

    /// The remaining bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.section.bytes.get(self.start..self.end).unwrap_or_default()
    }

    fn past_the_end(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    /// Takes `length` bytes from the front, for this many steps. Returns where they start.
    fn advance(&mut self, length: usize, steps: usize) -> Result<usize> {
        self.section.meter.spend(steps)?;
        let start = self.start;
        if length > self.end - start {
            return Err(self.past_the_end());
        }
        self.start += length;
        Ok(start)
    }
}

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{} of {} bytes", self.start, self.end, self.section.bytes.len())
    }
}

impl Reader for Metered {
    type Endian = RunTimeEndian;
    type Offset = usize;

    fn endian(&self) -> RunTimeEndian {
        self.section.endian
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn empty(&mut self) {
        self.start = self.end;
    }

    fn truncate(&mut self, length: usize) -> Result<()> {
        if length > self.len() {
            return Err(self.past_the_end());
        }
        self.end = self.start + length;
        Ok(())
    }

    fn offset_from(&self, base: &Metered) -> usize {
        self.start.saturating_sub(base.start)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.start as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        (id.0 as usize).checked_sub(self.start).filter(|offset| *offset <= self.len())
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let found = self.bytes().iter().position(|other| *other == byte);
        self.section.meter.spend(1 + found.unwrap_or(self.len()) / 8)?;
        found.ok_or_else(|| self.past_the_end())
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.advance(length, 1).map(drop)
    }

    fn split(&mut self, length: usize) -> Result<Metered> {
        let start = self.advance(length, 1)?;
        Ok(Metered { section: Rc::clone(&self.section), start, end: self.start })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.section.meter.spend(self.len())?;
        match self.len() {
            0..=MAX_TEXT_BYTES => Ok(self.bytes().into()),
            _ => Err(self.past_the_end()),
        }
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.to_string_lossy()
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.to_slice()?;
        Ok(String::from_utf8_lossy(self.bytes()))
    }

    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        let start = self.advance(into.len(), 1)?;
        into.copy_from_slice(&self.section.bytes[start..self.start]);
        Ok(())
    }

    /// Most reads are of one byte.
    fn read_u8(&mut self) -> Result<u8> {
        let at = self.advance(1, 1)?;
        self.section.bytes.get(at).copied().ok_or_else(|| self.past_the_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8], steps: u64) -> Metered {
        let meter = Rc::new(Meter::default());
        meter.fill(steps);
        meter.start_here();
        Metered::new(&Rc::new(Section { bytes: bytes.to_vec(), meter, endian: RunTimeEndian::Little }))
    }

    #[test]
    fn reads_as_gimlis_own_reader() {
        let bytes: Vec<u8> = (0..=255).chain([0x80, 0x01, 0]).collect();
        let mut ours = reader(&bytes, 1000);
        let mut theirs = gimli::EndianSlice::new(&bytes, RunTimeEndian::Little);
        assert_eq!(ours.read_u32(), Reader::read_u32(&mut theirs));
        assert_eq!(ours.find(9), Ok(5));
        assert_eq!(ours.split(5).map(|part| part.bytes().to_vec()), Ok(vec![4, 5, 6, 7, 8]));
        assert_eq!(Reader::skip(&mut theirs, 5), Ok(()));
        assert_eq!((ours.read_u64(), ours.len()), (Reader::read_u64(&mut theirs), Reader::len(&theirs)));
        assert_eq!((ours.skip(239), ours.read_uleb128()), (Ok(()), Ok(128)));
        assert!(ours.skip(3).is_err() && ours.truncate(3).is_err() && ours.find(7).is_err());
        assert_eq!((ours.truncate(1), ours.to_string_lossy().as_deref()), (Ok(()), Ok("\0")));
        ours.empty();
        assert!(ours.read_u8().is_err() && !ours.section.meter.is_empty());
    }

    #[test]
    fn nothing_is_read_beyond_the_budget() {
        let mut reader = reader(&[7; 100], 10);
        let steps = (0..100).take_while(|_| reader.read_u8().is_ok()).count();
        assert!(steps == 10 && reader.section.meter.is_empty());
        assert!(reader.to_slice().is_err());
    }

    #[test]
    fn nothing_is_read_deep_in_the_stack() {
        #[inline(never)]
        fn nested(reader: &mut Metered, left: u32) -> u32 {
            let ballast = std::hint::black_box([left; 256]);
            match reader.read_u8() {
                Ok(_) if left > 0 => nested(reader, left - 1),
                _ => ballast[0],
            }
        }
        let mut reader = reader(&[0; 10_000], 10_000);
        let left = nested(&mut reader, 1000);
        assert!((1..900).contains(&left) && reader.section.meter.is_empty(), "{left}");
    }

    #[test]
    fn long_strings_are_refused() {
        assert!(reader(&[b'a'; MAX_TEXT_BYTES], 1 << 20).to_string_lossy().is_ok());
        assert!(reader(&[b'a'; MAX_TEXT_BYTES + 1], 1 << 20).to_string_lossy().is_err());
    }
}
