//! The stack frame.
//!
//! In: a function's slots. Out: each slot's offset from the frame pointer.
//! Guarantees: slots do not overlap, each is aligned as it asks, and the bytes used are a multiple of 8.

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Slot, SlotId};
use crate::source::Span;

/// What the kernel gives a program.
pub const STACK_LIMIT_BYTES: u32 = 512;

/// Where a function's slots lie.
pub struct Frame {
    offsets: Vec<i32>,
    /// Bytes in use.
    pub size_bytes: u32,
}

impl Frame {
    /// Lays the slots out below the frame pointer, most aligned first so that little is lost to padding.
    pub fn new(slots: &[Slot]) -> Frame {
        let mut order: Vec<usize> = (0..slots.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(slots[*index].align_bytes));
        let mut offsets = vec![0; slots.len()];
        let mut used = 0_u32;
        for index in order {
            let slot = &slots[index];
            used = used
                .saturating_add(slot.size_bytes)
                .checked_next_multiple_of(slot.align_bytes.max(1))
                .unwrap_or(u32::MAX);
            offsets[index] = (used as i32).wrapping_neg();
        }
        Frame { offsets, size_bytes: used.checked_next_multiple_of(8).unwrap_or(u32::MAX) }
    }

    /// The slot's first byte, relative to the frame pointer.
    pub fn offset(&self, slot: SlotId) -> i32 {
        self.offsets[slot.0 as usize]
    }
}

/// Checks a frame against the kernel's limit.
pub fn check(size_bytes: u32, span: Span) -> Result<(), Diagnostic> {
    if size_bytes <= STACK_LIMIT_BYTES {
        return Ok(());
    }
    let message = format!("this probe needs {size_bytes} bytes of stack, the kernel gives {STACK_LIMIT_BYTES}");
    Err(Diagnostic::error(Code(511), span, message)
        .label("too many or too large values are held at the same time")
        .help("use shorter strings (`str(x, 64)`), fewer map key parts, or split the block into several probes"))
}
