//! The memory of an interpreted program.
//!
//! In: the bytes of each region. Out: loads and stores.
//! Guarantee: every access lies in one region, and a stack access is aligned to its size.

use profiler_compiler::ir::Size;

use super::Fault;

/// Stack size of a function, in bytes.
const STACK_BYTES: usize = 512;
/// The reach of an instruction's 16-bit offset, in bytes.
const MAX_OFFSET: u64 = 1 << 15;
/// Distance between regions, so that no offset leads from one into another.
const REGION_DISTANCE: u64 = 1 << 40;
/// The value of bytes that were never written.
const NONSENSE: u8 = 0xa5;
/// The value of a clobbered register.
pub(super) const SPOILED: u64 = 0xdead_dead_dead_dead;

/// The memory that a program can access, in separate regions.
#[derive(Debug, Clone)]
pub struct Memory {
    regions: Vec<Vec<u8>>,
    /// The stack regions of subprograms by call depth, created on first use.
    stacks: Vec<usize>,
}

impl Memory {
    const STACK: usize = 0;
    pub(super) const CONTEXT: usize = 1;
    pub(super) const RODATA: usize = 2;
    pub(super) const BSS: usize = 3;

    /// A stack of garbage, a context, and the two data sections.
    pub fn new(context: Vec<u8>, rodata: Vec<u8>, bss: Vec<u8>) -> Memory {
        Memory { regions: vec![vec![NONSENSE; STACK_BYTES], context, rodata, bss], stacks: vec![Memory::STACK] }
    }

    /// Adds a region (a map value, a ring buffer record) and returns its address.
    pub fn add(&mut self, bytes: Vec<u8>) -> u64 {
        self.regions.push(bytes);
        Memory::base(self.regions.len() - 1)
    }

    /// The bytes of the `.bss` section.
    pub fn bss(&self) -> &[u8] {
        &self.regions[Memory::BSS]
    }

    /// The bytes of the `.bss` section, mutable.
    pub fn bss_mut(&mut self) -> &mut [u8] {
        &mut self.regions[Memory::BSS]
    }

    /// Prepares for the next program: fills the stack with garbage and replaces the context;
    /// everything else stays.
    pub fn enter(&mut self, context: Vec<u8>) {
        self.regions[Memory::STACK] = vec![NONSENSE; STACK_BYTES];
        self.regions[Memory::CONTEXT] = context;
    }

    pub(super) fn base(region: usize) -> u64 {
        (region as u64 + 1) * REGION_DISTANCE
    }

    /// The bytes at an address.
    pub fn bytes(&self, address: u64, length: usize) -> Result<&[u8], Fault> {
        let fault = Fault::OutOfBounds { address };
        let region = (address / REGION_DISTANCE).checked_sub(1).ok_or(fault)? as usize;
        let at = (address % REGION_DISTANCE) as usize;
        self.regions.get(region).and_then(|bytes| bytes.get(at..at + length)).ok_or(fault)
    }

    /// The bytes at an address, mutable.
    pub fn bytes_mut(&mut self, address: u64, length: usize) -> Result<&mut [u8], Fault> {
        let fault = Fault::OutOfBounds { address };
        let region = (address / REGION_DISTANCE).checked_sub(1).ok_or(fault)? as usize;
        let at = (address % REGION_DISTANCE) as usize;
        self.regions.get_mut(region).and_then(|bytes| bytes.get_mut(at..at + length)).ok_or(fault)
    }

    /// The end of the stack for a function at that call depth; fills the stack with garbage.
    pub(super) fn stack_at(&mut self, depth: usize) -> u64 {
        while self.stacks.len() <= depth {
            self.regions.push(vec![NONSENSE; STACK_BYTES]);
            self.stacks.push(self.regions.len() - 1);
        }
        let region = self.stacks[depth];
        self.regions[region].fill(NONSENSE);
        Memory::base(region) + STACK_BYTES as u64
    }

    fn check_alignment(&self, address: u64, size: Size) -> Result<(), Fault> {
        let is_stack = self.stacks.iter().any(|region| address / REGION_DISTANCE == *region as u64 + 1);
        if is_stack && !address.is_multiple_of(u64::from(size.bytes())) {
            return Err(Fault::Misaligned { address });
        }
        Ok(())
    }

    pub(super) fn load(&self, address: u64, size: Size) -> Result<u64, Fault> {
        self.check_alignment(address, size)?;
        let mut word = [0; 8];
        let length = size.bytes() as usize;
        word[..length].copy_from_slice(self.bytes(address, length)?);
        Ok(u64::from_le_bytes(word))
    }

    /// Loads memory that kernel types describe; 0 if there is none. An address near the value of a
    /// clobbered register is still a fault.
    pub(super) fn peek(&self, address: u64, size: Size) -> Result<u64, Fault> {
        match self.load(address, size) {
            Err(fault @ Fault::OutOfBounds { address }) if address.abs_diff(SPOILED) <= MAX_OFFSET => Err(fault),
            Err(Fault::OutOfBounds { .. }) => Ok(0),
            result => result,
        }
    }

    pub(super) fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        self.check_alignment(address, size)?;
        let length = size.bytes() as usize;
        self.bytes_mut(address, length)?.copy_from_slice(&value.to_le_bytes()[..length]);
        Ok(())
    }
}
