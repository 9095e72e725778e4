//! Memory as regions that know their bounds, and which of their bytes were written.
//!
//! In: addresses. Out: bytes, or a fault. Guarantees: an address names its region in its upper half, so that it can be
//! stored and loaded as a number; no arithmetic leads from one region into another unnoticed; a region's number is
//! never used again, so that a stale address is found.

use super::Fault;
use crate::ir::Size;

/// The upper bits of every address in here: none that Linux hands out.
const TAG: u64 = 0xebf0 << 48;
/// An address is the tag, 24 bits of region and 24 bits of offset.
const OFFSET_BITS: u32 = 24;
const NUMBER_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// What bytes hold that nothing has written.
const GARBAGE: u8 = 0xa5;

/// A region's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RegionId(u32);

/// What a region is, as far as its rules go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A stack object; accesses are naturally aligned.
    Slot { align_bytes: u32 },
    /// May be written.
    Data,
    /// May not.
    ReadOnly,
}

/// Whose memory the probe-read helpers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// The kernel's, which is also where maps, stack and data are.
    Kernel,
    /// The current process's.
    User,
}

/// Bytes, and for each whether it was written. Copying carries undefined bytes along; computing with them is a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bytes {
    pub value: Vec<u8>,
    pub defined: Vec<bool>,
}

impl Bytes {
    pub fn defined(value: Vec<u8>) -> Bytes {
        Bytes { defined: vec![true; value.len()], value }
    }

    pub fn zeroed(size_bytes: usize) -> Bytes {
        Bytes::defined(vec![0; size_bytes])
    }

    pub fn undefined(size_bytes: usize) -> Bytes {
        Bytes { value: vec![GARBAGE; size_bytes], defined: vec![false; size_bytes] }
    }

    pub fn is_defined(&self) -> bool {
        self.defined.iter().all(|d| *d)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Region {
    pub kind: Kind,
    pub bytes: Bytes,
    /// Whether programs may still reach it.
    pub live: bool,
}

/// All regions, and memory that belongs to no program.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    regions: Vec<Region>,
    foreign: Vec<(Space, u64, Vec<u8>)>,
}

impl Memory {
    pub fn add(&mut self, kind: Kind, bytes: Bytes) -> RegionId {
        self.regions.push(Region { kind, bytes, live: true });
        RegionId(self.regions.len() as u32 - 1)
    }

    pub fn add_foreign(&mut self, space: Space, address: u64, bytes: Vec<u8>) {
        self.foreign.push((space, address, bytes));
    }

    pub fn region(&self, id: RegionId) -> &Region {
        &self.regions[id.0 as usize]
    }

    pub fn region_mut(&mut self, id: RegionId) -> &mut Region {
        &mut self.regions[id.0 as usize]
    }

    /// Ends a region's life, but keeps its bytes.
    pub fn close(&mut self, id: RegionId) {
        self.region_mut(id).live = false;
    }

    /// Ends a region's life and frees its bytes.
    pub fn release(&mut self, id: RegionId) {
        let region = self.region_mut(id);
        region.live = false;
        region.bytes = Bytes::undefined(0);
    }

    pub fn address(id: RegionId, offset: i32) -> u64 {
        // Region 0 is not at the tag's very start, so that a small negative offset is no other region's.
        let start = TAG | (u64::from(id.0) + 1) << OFFSET_BITS;
        start.wrapping_add(offset as u64)
    }

    /// The live region that the address is the start of.
    pub fn starting_at(&self, address: u64) -> Option<RegionId> {
        match self.locate(address, 0) {
            Ok((id, 0)) => Some(id),
            _ => None,
        }
    }

    fn locate(&self, address: u64, size_bytes: usize) -> Result<(RegionId, usize), Fault> {
        let bad = Fault::BadAddress(address);
        let number = address >> OFFSET_BITS & NUMBER_MASK;
        if address >> 48 != TAG >> 48 || number == 0 {
            return Err(bad);
        }
        let id = RegionId(number as u32 - 1);
        let offset = (address & NUMBER_MASK) as usize;
        match self.regions.get(id.0 as usize) {
            Some(region) if region.live && offset.saturating_add(size_bytes) <= region.bytes.value.len() => {
                Ok((id, offset))
            }
            _ => Err(bad),
        }
    }

    /// The bytes there, with what is known of them.
    pub fn read(&self, address: u64, size_bytes: usize) -> Result<Bytes, Fault> {
        let (id, offset) = self.locate(address, size_bytes)?;
        let bytes = &self.region(id).bytes;
        let range = offset..offset + size_bytes;
        Ok(Bytes { value: bytes.value[range.clone()].to_vec(), defined: bytes.defined[range].to_vec() })
    }

    /// The bytes there, all of which must have been written.
    pub fn read_defined(&self, address: u64, size_bytes: usize) -> Result<Vec<u8>, Fault> {
        let bytes = self.read(address, size_bytes)?;
        if bytes.is_defined() { Ok(bytes.value) } else { Err(Fault::Undefined(address)) }
    }

    pub fn write(&mut self, address: u64, bytes: &Bytes) -> Result<(), Fault> {
        let (id, offset) = self.locate(address, bytes.value.len())?;
        let region = self.region_mut(id);
        if region.kind == Kind::ReadOnly {
            return Err(Fault::ReadOnly(address));
        }
        let range = offset..offset + bytes.value.len();
        region.bytes.value[range.clone()].copy_from_slice(&bytes.value);
        region.bytes.defined[range].copy_from_slice(&bytes.defined);
        Ok(())
    }

    /// A number. What the kernel's types describe (a task) may be read directly, too: foreign memory of the kernel, where it is known.
    pub fn load(&self, address: u64, size: Size) -> Result<u64, Fault> {
        let wanted = size.bytes() as usize;
        let foreign = address >> 48 != TAG >> 48;
        let bytes = if foreign { self.probe(Space::Kernel, address, wanted) } else { Vec::new() };
        let bytes = if bytes.len() == wanted {
            bytes
        } else {
            self.check_alignment(address, size)?;
            self.read_defined(address, wanted)?
        };
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(&bytes);
        Ok(u64::from_le_bytes(value))
    }

    pub fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        self.check_alignment(address, size)?;
        let bytes = value.to_le_bytes()[..size.bytes() as usize].to_vec();
        self.write(address, &Bytes::defined(bytes))
    }

    /// Verifier: it demands natural alignment on the stack, on every architecture.
    fn check_alignment(&self, address: u64, size: Size) -> Result<(), Fault> {
        let (id, offset) = self.locate(address, size.bytes() as usize)?;
        match self.region(id).kind {
            Kind::Slot { align_bytes } if align_bytes < size.bytes() || offset % size.bytes() as usize != 0 => {
                Err(Fault::Misaligned(address))
            }
            _ => Ok(()),
        }
    }

    /// As many of the wanted bytes as can be read from the address on, as the probe-read helpers see them.
    pub fn probe(&self, space: Space, address: u64, size_bytes: usize) -> Vec<u8> {
        if let (Space::Kernel, Ok((id, offset))) = (space, self.locate(address, 0)) {
            let bytes = &self.region(id).bytes.value[offset..];
            return bytes[..size_bytes.min(bytes.len())].to_vec();
        }
        let found = self.foreign.iter().find_map(|(of, start, bytes)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            if *of == space && offset < bytes.len() { Some(&bytes[offset..]) } else { None }
        });
        found.map_or(Vec::new(), |bytes| bytes[..size_bytes.min(bytes.len())].to_vec())
    }
}
