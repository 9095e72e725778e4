//! Memory as bounds-checked regions that track which bytes were written.
//!
//! In: addresses. Out: bytes, or a fault. Guarantees: an address contains its region's id in its
//! upper half, so it can be stored and loaded as a number. Arithmetic cannot lead from one region
//! into another undetected. Region ids are never reused, so a stale address is detected.

use super::Fault;
use profiler_compiler::ir::Size;

/// The upper bits of every address in this memory; Linux uses no such addresses.
const TAG: u64 = 0xebf0 << 48;
/// An address is the tag, 24 bits of region and 24 bits of offset.
const OFFSET_BITS: u32 = 24;
const NUMBER_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// The value of bytes that were never written.
const GARBAGE: u8 = 0xa5;

/// A region's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RegionId(u32);

/// The access rules of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// A stack object; accesses are naturally aligned.
    Slot { align_bytes: u32 },
    /// Readable and writable.
    Data,
    /// Read-only.
    ReadOnly,
}

/// The address space that the probe-read helpers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Kernel memory, which includes maps, stack and data.
    Kernel,
    /// Memory of the current process.
    User,
}

/// Bytes, and for each whether it was written. Copies preserve undefined bytes; computing with them
/// is a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bytes {
    pub value: Vec<u8>,
    pub defined: Vec<bool>,
}

impl Bytes {
    /// Bytes with known values.
    pub(super) fn defined(value: Vec<u8>) -> Bytes {
        Bytes { defined: vec![true; value.len()], value }
    }

    /// Zeros, all defined.
    pub(super) fn zeroed(size_bytes: usize) -> Bytes {
        Bytes::defined(vec![0; size_bytes])
    }

    /// Bytes that were never written.
    pub(super) fn undefined(size_bytes: usize) -> Bytes {
        Bytes { value: vec![GARBAGE; size_bytes], defined: vec![false; size_bytes] }
    }

    /// Whether every byte was written.
    pub(super) fn is_defined(&self) -> bool {
        self.defined.iter().all(|d| *d)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Region {
    pub kind: Access,
    pub bytes: Bytes,
    /// Whether programs can still access the region.
    pub live: bool,
}

/// All regions, and memory that belongs to no program (foreign memory).
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    regions: Vec<Region>,
    foreign: Vec<(Space, u64, Vec<u8>)>,
}

impl Memory {
    /// Adds a region.
    pub(super) fn add(&mut self, kind: Access, bytes: Bytes) -> RegionId {
        self.regions.push(Region { kind, bytes, live: true });
        RegionId(self.regions.len() as u32 - 1)
    }

    /// Adds memory outside the program, for probe reads.
    pub(super) fn add_foreign(&mut self, space: Space, address: u64, bytes: Vec<u8>) {
        self.foreign.push((space, address, bytes));
    }

    /// The region of an id.
    pub(super) fn region(&self, id: RegionId) -> &Region {
        &self.regions[id.0 as usize]
    }

    /// The region of an id, mutable.
    pub(super) fn region_mut(&mut self, id: RegionId) -> &mut Region {
        &mut self.regions[id.0 as usize]
    }

    /// Makes a region inaccessible, but keeps its bytes.
    pub(super) fn close(&mut self, id: RegionId) {
        self.region_mut(id).live = false;
    }

    /// Makes a region inaccessible and frees its bytes.
    pub(super) fn release(&mut self, id: RegionId) {
        let region = self.region_mut(id);
        region.live = false;
        region.bytes = Bytes::undefined(0);
    }

    /// The address of an offset in a region.
    pub(super) fn address(id: RegionId, offset: i32) -> u64 {
        // Region 0 does not start at the tag itself, so that a small negative offset reaches no
        // other region.
        let start = TAG | (u64::from(id.0) + 1) << OFFSET_BITS;
        start.wrapping_add(offset as u64)
    }

    /// The live region that starts at the address.
    pub(super) fn starting_at(&self, address: u64) -> Option<RegionId> {
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

    /// The bytes at an address, and which of them are defined.
    pub(super) fn read(&self, address: u64, size_bytes: usize) -> Result<Bytes, Fault> {
        let (id, offset) = self.locate(address, size_bytes)?;
        let bytes = &self.region(id).bytes;
        let range = offset..offset + size_bytes;
        Ok(Bytes { value: bytes.value[range.clone()].to_vec(), defined: bytes.defined[range].to_vec() })
    }

    /// The bytes at an address; all of them must be defined.
    pub(super) fn read_defined(&self, address: u64, size_bytes: usize) -> Result<Vec<u8>, Fault> {
        let bytes = self.read(address, size_bytes)?;
        if bytes.is_defined() { Ok(bytes.value) } else { Err(Fault::Undefined(address)) }
    }

    /// Writes bytes; both their values and whether they are defined.
    pub(super) fn write(&mut self, address: u64, bytes: &Bytes) -> Result<(), Fault> {
        let (id, offset) = self.locate(address, bytes.value.len())?;
        let region = self.region_mut(id);
        if region.kind == Access::ReadOnly {
            return Err(Fault::ReadOnly(address));
        }
        let range = offset..offset + bytes.value.len();
        region.bytes.value[range.clone()].copy_from_slice(&bytes.value);
        region.bytes.defined[range].copy_from_slice(&bytes.defined);
        Ok(())
    }

    /// Loads a number. Memory that kernel types describe (a task) can also be loaded directly:
    /// foreign kernel memory, if it was added.
    pub(super) fn load(&self, address: u64, size: Size) -> Result<u64, Fault> {
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

    /// Loads a number from kernel memory; 0 if there is none at the address.
    pub(super) fn peek(&self, address: u64, size: Size) -> u64 {
        let bytes = self.probe(Space::Kernel, address, size.bytes() as usize);
        let mut value = [0; 8];
        if bytes.len() == size.bytes() as usize {
            value[..bytes.len()].copy_from_slice(&bytes);
        }
        u64::from_le_bytes(value)
    }

    /// Stores the low bytes of a number.
    pub(super) fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        self.check_alignment(address, size)?;
        let bytes = value.to_le_bytes()[..size.bytes() as usize].to_vec();
        self.write(address, &Bytes::defined(bytes))
    }

    /// Verifier: it requires natural alignment on the stack, on every architecture.
    fn check_alignment(&self, address: u64, size: Size) -> Result<(), Fault> {
        let (id, offset) = self.locate(address, size.bytes() as usize)?;
        match self.region(id).kind {
            Access::Slot { align_bytes } if align_bytes < size.bytes() || offset % size.bytes() as usize != 0 => {
                Err(Fault::Misaligned(address))
            }
            _ => Ok(()),
        }
    }

    /// The readable prefix of the wanted bytes at an address, as the probe-read helpers see them.
    pub(super) fn probe(&self, space: Space, address: u64, size_bytes: usize) -> Vec<u8> {
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
