//! Stack traces: captured, and stored once each.
//!
//! In: the kind of stack that is asked for. Out: code that yields its number, and the maps that
//! hold the frames.
//! Guarantee: two stacks have the same number only if all their frames are equal. As many different
//! stacks are stored as the script allows; a stack that is not stored is counted.
//!
//! The kernel's own table (`bpf_get_stackid`) has one slot for each of 16,384 hashes. A stack whose
//! slot is taken by another goes to a hash map that is filled on demand, under a 61-bit key that is
//! a hash of its frames. A stack is compared with an existing entry frame by frame. Two different
//! stacks with one key are so rare that the second one is counted as lost.
//!
//! Verifier: it would check the loops over the frames again for each state in which a program gets
//! here. So all code that needs no context is in functions that it checks once. After a call of
//! them it knows nothing that distinguishes states.

mod buffers;
mod remembered;
mod tracing;

use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, FunctionId, Helper, Likely, Map, MapId, MapKind, Size, VReg, Width};
use crate::lower::shared::Shared;
use crate::lower::storage::StackMaps;
use crate::lower::{Body, Value, ids, unwind, visited};
use crate::memory::table_slots;
use crate::object::{Attach, StackTable};
use crate::types::{Space, StackType, Type, Walk};

pub(super) use buffers::{FRAMES, MULTIPLIER, WINDOW, WalkState, buffer_at, stack_function};
use buffers::{NUMBER, capacity_bytes, clear_frames, cpu_bytes, in_buffer, stack_functions};

/// `BPF_F_USER_STACK`.
const USER_STACK: i64 = 1 << 8;

/// The program's own frame and that of its caller, `bpf_trace_runN` or the trampoline: they are not
/// part of the traced code.
const RAW_TRACEPOINT_FRAMES: i64 = 2;

/// `-EEXIST`: another stack has the same hash, or the key exists already.
const EEXIST: i64 = -17;

/// `-EFAULT`: the number of a stack that could not be captured.
pub(super) const EFAULT: i64 = -14;

/// Offset of the task in an iterator's context: after the pointer that all iterators have.
const ITERATOR_TASK: i32 = 8;

impl Shared<'_> {
    /// The maps for stacks of up to `limit` frames; with `table`, including the kernel's own.
    fn stack_maps(&mut self, limit: u8, table: bool) -> StackMaps {
        let known = self.stack_maps.iter().position(|maps| maps.limit == limit);
        let at = known.unwrap_or_else(|| self.new_stack_maps(limit));
        if table && self.stack_maps[at].table.is_none() {
            let entries = table_slots(self.program.max_stacks);
            let map = self.stack_map(format!("stacks_{limit}"), MapKind::StackTrace, u32::from(limit) * 8, entries);
            self.stack_maps[at].table = Some(map);
        }
        self.stack_maps[at].clone()
    }

    fn new_stack_maps(&mut self, limit: u8) -> usize {
        let entries = self.program.max_stacks;
        let overflow = self.stack_map(format!("more_stacks_{limit}"), MapKind::Hash, capacity_bytes(limit), entries);
        let buffers = self.bss_aligned(cpu_bytes(limit) * self.cpu_slots(), 64);
        self.stack_maps.push(StackMaps {
            limit,
            table: None,
            overflow,
            buffers,
            functions: None,
            walk: None,
            visit: None,
        });
        self.stack_maps.len() - 1
    }

    fn stack_map(&mut self, name: String, kind: MapKind, value_size_bytes: u32, max_entries: u32) -> MapId {
        let key_size_bytes = if kind == MapKind::Hash { 8 } else { 4 };
        let no_prealloc = kind == MapKind::Hash;
        self.ir.maps.push(Map { name, kind, key_size_bytes, value_size_bytes, max_entries, no_prealloc });
        MapId(self.ir.maps.len() as u32 - 1)
    }

    /// The stack maps as the runtime needs them.
    pub(super) fn stack_tables(&self) -> Vec<StackTable> {
        let name = |id: MapId| self.ir.maps[id.0 as usize].name.clone();
        let capacity = self.program.max_stacks;
        let table = |maps: &StackMaps| StackTable {
            map: maps.table.map(name),
            overflow: name(maps.overflow),
            capacity,
            limit: maps.limit,
        };
        self.stack_maps.iter().map(table).collect()
    }
}

