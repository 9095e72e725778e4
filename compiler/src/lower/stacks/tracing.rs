//! The frames of the kernel's tracing that are between traced code and a program.
//!
//! In: a program at a tracepoint. Out: the flags with which its kernel stacks begin at the traced
//! code.
//! Guarantee: what is skipped is code of the tracing, by its name in the kernel.
//!
//! How many frames there are depends on the kernel's compiler and on how many programs are attached
//! to the tracepoint right now, those of other tools included: a single one is called directly, of
//! several each is called by `__traceiter_NAME`.

use super::own_frames;
use crate::ir::build::FunctionBuilder;
use crate::ir::{
    Addr, Arg, BinOp, CmpOp, Function, FunctionId, Helper, Likely, Map, MapId, MapKind, Role, Size, VReg, Width,
};
use crate::lower::{Body, maps};
use crate::object::Attach;

/// How the names of the kernel's functions between a tracepoint and its programs begin, as 8 bytes.
/// `__traceiter_*` calls all functions of a tracepoint, `__bpf_trace_*` the BPF programs, and
/// `perf_syscall_enter` and `perf_syscall_exit` those of `tracepoint:syscalls:*`.
const PREFIXES: [&[u8; 8]; 3] = [b"__tracei", b"__bpf_tr", b"perf_sys"];

/// Most of these frames in a stack.
const MOST: u32 = 2;

/// `bpf_snprintf`, which knows the names of the kernel's code: since 5.13.
const SNPRINTF_SINCE: (u32, u32) = (5, 13);

/// Return addresses of which the program remembers what they are: a few for each tracepoint.
const REMEMBERED: u32 = 256;

/// Bytes of a name that are asked for.
const NAME_BYTES: u32 = 16;

/// The flags for the kernel stack at a probe.
pub(super) fn kernel_flags(cx: &mut Body<'_, '_>) -> VReg {
    let own = own_frames(cx);
    let flags = cx.b.copy(own);
    let at_tracepoint = matches!(cx.probe.attach, Attach::RawTracepoint { .. } | Attach::Tracepoint { .. });
    if !at_tracepoint || cx.shared.target.kernel() < SNPRINTF_SINCE {
        return flags;
    }
    let count = count_function(cx);
    let [some, done] = std::array::from_fn(|_| cx.b.new_block());
    let innermost = cx.memory(MOST * 8, "innermost");
    let to = cx.address_arg(innermost);
    let size_bytes = Arg::Value(i64::from(MOST * 8).into());
    let found_bytes = cx.b.call(Helper::GetStack, &[Arg::Context, to, size_bytes, Arg::Value(own.into())]);
    cx.b.branch(CmpOp::SGt, Width::W64, found_bytes, 0, some, done, Likely::Then);
    cx.b.switch_to(some);
    let frames = [0, 8].map(|offset| Arg::Value(cx.b.load(innermost.plus(offset), Size::B8).into()));
    let count = cx.b.call(Helper::RunApart, &[Arg::Function(count), frames[0], frames[1]]);
    let all = cx.b.bin(BinOp::Add, Width::W64, count, own);
    cx.b.assign(flags, all);
    cx.b.jump(done);
    cx.b.switch_to(done);
    flags
}

/// The function that counts the frames of the tracing among the two innermost ones; all programs
/// share it.
fn count_function(cx: &mut Body<'_, '_>) -> FunctionId {
    if let Some(made) = cx.shared.tracing_frames {
        return made;
    }
    let span = cx.b.span();
    cx.shared.ir.maps.push(Map {
        name: "tracing_code".to_owned(),
        kind: MapKind::Hash,
        key_size_bytes: 8,
        value_size_bytes: 8,
        max_entries: REMEMBERED,
        no_prealloc: false,
    });
    let known = MapId(cx.shared.ir.maps.len() as u32 - 1);
    let mut body = Body::new(&mut *cx.shared, cx.index);
    body.b = FunctionBuilder::subprogram("tracing_frames".to_owned(), Role::Apart, span);
    // The function shares the stack with its callers, whose objects leave 32 bytes.
    let (key, name) = (Addr::slot(body.b.slot(8, 8, "frame"), 0), Addr::slot(body.b.slot(NAME_BYTES, 8, "name"), 0));
    for count in 0..MOST {
        let frame = body.b.parameter(count as u8);
        body.b.store(key, frame, Size::B8);
        let is_tracing = is_tracing(&mut body, known, (key, name));
        let [traced, next] = std::array::from_fn(|_| body.b.new_block());
        body.b.branch(CmpOp::Eq, Width::W64, is_tracing, 0, traced, next, Likely::Unknown);
        body.b.switch_to(traced);
        body.b.ret(count as i32);
        body.b.switch_to(next);
    }
    body.b.ret(MOST as i32);
    let function: Function = body.b.finish();
    cx.shared.ir.subprograms.push(function);
    let made = FunctionId(cx.shared.ir.subprograms.len() as u32 - 1);
    cx.shared.tracing_frames = Some(made);
    made
}

/// Whether the return address in `key` is in code of the tracing: not 0 if it is. `name` is memory
/// for its name.
fn is_tracing(cx: &mut Body<'_, '_>, known: MapId, (key, name): (Addr, Addr)) -> VReg {
    let [found, absent, named, done] = std::array::from_fn(|_| cx.b.new_block());
    let result = cx.b.copy(0);
    let entry = maps::look_up(cx, known, key);
    cx.b.branch(CmpOp::Ne, Width::W64, entry, 0, found, absent, Likely::Then);
    cx.b.switch_to(found);
    let remembered = cx.b.load(Addr::reg(entry, 0), Size::B8);
    cx.b.assign(result, remembered);
    cx.b.jump(done);
    cx.b.switch_to(absent);
    cx.zero(name, NAME_BYTES);
    let format = cx.constant_bytes(b"%ps\0");
    let places = [name, format, key].map(|place| cx.address_arg(place));
    let args = [places[0], i64::from(NAME_BYTES).into(), places[1], places[2], 8.into()];
    let length = cx.b.call(Helper::Snprintf, &args);
    cx.b.branch(CmpOp::SGt, Width::W64, length, 0, named, done, Likely::Then);
    cx.b.switch_to(named);
    let start = cx.b.load(name, Size::B8);
    for prefix in PREFIXES {
        let is_equal = cx.b.set(CmpOp::Eq, Width::W64, start, i64::from_ne_bytes(*prefix));
        let any = cx.b.bin(BinOp::Or, Width::W64, result, is_equal);
        cx.b.assign(result, any);
    }
    // The name is not needed any more, so the value takes its place.
    cx.b.store(name, result, Size::B8);
    let places = [key, name].map(|place| cx.address_arg(place));
    // If the map is full, the name is asked for again next time.
    cx.b.call_void(Helper::MapUpdateElem, &[Arg::Map(known), places[0], places[1], 0.into()]);
    cx.b.jump(done);
    cx.b.switch_to(done);
    result
}
