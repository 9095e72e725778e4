//! Memory of the program being lowered: stack slots and scratch memory.
//!
//! In: sizes. Out: stack slots, offsets in scratch memory.
//! Guarantee: an allocation is large enough, aligned to 8 bytes and private to the program. Small
//! objects are on the BPF stack. Large ones are in the scratch memory of this program and CPU,
//! which no other run of it uses at the same time.

use crate::ir::build::FunctionBuilder;
use crate::ir::{SlotId, VReg};
use crate::lower::captures::Captures;

/// Maximum size of an object on the BPF stack.
const MAX_STACK_OBJECT_BYTES: u32 = 64;

const WORD_BYTES: u32 = 8;

/// Minimum size of an object in scratch memory.
pub(super) const FIRST_SCRATCH_BYTES: u32 = MAX_STACK_OBJECT_BYTES + 8;

/// The part of the 512-byte stack that objects may use; the rest is for spilled registers.
const MAX_STACK_OBJECTS_BYTES: u32 = 320;

/// The same limit in programs that capture stacks: the functions that store stacks need 32 bytes of
/// the rest, as the kernel counts stack use.
const MAX_STACK_OBJECTS_BESIDE_STACKS_BYTES: u32 = 192;

/// Scratch frames per CPU of a program that can be preempted.
pub(super) const SHARED_FRAMES: u32 = 4;
/// The frame number is masked, so this must be a power of two.
const _: () = assert!(SHARED_FRAMES.is_power_of_two());

/// The part of a function's stack that objects may use. Loops are separate functions that share
/// the stack with their callers; so are the functions that store stacks.
pub(super) fn stack_objects_bytes(captures: &Captures) -> u32 {
    match captures.depth() {
        0 if captures.has_stacks() => MAX_STACK_OBJECTS_BESIDE_STACKS_BYTES,
        0 => MAX_STACK_OBJECTS_BYTES,
        1 => 96,
        2 => 48,
        _ => 0,
    }
}

/// The stack slots of a function. Code for different generations of maps shares them, because only
/// one of its versions runs.
#[derive(Debug, Default)]
pub(super) struct Stack {
    used_bytes: u32,
    /// Whether these include the bytes that all brief words share.
    has_brief: bool,
    /// Sizes and slots, in the order of allocation; `None` is the size of a brief word.
    slots: Vec<(Option<u32>, SlotId)>,
    /// The next slot that the version being lowered may reuse.
    next: usize,
}

impl Stack {
    /// A slot of `size_bytes`, a multiple of 8: one that another version has allocated at about the
    /// same point of the code, or a new one. `None` if the object belongs in scratch memory,
    /// because it is large or the function's objects have reached `most_bytes`.
    pub(super) fn slot(
        &mut self,
        b: &mut FunctionBuilder,
        size_bytes: u32,
        most_bytes: u32,
        name: &'static str,
    ) -> Option<SlotId> {
        if let Some(slot) = self.allocated(Some(size_bytes)) {
            return Some(slot);
        }
        if size_bytes > MAX_STACK_OBJECT_BYTES || self.used_bytes + size_bytes > most_bytes {
            return None;
        }
        self.used_bytes += size_bytes;
        Some(self.allocate(b, Some(size_bytes), name))
    }

    /// A slot of 8 bytes whose contents are read a few instructions after they are written, and
    /// never again. The emitted frame lets all of them share 8 bytes, so no more are counted.
    pub(super) fn brief_word(
        &mut self,
        b: &mut FunctionBuilder,
        most_bytes: u32,
        name: &'static str,
    ) -> Option<SlotId> {
        if let Some(slot) = self.allocated(None) {
            return Some(slot);
        }
        if !self.has_brief {
            if self.used_bytes + WORD_BYTES > most_bytes {
                return None;
            }
            self.used_bytes += WORD_BYTES;
            self.has_brief = true;
        }
        Some(self.allocate(b, None, name))
    }

    /// The slot that another version has allocated here, if it is like the one that is wanted.
    fn allocated(&mut self, like: Option<u32>) -> Option<SlotId> {
        let (_, slot) = self.slots.get(self.next).filter(|(size_bytes, _)| *size_bytes == like)?;
        self.next += 1;
        Some(*slot)
    }

    fn allocate(&mut self, b: &mut FunctionBuilder, size_bytes: Option<u32>, name: &'static str) -> SlotId {
        let slot = b.slot(size_bytes.unwrap_or(WORD_BYTES), 8, name);
        if self.next == self.slots.len() {
            self.slots.push((size_bytes, slot));
            self.next += 1;
        }
        slot
    }

    /// The number of slots allocated so far.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Begins another version of the code after the first `len` slots.
    pub(super) fn rewind(&mut self, len: usize) {
        self.next = len;
    }
}

/// The scratch memory of a program: one area for all its functions.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub used_bytes: u32,
    /// The flag of the shared scratch frame that this run has acquired.
    pub claimed: Option<VReg>,
    /// Offset of the flag that a block of a shared program has called `exit`.
    pub exit_flag: Option<i32>,
}

impl Scratch {
    /// Reserves memory; returns its offset.
    pub(super) fn reserve(&mut self, size_bytes: u32) -> i32 {
        let offset = self.used_bytes;
        self.used_bytes += size_bytes.max(1).next_multiple_of(8);
        offset as i32
    }
}