/// A stack: its number and, for user stacks, the process id.
pub fn capture(cx: &mut Body<'_, '_>, ty: &Type) -> Value {
    let Type::Stack(stack) = ty else { return Value::None };
    let id = if is_iterator(cx) { stack_of_task(cx, *stack) } else { stack_of_event(cx, *stack) };
    let to = cx.allocate_unwritten(ty);
    // Zero means no stack, so a value that was never written has none.
    let number = cx.b.bin(BinOp::Add, Width::W64, id, 1);
    cx.b.store(to, number, Size::B8);
    if stack.space == Space::User {
        let both = ids::namespaced(cx);
        let process = cx.b.bin(BinOp::Shr, Width::W64, both, 32);
        // Stacks are counted by process: the thread's half stays zero.
        cx.b.store(to.plus(8), process, Size::B8);
    }
    Value::Memory(to)
}

/// The number of frames of a stack that is captured now.
pub fn depth(cx: &mut Body<'_, '_>, stack: StackType) -> VReg {
    if stack.walk == Walk::Tables {
        return walked_depth(cx, stack);
    }
    let size_bytes = u32::from(stack.limit) * 8;
    let room = cx.memory(size_bytes, "stack");
    let to = cx.address_arg(room);
    let none = cx.b.new_block();
    let bytes = take_frames(cx, stack, to, none);
    let depth = cx.b.bin(BinOp::Sar, Width::W64, bytes, 3);
    let (failed, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::SLt, Width::W64, depth, 0, failed, done, Likely::Otherwise);
    cx.b.switch_to(none);
    cx.b.jump(failed);
    cx.b.switch_to(failed);
    cx.b.assign(depth, 0);
    cx.b.jump(done);
    cx.b.switch_to(done);
    depth
}

/// The number of frames that unwind tables find.
fn walked_depth(cx: &mut Body<'_, '_>, stack: StackType) -> VReg {
    let maps = cx.shared.stack_maps(stack.limit, false);
    let depth = cx.b.copy(0);
    let done = cx.b.new_block();
    if visited::is_visit(cx) {
        let off_cpu = cx.b.new_block();
        let task = visited::task(cx);
        let on_cpu = visited::on_cpu(cx, task);
        cx.b.branch(CmpOp::Eq, Width::W64, on_cpu, 0, off_cpu, done, Likely::Then);
        cx.b.switch_to(off_cpu);
    }
    in_buffer(cx, &maps, |cx, index, buffer| {
        let bytes = walked_bytes(cx, &maps, index, buffer);
        clear_frames(cx, &maps, buffer, bytes);
        let count = cx.b.load(Addr::reg(buffer, WalkState::COUNT), Size::B8);
        cx.b.assign(depth, count);
    });
    cx.b.jump(done);
    cx.b.switch_to(done);
    depth
}

fn is_iterator(cx: &Body<'_, '_>) -> bool {
    matches!(cx.probe.attach, Attach::Iterator { .. } | Attach::Visits { .. })
}

/// Writes the frames of a stack to memory for `limit` frames; yields their size in bytes, or an
/// error. Jumps to `none` if there is no task.
fn take_frames(cx: &mut Body<'_, '_>, stack: StackType, to: Arg, none: BlockId) -> VReg {
    let size = Arg::Value(i64::from(u32::from(stack.limit) * 8).into());
    if is_iterator(cx) {
        let context = cx.b.context();
        let task = cx.b.load(Addr::reg(context, ITERATOR_TASK), Size::B8);
        let some = cx.b.new_block();
        cx.b.branch(CmpOp::Ne, Width::W64, task, 0, some, none, Likely::Then);
        cx.b.switch_to(some);
        return cx.b.call(Helper::GetTaskStack, &[Arg::Value(task.into()), to, size, Arg::Value(0.into())]);
    }
    let flags = stack_flags(cx, stack.space);
    cx.b.call(Helper::GetStack, &[Arg::Context, to, size, flags.into()])
}

/// Flags: which stack, and how many frames that are not of the traced code to skip.
fn stack_flags(cx: &mut Body<'_, '_>, space: Space) -> VReg {
    match space {
        Space::User => cx.b.copy(USER_STACK),
        Space::Kernel => tracing::kernel_flags(cx),
    }
}

/// The number of the program's own frames in its kernel stack.
fn own_frames(cx: &Body<'_, '_>) -> i64 {
    match &cx.probe.attach {
        // The function of a block that shares its program has a frame, too.
        Attach::RawTracepoint { .. } | Attach::Trampoline { .. } => RAW_TRACEPOINT_FRAMES + i64::from(cx.is_merged()),
        _ => 0,
    }
}

