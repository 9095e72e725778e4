//! Stack frame layout.
//!
//! In: a function. Out: each slot's offset from the frame pointer.
//! Guarantees: slots that may be live at the same time do not overlap, each slot has its requested
//! alignment, and the frame size is a multiple of 8.
//!
//! Two slots share bytes when the last mention of one comes before the first mention of the other.
//! This order exists only without loops: then every path visits blocks in one topological order. A
//! slot whose address is taken is live to the end.

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Addr, Arg, Base, Function, Inst, SlotId, Terminator};
use crate::source::Span;

/// The kernel's stack limit for a program.
pub(super) const STACK_LIMIT_BYTES: u32 = 512;

/// The positions of a function's slots.
pub(super) struct Frame {
    offsets: Vec<i32>,
    /// Frame size in bytes.
    pub size_bytes: u32,
}

/// The first and last mention of a slot, in block order; `first > last` when there is none.
#[derive(Clone, Copy)]
struct Mentions {
    first: u32,
    last: u32,
}

/// The bytes of a slot, as distances down from the frame pointer: `above..below`.
struct Placed {
    above: u64,
    below: u64,
    mentions: Mentions,
}

impl Frame {
    /// Places the slots below the frame pointer, in order of decreasing alignment and size.
    pub(super) fn new(function: &Function) -> Frame {
        let mentions = mentions(function);
        let mut order: Vec<usize> = (0..function.slots.len()).filter(|index| mentions[*index].exist()).collect();
        order.sort_by_key(|index| {
            let slot = &function.slots[*index];
            std::cmp::Reverse((slot.align_bytes, slot.size_bytes))
        });
        let mut offsets = vec![0; function.slots.len()];
        let mut placed: Vec<Placed> = Vec::new();
        for index in order {
            let slot = &function.slots[index];
            let (size, align) = (u64::from(slot.size_bytes), u64::from(slot.align_bytes.max(1)));
            let place = place(&placed, size, align, mentions[index]);
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

impl Mentions {
    const NONE: Mentions = Mentions { first: u32::MAX, last: 0 };

    fn exist(self) -> bool {
        self.first <= self.last
    }

    fn overlap(self, other: Mentions) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The position closest to the frame pointer that is free while the slot is live.
fn place(placed: &[Placed], size: u64, align: u64, mentions: Mentions) -> Placed {
    let mut start = 0;
    loop {
        let below = (start + size).next_multiple_of(align);
        let above = below - size;
        let taken = placed.iter().find(|p| p.mentions.overlap(mentions) && p.above < below && above < p.below);
        match taken {
            Some(taken) => start = taken.below,
            None => return Placed { above, below, mentions },
        }
    }
}

fn mentions(function: &Function) -> Vec<Mentions> {
    let mut found = vec![Mentions::NONE; function.slots.len()];
    let (order, has_loop) = block_order(function);
    let mut position = 0;
    for index in order {
        for (inst, _) in &function.blocks[index].insts {
            position += 1;
            each_slot(inst, |slot, address_is_taken| {
                let mentions = &mut found[slot.0 as usize];
                mentions.first = mentions.first.min(if has_loop { 0 } else { position });
                mentions.last = if address_is_taken || has_loop { u32::MAX } else { mentions.last.max(position) };
            });
        }
    }
    found
}

/// The reachable blocks in reverse postorder, and whether there is a back edge.
fn block_order(function: &Function) -> (Vec<usize>, bool) {
    let mut order = Vec::new();
    let mut seen = vec![false; function.blocks.len()];
    let mut stack = vec![(0, 0)];
    seen[0] = true;
    while let Some((index, next)) = stack.last_mut() {
        let successor = successors(&function.blocks[*index].end).into_iter().flatten().nth(*next);
        *next += 1;
        match successor {
            Some(successor) if !seen[successor] => {
                seen[successor] = true;
                stack.push((successor, 0));
            }
            Some(_) => {}
            None => {
                order.push(*index);
                stack.pop();
            }
        }
    }
    order.reverse();
    let mut position = vec![0; function.blocks.len()];
    for (at, index) in order.iter().enumerate() {
        position[*index] = at;
    }
    let leads_back = |index: &usize| {
        successors(&function.blocks[*index].end).into_iter().flatten().any(|next| position[next] <= position[*index])
    };
    let has_loop = order.iter().any(leads_back);
    (order, has_loop)
}

fn successors(end: &Terminator) -> [Option<usize>; 2] {
    match end {
        Terminator::Jump(to) => [Some(to.0 as usize), None],
        Terminator::Branch { then, otherwise, .. } => [Some(then.0 as usize), Some(otherwise.0 as usize)],
        Terminator::Return(_) => [None, None],
    }
}

/// Calls `visit` for each slot that an instruction mentions, with whether the instruction takes the
/// slot's address.
fn each_slot(inst: &Inst, mut visit: impl FnMut(SlotId, bool)) {
    let mut memory = |addr: Addr| {
        if let Base::Slot(slot) = addr.base {
            visit(slot, false);
        }
    };
    match inst {
        Inst::Load { addr, .. }
        | Inst::Store { addr, .. }
        | Inst::Zero { addr, .. }
        | Inst::Atomic { addr, .. }
        | Inst::Exchange { addr, .. }
        | Inst::CompareExchange { addr, .. } => memory(*addr),
        Inst::Move { to, from, .. } => {
            memory(*to);
            memory(*from);
        }
        Inst::SlotAddr { slot, .. } => visit(*slot, true),
        Inst::Call { args, .. } => {
            for arg in args {
                if let Arg::Slot(slot, _) = arg {
                    visit(*slot, false);
                }
            }
        }
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
