//! The file that is mapped at an address of a process.
//!
//! In: an address, and the memory of the process. Out: the tables of the file, and the offset in
//! it.
//! Guarantee: the tables are those of the version of the file that the kernel has mapped, whatever
//! its path is. Nothing is locked: an area that changes meanwhile is none, or ends the stack.
//!
//! `bpf_find_vma` would hold the lock of the memory until interrupts are possible again, so a
//! program that runs in one could call it once.

use super::rows::bits;
use super::step::{Step, end_with};
use super::store;
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Size, VReg, Width};
use crate::lower::prologue::read_kernel_scalar;
use crate::lower::stacks::{WINDOW, WalkState};
use crate::lower::{Body, maps};
use crate::target::{AreaOffsets, TreeOffsets};
use crate::unwind::{End, FILE_KEY_BYTES};

/// Levels of the tree that are searched: enough for thousands of areas.
const LEVELS: usize = 5;
/// A node of the tree (`maple_node` in `include/linux/maple_tree.h`): its size, the place of its
/// type in its address, the first type that is no leaf, and the one that notes gaps.
const NODE_BYTES: i64 = 256;
const TYPE_SHIFT: i64 = 3;
const TYPE_MASK: i64 = 15;
const INNER: i64 = 2;
const WITH_GAPS: i64 = 3;
/// Pivots of a node that notes no gaps; in others, addresses of children follow, which are above
/// all addresses of processes.
const PIVOTS: i32 = 15;

/// Size of a page, as a shift.
const PAGE_SHIFT: i64 = 12;
/// Since 6.13: the highest bit of the nanoseconds says whether they have been read.
const NANOSECONDS: i64 = 0x7fff_ffff;

/// The value of the file at the step's address, and the offset there. Goes to `outside` if nothing
/// is mapped there; ends the stack if it is no file, or none with tables.
pub(super) fn file_at(
    cx: &mut Body<'_, '_>,
    step: &Step<'_>,
    offsets: AreaOffsets,
    memory: VReg,
    outside: BlockId,
) -> (VReg, VReg) {
    let [inside, own, found, none] = std::array::from_fn(|_| cx.b.new_block());
    let word = |cx: &mut Body<'_, '_>, base, offset: u32| read_kernel_scalar(cx, base, offset.into(), Size::B8);
    let area = area_at(cx, step, offsets.tree, memory);
    cx.b.branch(CmpOp::Eq, Width::W64, area, 0, outside, inside, Likely::Otherwise);
    cx.b.switch_to(inside);
    let owner = word(cx, area, offsets.memory);
    let (start, end) = (word(cx, area, offsets.start), word(cx, area, offsets.end));
    let distance = cx.b.bin(BinOp::Sub, Width::W64, step.at, start);
    let size = cx.b.bin(BinOp::Sub, Width::W64, end, start);
    let is_within = cx.b.set(CmpOp::Lt, Width::W64, distance, size);
    let is_own = cx.b.set(CmpOp::Eq, Width::W64, owner, memory);
    let both = cx.b.bin(BinOp::And, Width::W64, is_within, is_own);
    cx.b.branch(CmpOp::Ne, Width::W64, both, 0, own, none, Likely::Then);
    cx.b.switch_to(own);
    let page = word(cx, area, offsets.page);
    let first = cx.b.bin(BinOp::Shl, Width::W64, page, PAGE_SHIFT);
    let offset = cx.b.bin(BinOp::Add, Width::W64, first, distance);
    // Without a file, this is no version of one.
    let file = word(cx, area, offsets.file);
    let version = version_of(cx, offsets, file);
    let vdso = word(cx, memory, offsets.vdso);
    name_vdso(cx, version, (start, vdso));
    let files = super::unwind_maps(cx.shared).files;
    let tables = maps::look_up(cx, files, version);
    cx.b.branch(CmpOp::Ne, Width::W64, tables, 0, found, none, Likely::Then);
    cx.b.switch_to(none);
    end_with(cx, step, End::NoTable as i64);
    cx.b.switch_to(found);
    (tables, offset)
}

