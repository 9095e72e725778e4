//! Stack frame layout.
//!
//! In: a function. Out: each slot's offset from the frame pointer.
//! Guarantees: slots that may be live at the same time do not overlap (`overlap` finds them), each
//! slot has its requested alignment, and the frame size is a multiple of 8.

use std::ops::Range;

use super::overlap::{Access, Block, Conflicts};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Addr, Arg, Base, Function, Helper, Inst, Operand, SlotId, Terminator};
use crate::source::Span;

/// The kernel's stack limit for a program.
pub(super) const STACK_LIMIT_BYTES: u32 = 512;

/// The positions of a function's slots.
pub(super) struct Frame {
    offsets: Vec<i32>,
    /// Frame size in bytes.
    pub size_bytes: u32,
}

/// The bytes of a slot, as distances down from the frame pointer: `above..below`.
struct Placed {
    above: u64,
    below: u64,
    slot: usize,
}

impl Frame {
    /// Places the slots below the frame pointer, in order of decreasing alignment and size.
    pub(super) fn new(function: &Function) -> Frame {
        let conflicts = Conflicts::of(function.slots.len(), &blocks(function));
        let mut order: Vec<usize> = (0..function.slots.len()).filter(|index| conflicts.is_used(*index)).collect();
        order.sort_by_key(|index| {
            let slot = &function.slots[*index];
            std::cmp::Reverse((slot.align_bytes, slot.size_bytes))
        });
        let mut offsets = vec![0; function.slots.len()];
        let mut placed: Vec<Placed> = Vec::new();
        for index in order {
            let slot = &function.slots[index];
            let (size, align) = (u64::from(slot.size_bytes), u64::from(slot.align_bytes.max(1)));
            let place = place(&placed, size, align, |other| conflicts.between(index, other));
            let place = Placed { slot: index, ..place };
            offsets[index] = i32::try_from(place.below).map_or(i32::MIN, |below| -below);
            placed.push(place);
        }
        let used = placed.iter().map(|place| place.below).max().unwrap_or(0).next_multiple_of(8);
        Frame { offsets, size_bytes: u32::try_from(used).unwrap_or(u32::MAX) }
    }

    /// The offset of the slot's first byte from the frame pointer.
    pub(super) fn offset(&self, slot: SlotId) -> i32 {
        self.offsets[slot.0 as usize]
    }
}

/// The position closest to the frame pointer that no slot in conflict has.
fn place(placed: &[Placed], size: u64, align: u64, is_in_conflict: impl Fn(usize) -> bool) -> Placed {
    let mut start = 0;
    loop {
        let below = (start + size).next_multiple_of(align);
        let above = below - size;
        let taken = placed.iter().find(|p| p.above < below && above < p.below && is_in_conflict(p.slot));
        match taken {
            Some(taken) => start = taken.below,
            None => return Placed { above, below, slot: 0 },
        }
    }
}

/// How an instruction mentions a slot.
#[derive(Debug, Clone)]
struct Mention {
    slot: usize,
    /// The bytes that it may access.
    bytes: Range<i64>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reads,
    Writes,
    Escapes,
}

/// What the function does with its slots.
fn blocks(function: &Function) -> Vec<Block> {
    let mentioned = |insts: &[(Inst, Span)]| -> Vec<Vec<Mention>> {
        insts.iter().map(|(inst, _)| mentions(function, inst)).filter(|found| !found.is_empty()).collect()
    };
    let all: Vec<Vec<Vec<Mention>>> = function.blocks.iter().map(|block| mentioned(&block.insts)).collect();
    let mut extents: Vec<Option<Range<i64>>> = vec![None; function.slots.len()];
    for Mention { slot, bytes, .. } in all.iter().flatten().flatten() {
        let extent = extents[*slot].get_or_insert(bytes.clone());
        *extent = extent.start.min(bytes.start)..extent.end.max(bytes.end);
    }
    let access = |mention: &Mention| match (mention.kind, &extents[mention.slot]) {
        (Kind::Escapes, _) => Access::Escapes,
        (Kind::Writes, Some(extent)) if *extent == mention.bytes => Access::Replaces,
        (Kind::Writes, _) => Access::Changes,
        (Kind::Reads, _) => Access::Reads,
    };
    let steps = |found: &[Vec<Mention>]| {
        found.iter().map(|step| step.iter().map(|it| (it.slot, access(it))).collect()).collect()
    };
    all.iter()
        .zip(&function.blocks)
        .map(|(found, block)| Block { steps: steps(found), successors: successors(&block.end) })
        .collect()
}

