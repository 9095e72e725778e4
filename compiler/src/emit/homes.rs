//! Lets spilled registers share stack.
//!
//! In: a machine function after register allocation, whose frame has homes of 8 bytes for spilled
//! registers after the script's values. Out: the same function with the homes moved together.
//! Guarantee: homes that hold values at the same time do not overlap, so each reload sees what was
//! spilled. Allocation spills in rounds, and the homes of a round are chosen without knowledge of
//! the others'.

use super::machine::{Function, Op, Reg};
use super::overlap::{Access, Block, Conflicts};

const HOME_BYTES: u32 = 8;

/// Moves the homes after the first `values_bytes` of the frame, a multiple of 8, together.
pub(super) fn share(function: &mut Function, values_bytes: u32) {
    let count = (function.frame_bytes.saturating_sub(values_bytes) / HOME_BYTES) as usize;
    // A frame with offsets beyond 16 bits is rejected for its size.
    if count < 2 || i16::try_from(function.frame_bytes).is_err() {
        return;
    }
    let blocks: Vec<Block> = function
        .blocks
        .iter()
        .map(|block| Block {
            steps: block.ops.iter().filter_map(|(op, _)| access(op, values_bytes)).map(|it| vec![it]).collect(),
            successors: block.end.successors().collect(),
        })
        .collect();
    let conflicts = Conflicts::of(count, &blocks);
    let mut moved: Vec<usize> = Vec::with_capacity(count);
    for home in 0..count {
        let is_free = |place: &usize| (0..home).all(|it| moved[it] != *place || !conflicts.between(it, home));
        moved.push((0..home).find(is_free).unwrap_or(home));
    }
    let places = (0..count).filter(|home| conflicts.is_used(*home)).map(|home| moved[home] + 1).max().unwrap_or(0);
    for (op, _) in function.blocks.iter_mut().flat_map(|block| &mut block.ops) {
        let Some((home, _)) = access(op, values_bytes) else { continue };
        if let (Op::Load { offset, .. } | Op::Store { offset, .. }, Some(to)) = (op, moved.get(home)) {
            *offset = -((values_bytes + HOME_BYTES * (*to as u32 + 1)) as i16);
        }
    }
    function.frame_bytes = values_bytes + HOME_BYTES * places as u32;
}

/// The home that an operation reads or replaces.
fn access(op: &Op, values_bytes: u32) -> Option<(usize, Access)> {
    let (offset, access) = match *op {
        Op::Load { base: Reg::FRAME, offset, .. } => (offset, Access::Reads),
        Op::Store { base: Reg::FRAME, offset, .. } => (offset, Access::Replaces),
        _ => return None,
    };
    let below = u32::from(offset.unsigned_abs()).checked_sub(values_bytes).filter(|_| offset < 0)?;
    Some(((below / HOME_BYTES).checked_sub(1)? as usize, access))
}
