//! The stacks of visited threads, taken again only if the thread has run since.
//!
//! In: a visited thread. Out: the number of its kernel or user stack.
//! Guarantee: a remembered stack is that of the thread now: what a thread does not run, it keeps. A
//! user stack is one of a thread that was off the CPU all the while, else there is none: the
//! registers of a thread that runs are nowhere in memory, and its stack changes.
//!
//! Taking a kernel stack costs 1.4 µs, remembering it 0.3. A thread that is not on a CPU has the
//! stack with which it left it, and the kernel counts how often it did. The number is read before
//! the stack, so a thread that begins to run meanwhile has another number when it next is off the
//! CPU.

use super::{EFAULT, keep_frames};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Map, MapId, MapKind, Size, VReg, Width};
use crate::lower::shared::Shared;
use crate::lower::storage::StackMaps;
use crate::lower::threads::CREATE;
use crate::lower::{Body, visited};
use crate::types::{Space, StackType};
use crate::unwind::End;

/// A thread's value: how often it left the CPU, plus 1; the number of its stack.
const LEFT: i32 = 0;
const NUMBER: i32 = 8;
const VALUE_BYTES: u32 = 16;

/// There is no stack.
const NONE: i64 = -1;

/// The map that remembers the stacks of up to `limit` frames.
fn remembered(shared: &mut Shared<'_>, space: Space, limit: u8) -> MapId {
    let whose = if space == Space::User { "user_" } else { "" };
    let name = format!("known_{whose}stacks_{limit}");
    if let Some(at) = shared.ir.maps.iter().position(|map| map.name == name) {
        return MapId(at as u32);
    }
    shared.ir.maps.push(Map {
        name,
        kind: MapKind::TaskStorage,
        key_size_bytes: 4,
        value_size_bytes: VALUE_BYTES,
        max_entries: 0,
        no_prealloc: true,
    });
    MapId(shared.ir.maps.len() as u32 - 1)
}

/// The number of the stack of the visited thread, -1 if it has none, or an error.
pub(super) fn stack_of_visited(cx: &mut Body<'_, '_>, stack: StackType, maps: &StackMaps) -> VReg {
    let map = remembered(cx.shared, stack.space, maps.limit);
    let is_user = stack.space == Space::User;
    let id = cx.b.copy(if is_user { NONE } else { EFAULT });
    let [has, off_cpu, same, fresh, keep, write, done] = std::array::from_fn(|_| cx.b.new_block());
    let running = if is_user { done } else { fresh };
    let task = visited::task(cx);
    let times = visited::times_off_cpu(cx, task);
    // Never 0, which is what a new value has.
    let left = cx.b.bin(BinOp::Add, Width::W64, times, 1);
    let none = Arg::Value(0.into());
    let value = cx.b.call(Helper::TaskStorageGet, &[Arg::Map(map), task.into(), none, Arg::Value(CREATE.into())]);
    cx.b.branch(CmpOp::Ne, Width::W64, value, 0, has, fresh, Likely::Then);
    cx.b.switch_to(has);
    let known = cx.b.load(Addr::reg(value, LEFT), Size::B8);
    let on_cpu = visited::on_cpu(cx, task);
    cx.b.branch(CmpOp::Eq, Width::W64, on_cpu, 0, off_cpu, running, Likely::Then);
    cx.b.switch_to(off_cpu);
    cx.b.branch(CmpOp::Eq, Width::W64, known, left, same, fresh, Likely::Then);
    cx.b.switch_to(same);
    let number = cx.b.load(Addr::reg(value, NUMBER), Size::B8);
    cx.b.assign(id, number);
    cx.b.jump(done);
    cx.b.switch_to(fresh);
    let end = keep_frames(cx, stack, maps, id);
    if is_user {
        only_if_it_stayed(cx, (task, times), id, done);
        // There may be tables the next time.
        let stored = cx.b.new_block();
        cx.b.branch(CmpOp::Ne, Width::W64, end, End::NoTable as i64, stored, done, Likely::Then);
        cx.b.switch_to(stored);
    }
    cx.b.branch(CmpOp::Ne, Width::W64, value, 0, keep, done, Likely::Then);
    cx.b.switch_to(keep);
    cx.b.branch(CmpOp::SGe, Width::W64, id, 0, write, done, Likely::Then);
    cx.b.switch_to(write);
    cx.b.store(Addr::reg(value, NUMBER), id, Size::B8);
    cx.b.store(Addr::reg(value, LEFT), left, Size::B8);
    cx.b.jump(done);
    cx.b.switch_to(done);
    id
}

/// Goes on if the thread has not run since the number was read; else there is no stack.
fn only_if_it_stayed(cx: &mut Body<'_, '_>, (task, times): (VReg, VReg), id: VReg, done: BlockId) {
    let [stayed, ran] = std::array::from_fn(|_| cx.b.new_block());
    let on_cpu = visited::on_cpu(cx, task);
    let now = visited::times_off_cpu(cx, task);
    let more = cx.b.bin(BinOp::Xor, Width::W64, now, times);
    let has_run = cx.b.bin(BinOp::Or, Width::W64, more, on_cpu);
    cx.b.branch(CmpOp::Eq, Width::W64, has_run, 0, stayed, ran, Likely::Then);
    cx.b.switch_to(ran);
    cx.b.assign(id, NONE);
    cx.b.jump(done);
    cx.b.switch_to(stayed);
}