/// The area of memory that contains the step's address, 0 if none does. If the tree changes
/// meanwhile it may be any number.
fn area_at(cx: &mut Body<'_, '_>, step: &Step<'_>, tree: TreeOffsets, memory: VReg) -> VReg {
    let done = cx.b.new_block();
    let node = cx.b.new_vreg();
    let root = read_kernel_scalar(cx, memory, tree.root.into(), Size::B8);
    cx.b.assign(node, root);
    // Nodes are read to where the copy of the stack was.
    store(cx, step.buffer, WalkState::COPIED, 0);
    let copy = cx.b.bin(BinOp::Add, Width::W64, step.buffer, i64::from(WINDOW));
    let before = cx.b.bin(BinOp::Sub, Width::W64, step.at, 1);
    for _ in 0..LEVELS {
        let deeper = cx.b.new_block();
        let from = cx.b.bin(BinOp::And, Width::W64, node, -NODE_BYTES);
        let what = [copy.into(), Arg::Value(NODE_BYTES.into()), Arg::Value(from.into())];
        cx.b.call_void(Helper::ProbeReadKernel, &what);
        // The child is the first whose last address is not below; the last pivots may be 0, unused.
        let (mut index, mut is_below) = (cx.b.copy(0), cx.b.copy(1));
        for pivot in 0..PIVOTS {
            let last = cx.b.load(Addr::reg(copy, tree.pivots as i32 + 8 * pivot), Size::B8);
            let less = cx.b.bin(BinOp::Sub, Width::W64, last, 1);
            let this = cx.b.set(CmpOp::Lt, Width::W64, less, before);
            is_below = cx.b.bin(BinOp::And, Width::W64, is_below, this);
            index = cx.b.bin(BinOp::Add, Width::W64, index, is_below);
        }
        let kind = bits(cx, node, TYPE_SHIFT, TYPE_MASK);
        let has_gaps = cx.b.set(CmpOp::Eq, Width::W64, kind, WITH_GAPS);
        let shift = i64::from(tree.slots) - i64::from(tree.slots_with_gaps);
        let shifted = cx.b.bin(BinOp::Mul, Width::W64, has_gaps, shift);
        let index_bytes = cx.b.bin(BinOp::Shl, Width::W64, index, 3);
        let slot = cx.b.bin(BinOp::Sub, Width::W64, index_bytes, shifted);
        let at = cx.b.bin(BinOp::Add, Width::W64, slot, i64::from(tree.slots));
        // Verifier: it is within the copy.
        let within = cx.b.bin(BinOp::And, Width::W64, at, NODE_BYTES - 8);
        let here = cx.b.bin(BinOp::Add, Width::W64, copy, within);
        let child = cx.b.load(Addr::reg(here, 0), Size::B8);
        cx.b.assign(node, child);
        cx.b.branch(CmpOp::Lt, Width::W64, kind, INNER, done, deeper, Likely::Unknown);
        cx.b.switch_to(deeper);
    }
    cx.b.jump(done);
    cx.b.switch_to(done);
    node
}

/// The version of a file, as `profiler_model::unwind::FileVersion` is stored.
fn version_of(cx: &mut Body<'_, '_>, offsets: AreaOffsets, file: VReg) -> Addr {
    let inode = inode_of(cx, offsets, file);
    let number = read_kernel_scalar(cx, inode, offsets.number.into(), Size::B8);
    let file_system = read_kernel_scalar(cx, inode, offsets.file_system.into(), Size::B8);
    let device = read_kernel_scalar(cx, file_system, offsets.device.into(), Size::B4);
    let seconds = read_kernel_scalar(cx, inode, offsets.changed_s.into(), Size::B8);
    let stored = read_kernel_scalar(cx, inode, offsets.changed_ns.into(), Size::B4);
    let nanoseconds = cx.b.bin(BinOp::And, Width::W64, stored, NANOSECONDS);
    let version = cx.memory(FILE_KEY_BYTES as u32, "version");
    for (index, part) in (0..).zip([number, device, seconds, nanoseconds]) {
        cx.b.store(version.plus(8 * index), part, Size::B8);
    }
    version
}

/// Makes it the version of the vDSO, if that is where the area starts.
fn name_vdso(cx: &mut Body<'_, '_>, version: Addr, (start, vdso): (VReg, VReg)) {
    let is_vdso = cx.b.set(CmpOp::Eq, Width::W64, start, vdso);
    // What is not in a file has no number yet.
    let number = cx.b.load(version, Size::B8);
    let named = cx.b.bin(BinOp::Or, Width::W64, number, is_vdso);
    cx.b.store(version, named, Size::B8);
}

/// The inode of a file as processes see it, which is the one that `/proc/PID/maps` shows: on a file
/// system over others, the contents are in a file of another inode.
fn inode_of(cx: &mut Body<'_, '_>, offsets: AreaOffsets, file: VReg) -> VReg {
    let inode = cx.b.new_vreg();
    let own = read_kernel_scalar(cx, file, offsets.inode.into(), Size::B8);
    cx.b.assign(inode, own);
    let Some(backing) = offsets.backing else { return inode };
    let [below, done] = std::array::from_fn(|_| cx.b.new_block());
    let mode = read_kernel_scalar(cx, file, backing.mode.into(), Size::B4);
    let flag = cx.b.bin(BinOp::And, Width::W64, mode, i64::from(backing.flag));
    cx.b.branch(CmpOp::Ne, Width::W64, flag, 0, below, done, Likely::Otherwise);
    cx.b.switch_to(below);
    let entry = read_kernel_scalar(cx, file, backing.entry.into(), Size::B8);
    let seen = read_kernel_scalar(cx, entry, backing.inode.into(), Size::B8);
    cx.b.assign(inode, seen);
    cx.b.jump(done);
    cx.b.switch_to(done);
    inode
}