fn successors(end: &Terminator) -> Vec<usize> {
    match end {
        Terminator::Jump(to) => vec![to.0 as usize],
        Terminator::Branch { then, otherwise, .. } => vec![then.0 as usize, otherwise.0 as usize],
        Terminator::Return(_) => Vec::new(),
    }
}

fn mentions(function: &Function, inst: &Inst) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut see = |addr: Addr, size_bytes: u32, kind| {
        if let Base::Slot(slot) = addr.base {
            let start = i64::from(addr.offset);
            found.push(Mention { slot: slot.0 as usize, bytes: start..start + i64::from(size_bytes), kind });
        }
    };
    match inst {
        Inst::Load { addr, size, .. } | Inst::Atomic { addr, size, .. } => see(*addr, size.bytes(), Kind::Reads),
        Inst::Store { addr, size, .. } => see(*addr, size.bytes(), Kind::Writes),
        Inst::Zero { addr, size_bytes } => see(*addr, *size_bytes, Kind::Writes),
        Inst::Exchange { addr, .. } | Inst::CompareExchange { addr, .. } => see(*addr, 8, Kind::Reads),
        Inst::Move { to, from, size_bytes, .. } => {
            see(*to, *size_bytes, Kind::Writes);
            see(*from, *size_bytes, Kind::Reads);
        }
        Inst::SlotAddr { slot, .. } => found.push(whole(function, *slot, Kind::Escapes)),
        Inst::Call { helper, args, .. } => found = of_call(function, *helper, args),
        Inst::Copy { .. }
        | Inst::Bin { .. }
        | Inst::Set { .. }
        | Inst::Extend { .. }
        | Inst::Swap { .. }
        | Inst::Clamp { .. }
        | Inst::Peek { .. }
        | Inst::Context { .. }
        | Inst::Parameter { .. }
        | Inst::DataAddr { .. } => {}
    }
    found
}

fn whole(function: &Function, slot: SlotId, kind: Kind) -> Mention {
    let size_bytes = function.slots.get(slot.0 as usize).map_or(0, |slot| slot.size_bytes);
    Mention { slot: slot.0 as usize, bytes: 0..i64::from(size_bytes), kind }
}

/// A helper may read and write what it is given. A read of memory writes all bytes of its
/// destination, zeroes if it fails, and does not read them.
fn of_call(function: &Function, helper: Helper, args: &[Arg]) -> Vec<Mention> {
    let is_read_of_memory = matches!(helper, Helper::ProbeReadKernel | Helper::ProbeReadUser);
    if let (true, [Arg::Slot(slot, offset), Arg::Value(Operand::Imm(size_bytes)), Arg::Value(_)]) =
        (is_read_of_memory, args)
    {
        let start = i64::from(*offset);
        return vec![Mention { slot: slot.0 as usize, bytes: start..start + *size_bytes, kind: Kind::Writes }];
    }
    let slot = |arg: &Arg| match arg {
        Arg::Slot(slot, _) => Some(whole(function, *slot, Kind::Reads)),
        _ => None,
    };
    args.iter().filter_map(slot).collect()
}

/// Checks a frame against the kernel's limit.
pub(super) fn check(size_bytes: u32, span: Span) -> Result<(), Diagnostic> {
    if size_bytes <= STACK_LIMIT_BYTES {
        return Ok(());
    }
    let message = format!("this probe needs {size_bytes} bytes of stack, the kernel gives {STACK_LIMIT_BYTES}");
    Err(Diagnostic::error(Code(511), span, message)
        .label("too many or too large values are held at the same time")
        .help("use shorter strings (`str(x, 64)`), fewer map key parts, or split the block into several probes"))
}