/// The number of the stack at the event, or an error.
fn stack_of_event(cx: &mut Body<'_, '_>, stack: StackType) -> VReg {
    if stack.walk == Walk::Tables {
        return stack_by_tables(cx, stack);
    }
    let maps = cx.shared.stack_maps(stack.limit, true);
    let flags = stack_flags(cx, stack.space);
    let table = maps.table.unwrap_or(maps.overflow);
    let id = cx.b.call(Helper::GetStackid, &[Arg::Context, Arg::Map(table), flags.into()]);
    let (taken, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, id, EEXIST, taken, done, Likely::Otherwise);
    cx.b.switch_to(taken);
    keep_frames(cx, stack, &maps, id);
    cx.b.jump(done);
    cx.b.switch_to(done);
    id
}

/// The number of the user stack at the event as unwind tables find it, or an error.
fn stack_by_tables(cx: &mut Body<'_, '_>, stack: StackType) -> VReg {
    let maps = cx.shared.stack_maps(stack.limit, false);
    let id = cx.b.copy(EFAULT);
    keep_frames(cx, stack, &maps, id);
    id
}

/// The number of the stack of the iterator's task, or an error.
fn stack_of_task(cx: &mut Body<'_, '_>, stack: StackType) -> VReg {
    let maps = cx.shared.stack_maps(stack.limit, false);
    if visited::is_visit(cx) {
        return remembered::stack_of_visited(cx, stack, &maps);
    }
    let id = cx.b.copy(EFAULT);
    keep_frames(cx, stack, &maps, id);
    id
}

/// Captures the frames and sets `id` to the number of their entry in the overflow map. Yields how a
/// walk by unwind tables ended, else 0.
fn keep_frames(cx: &mut Body<'_, '_>, stack: StackType, maps: &StackMaps, id: VReg) -> VReg {
    let keep = stack_functions(cx, maps).keep;
    let end = cx.b.copy(0);
    cx.b.assign(id, EEXIST);
    in_buffer(cx, maps, |cx, index, buffer| {
        let [none, some] = std::array::from_fn(|_| cx.b.new_block());
        let bytes = cx.b.copy(EFAULT);
        let taken_bytes = match stack.walk {
            Walk::Tables => walked_bytes(cx, maps, index, buffer),
            Walk::Kernel => {
                let frames = cx.b.bin(BinOp::Add, Width::W64, buffer, i64::from(FRAMES));
                take_frames(cx, stack, frames.into(), none)
            }
        };
        cx.b.assign(bytes, taken_bytes);
        cx.b.jump(some);
        cx.b.switch_to(none);
        cx.b.jump(some);
        cx.b.switch_to(some);
        cx.b.call_void(Helper::RunApart, &[Arg::Function(keep), Arg::Value(index.into()), Arg::Value(bytes.into())]);
        let number = cx.b.load(Addr::reg(buffer, NUMBER), Size::B8);
        cx.b.assign(id, number);
        if stack.walk == Walk::Tables {
            let ended = cx.b.load(Addr::reg(buffer, WalkState::END), Size::B8);
            cx.b.assign(end, ended);
        }
    });
    end
}

/// Walks the stack by unwind tables into a buffer; yields the size of the frames in bytes, or an
/// error.
fn walked_bytes(cx: &mut Body<'_, '_>, maps: &StackMaps, index: VReg, buffer: VReg) -> VReg {
    if visited::is_visit(cx) {
        unwind::walk_visited(cx, maps, buffer);
    } else {
        let walk = walk_function(cx, maps);
        cx.b.call_void(Helper::RunApart, &[Arg::Function(walk), Arg::Value(index.into()), Arg::Value(0.into())]);
    }
    cx.b.load(Addr::reg(buffer, WalkState::BYTES), Size::B8)
}

/// The function that makes a step of the walk of a visited thread's stack.
pub(super) fn visit_function(cx: &mut Body<'_, '_>, maps: &StackMaps) -> FunctionId {
    made_once(cx, maps, |maps| &mut maps.visit, unwind::visit_function)
}

/// The function that walks stacks of up to `limit` frames.
fn walk_function(cx: &mut Body<'_, '_>, maps: &StackMaps) -> FunctionId {
    made_once(cx, maps, |maps| &mut maps.walk, unwind::walk_function)
}

/// Functions for stacks of up to `limit` frames, made at the first use: all programs share them.
fn made_once<T: Copy>(
    cx: &mut Body<'_, '_>,
    maps: &StackMaps,
    place: impl Fn(&mut StackMaps) -> &mut Option<T>,
    make: impl FnOnce(&mut Body<'_, '_>, &StackMaps) -> T,
) -> T {
    let at = cx.shared.stack_maps.iter().position(|known| known.limit == maps.limit);
    if let Some(known) = at.and_then(|at| *place(&mut cx.shared.stack_maps[at])) {
        return known;
    }
    let result = make(cx, maps);
    if let Some(at) = at {
        *place(&mut cx.shared.stack_maps[at]) = Some(result);
    }
    result
}
