//! Loops: the loop body becomes a function that a kernel helper calls.
//!
//! In: typed loops. Out: one subprogram per loop, and the call that runs it.
//! Guarantee: every iteration sees what earlier ones wrote to variables shared with the code around
//! the loop. `return` in a loop leaves the probe. A loop that the kernel's iteration limit cuts
//! short is counted.
//!
//! A subprogram gets one address from its caller: that of a frame on the program's stack, with the
//! addresses of the program's context and of its scratch memory. All variables that loops share
//! with the code around them are in scratch memory.
//! Verifier: before Linux 6.7 it checks a loop's function once, with the state at the call. A stack
//! variable that is 0 before the loop would stay 0 for it, and it would remove code for other
//! values. It assumes nothing about the contents of scratch memory. Since 6.7 it checks the
//! function until the state no longer changes, which for the same reason is after one pass.

use crate::ir::build::FunctionBuilder;
use crate::ir::{
    Addr, Arg, BinOp, BlockId, CmpOp, FunctionId, Helper, Likely, Operand, Role, Size, SlotId, VReg, Width,
};
use crate::layout;
use crate::lower::function::{FramePlace, FunctionState, Targets};
use crate::lower::storage::Storage;
use crate::lower::{Body, Value, conditions, maps, readings, threads, variables};
use crate::object::{Loss, MAX_ROUNDS};
use crate::typed::{Expr, ExprKind, MapIndex, Stmt, StmtKind, VarIndex};
use crate::types::Type;

/// Size of the frame that subprograms get: two addresses.
pub(super) const FRAME_BYTES: u32 = 16;
/// Offset of the context's address.
const FRAME_CONTEXT: i32 = 0;
/// Offset of the address of scratch memory.
const FRAME_SCRATCH: i32 = 8;

/// How a loop ended, in scratch memory; 0 while it runs.
const ENDED: i64 = 1;
/// The loop ended because the probe is being left.
const LEFT: i64 = 2;

impl Body<'_, '_> {
    /// Leaves the probe, or the handler of a span's event.
    pub fn leave(&mut self) {
        if !self.function.in_handler {
            note_leaving(self);
        }
        self.b.jump(self.function.exit);
    }
}

/// A subprogram and how it may end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeated {
    pub function: FunctionId,
    /// Scratch offset of [`ENDED`] or [`LEFT`], if the subprogram writes it.
    signal: Option<i32>,
}

/// Builds a subprogram. `lower` adds its code from the first block on, and ends the last block
/// itself.
pub(super) fn subprogram(
    cx: &mut Body<'_, '_>,
    role: Role,
    word: &str,
    lower: impl FnOnce(&mut Body<'_, '_>, &[VReg]),
) -> Repeated {
    cx.subprograms += 1;
    let name = format!("p{}_{word}{}", cx.index, cx.subprograms);
    let mut b = FunctionBuilder::subprogram(name, role, cx.b.span());
    let given: Vec<VReg> = (0..role.parameters()).map(|index| b.parameter(index)).collect();
    let frame = given[given.len() - 1];
    let context = b.load(Addr::reg(frame, FRAME_CONTEXT), Size::B8);
    b.set_context(context);
    let scratch = cx.function.scratch.map(|_| b.load(Addr::reg(frame, FRAME_SCRATCH), Size::B8));
    let (entry, start, exit) = (b.current_block(), b.new_block(), b.new_block());
    b.switch_to(start);
    let mut state = FunctionState::new(exit, scratch);
    state.vars = cx.function.vars.shared();
    state.loops.frame = Some(FramePlace::Given(frame));
    let outer_state = std::mem::replace(&mut cx.function, state);
    let outer = std::mem::replace(&mut cx.b, b);
    lower(cx, &given);
    cx.b.switch_to(exit);
    if let Some(signal) = cx.function.loops.signal {
        let at = cx.scratch_at(signal);
        cx.b.store(at, LEFT, Size::B8);
    }
    cx.b.ret(1);
    cx.b.switch_to(entry);
    for register in cx.function.vars.registers() {
        cx.b.assign(register, 0);
    }
    cx.b.jump(start);
    let signal = cx.function.loops.signal;
    cx.function = outer_state;
    let function = std::mem::replace(&mut cx.b, outer).finish();
    cx.shared.ir.subprograms.push(function);
    Repeated { function: FunctionId(cx.shared.ir.subprograms.len() as u32 - 1), signal }
}

/// The frame for a subprogram, filled.
pub(super) fn frame_argument(cx: &mut Body<'_, '_>) -> Arg {
    let slot = match cx.function.loops.frame {
        Some(FramePlace::Given(frame)) => return frame.into(),
        Some(FramePlace::Own(slot)) => slot,
        None => cx.b.slot(FRAME_BYTES, 8, "frame"),
    };
    cx.function.loops.frame = Some(FramePlace::Own(slot));
    fill_frame(cx, slot);
    slot.into()
}

/// Stores the addresses that subprograms need in a frame.
pub(super) fn fill_frame(cx: &mut Body<'_, '_>, slot: SlotId) {
    let context = cx.b.context();
    cx.b.store(Addr::slot(slot, FRAME_CONTEXT), context, Size::B8);
    if let Some(scratch) = cx.function.scratch {
        cx.b.store(Addr::slot(slot, FRAME_SCRATCH), scratch, Size::B8);
    }
}

/// Runs a subprogram `rounds` times.
pub(super) fn run_rounds(cx: &mut Body<'_, '_>, repeated: Repeated, rounds: Operand) {
    let frame = frame_argument(cx);
    let args = [Arg::Value(rounds), Arg::Function(repeated.function), frame, Arg::Value(0.into())];
    cx.b.call_void(Helper::Loop, &args);
}

/// Runs a loop with its signal, which is cleared first.
pub(super) fn run(cx: &mut Body<'_, '_>, repeated: Repeated, call: impl FnOnce(&mut Body<'_, '_>), is_bounded: bool) {
    if let Some(signal) = repeated.signal {
        let at = cx.scratch_at(signal);
        cx.b.store(at, 0, Size::B8);
    }
    call(cx);
    // What the loop's code did to maps is not tracked.
    cx.function.lookups.clear();
    let Some(signal) = repeated.signal else { return };
    let at = cx.scratch_at(signal);
    let ended = cx.b.load(at, Size::B8);
    if !is_bounded {
        let (cut, go_on) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Eq, Width::W64, ended, 0, cut, go_on, Likely::Otherwise);
        cx.b.switch_to(cut);
        cx.count_loss(Loss::Rounds { program: cx.index });
        cx.b.jump(go_on);
        cx.b.switch_to(go_on);
    }
    let (left, go_on) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, ended, LEFT, left, go_on, Likely::Otherwise);
    cx.b.switch_to(left);
    cx.leave();
    cx.b.switch_to(go_on);
}

/// In a loop, reserves the signal that reports to the enclosing code that the probe is being
/// left.
pub(super) fn note_leaving(cx: &mut Body<'_, '_>) {
    if let (Some(FramePlace::Given(_)), None) = (cx.function.loops.frame, cx.function.loops.signal) {
        cx.function.loops.signal = Some(cx.scratch_room(8));
    }
}

pub(super) fn jump_to(cx: &mut Body<'_, '_>, which: impl FnOnce(&Targets) -> BlockId) {
    if let Some(targets) = cx.function.loops.innermost() {
        let to = which(&targets);
        cx.b.jump(to);
    }
}

/// The statements of one iteration: `break` ends the subprogram with 1, `continue` with 0.
pub(super) fn iteration(cx: &mut Body<'_, '_>, body: &[Stmt]) {
    let targets = Targets { leave: cx.b.new_block(), next: cx.b.new_block() };
    iteration_between(cx, targets, body);
    cx.b.switch_to(targets.leave);
    cx.b.ret(1);
}

fn iteration_between(cx: &mut Body<'_, '_>, targets: Targets, body: &[Stmt]) {
    cx.function.loops.targets.push(targets);
    cx.stmts(body);
    cx.function.loops.targets.pop();
    cx.b.jump(targets.next);
    cx.b.switch_to(targets.next);
    cx.b.ret(0);
}

pub(super) fn for_range(cx: &mut Body<'_, '_>, var: VarIndex, start: &Expr, end: &Expr, body: &[Stmt]) {
    let (start, end) = (cx.scalar(start), cx.scalar(end));
    let rounds = rounds(cx, start, end);
    if rounds == Operand::Imm(0) {
        return;
    }
    let first = match start {
        Operand::Imm(_) => None,
        Operand::Reg(_) => Some(cx.scratch_room(8)),
    };
    if let Some(offset) = first {
        let at = cx.scratch_at(offset);
        cx.b.store(at, start, Size::B8);
    }
    let repeated = subprogram(cx, Role::Iteration, "range", |cx, given| {
        let start = match first {
            None => start,
            Some(offset) => {
                let at = cx.scratch_at(offset);
                cx.b.load(at, Size::B8).into()
            }
        };
        let value = cx.b.bin(BinOp::Add, Width::W64, given[0], start);
        variables::write(cx, var, value.into());
        iteration(cx, body);
    });
    run(cx, repeated, |cx| run_rounds(cx, repeated, rounds), true);
}

/// The number of iterations of a range, limited to what the kernel allows; a cut is counted.
fn rounds(cx: &mut Body<'_, '_>, start: Operand, end: Operand) -> Operand {
    let most = i64::from(MAX_ROUNDS);
    if let (Operand::Imm(start), Operand::Imm(end)) = (start, end)
        && end.saturating_sub(start) <= most
    {
        return Operand::Imm(end.saturating_sub(start).max(0));
    }
    let rounds = cx.b.copy(0);
    let (some, many, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::SLt, Width::W64, start, end, some, done, Likely::Then);
    cx.b.switch_to(some);
    let length = cx.b.bin(BinOp::Sub, Width::W64, end, start);
    cx.b.assign(rounds, length);
    cx.b.branch(CmpOp::Gt, Width::W64, rounds, most, many, done, Likely::Otherwise);
    cx.b.switch_to(many);
    cx.count_loss(Loss::Rounds { program: cx.index });
    cx.b.assign(rounds, most);
    cx.b.jump(done);
    cx.b.switch_to(done);
    // Verifier: if it knows that there are no iterations, it treats the subprogram as dead code
    // and then fails on its address. It knows nothing about values read from scratch memory.
    let room = cx.scratch_room(8);
    let at = cx.scratch_at(room);
    cx.b.store(at, rounds, Size::B8);
    cx.b.load(at, Size::B8).into()
}

pub(super) fn while_loop(cx: &mut Body<'_, '_>, cond: &Expr, body: &[Stmt]) {
    let repeated = subprogram(cx, Role::Iteration, "while", |cx, _| {
        let signal = cx.scratch_room(8);
        cx.function.loops.signal = Some(signal);
        let targets = Targets { leave: cx.b.new_block(), next: cx.b.new_block() };
        let holds = cx.b.new_block();
        conditions::branch_on(cx, cond, holds, targets.leave);
        cx.b.switch_to(holds);
        iteration_between(cx, targets, body);
        cx.b.switch_to(targets.leave);
        let at = cx.scratch_at(signal);
        cx.b.store(at, ENDED, Size::B8);
        cx.b.ret(1);
    });
    let rounds = Operand::Imm(i64::from(MAX_ROUNDS));
    run(cx, repeated, |cx| run_rounds(cx, repeated, rounds), false);
}

pub(super) fn for_map(cx: &mut Body<'_, '_>, var: VarIndex, map: MapIndex, body: &[Stmt]) {
    let id = match maps::storage(cx, map) {
        Storage::Map { id, .. } => id,
        Storage::Threads { id, .. } => {
            return threads::for_each(cx, id, "states", |cx, thread, value| {
                take_entry(cx, var, map, thread, value);
                iteration(cx, body);
            });
        }
        Storage::Global { .. } => return,
    };
    let repeated = subprogram(cx, Role::Entry, "map", |cx, given| {
        take_entry(cx, var, map, given[1], given[2]);
        iteration(cx, body);
    });
    run(
        cx,
        repeated,
        |cx| {
            let frame = frame_argument(cx);
            let args = [Arg::Map(id), Arg::Function(repeated.function), frame, Arg::Value(0.into())];
            cx.b.call_void(Helper::ForEachMapElem, &args);
        },
        true,
    );
}

/// Copies the used parts of an entry: another CPU, or the loop itself, may change or remove it
/// meanwhile.
fn take_entry(cx: &mut Body<'_, '_>, var: VarIndex, map: MapIndex, key: VReg, value: VReg) {
    let Type::Tuple(parts) = &cx.probe.vars[var.0].ty else { return };
    let [key_type, value_type] = parts.as_slice() else { return };
    let Some(to) = variables::address(cx, var) else { return };
    let ty = &cx.probe.vars[var.0].ty;
    let (whole, offsets) = layout::tuple(parts, cx.shared.target.btf_if_needed(ty));
    let (key_bytes, value_bytes) = (cx.layout(key_type).size_bytes, cx.layout(value_type).size_bytes);
    let (uses_key, uses_value) = cx.captures.used_parts(var.0, offsets[1]);
    if uses_key && uses_value && key_bytes + value_bytes != whole.size_bytes {
        // Padding is part of a key, in case the whole entry becomes one.
        cx.zero(to, whole.size_bytes);
    }
    if uses_key {
        cx.copy(to, Addr::reg(key, 0), key_bytes);
    }
    if uses_value {
        let at = to.plus(offsets[1] as i32);
        match readings::entry_value(cx, map, key, key_bytes) {
            Some(sum) => cx.store(Value::Scalar(sum), value_type, at),
            None => cx.copy(at, Addr::reg(value, 0), value_bytes),
        }
    }
}

pub(super) fn unroll(cx: &mut Body<'_, '_>, copies: &[Vec<Stmt>]) {
    if !copies.iter().any(|body| may_jump(body)) {
        for body in copies {
            cx.stmts(body);
        }
        return;
    }
    let leave = cx.b.new_block();
    for body in copies {
        let next = cx.b.new_block();
        cx.function.loops.targets.push(Targets { leave, next });
        // Code after a jump may not run.
        cx.conditionally(|cx| cx.stmts(body));
        cx.function.loops.targets.pop();
        cx.b.jump(next);
        cx.b.switch_to(next);
    }
    cx.b.jump(leave);
    cx.b.switch_to(leave);
}

/// Whether the statements may contain `break` or `continue` of the enclosing loop.
fn may_jump(stmts: &[Stmt]) -> bool {
    let is_block = |kind: &ExprKind| matches!(kind, ExprKind::Block(..));
    stmts.iter().any(|stmt| match &stmt.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::If(cond, then, otherwise) => cond.any(&is_block) || may_jump(then) || may_jump(otherwise),
        StmtKind::Block(body) => may_jump(body),
        StmtKind::Expr(e) | StmtKind::Result(e) | StmtKind::AssignVar(_, e) => e.any(&is_block),
        StmtKind::AssignMap(_, key, value) | StmtKind::UpdateMap(_, key, _, value) => {
            value.any(&is_block) || key.as_ref().is_some_and(|key| key.any(&is_block))
        }
        StmtKind::AssignField(field, value) | StmtKind::UpdateField(field, _, value) => {
            value.any(&is_block) || field.key.as_ref().is_some_and(|key| key.any(&is_block))
        }
        StmtKind::Aggregate(_, key, values) => key.iter().chain(values).any(|e| e.any(&is_block)),
        StmtKind::ForRange { start, end, .. } => start.any(&is_block) || end.any(&is_block),
        StmtKind::Unroll(_)
        | StmtKind::ForMap { .. }
        | StmtKind::ForSpan { .. }
        | StmtKind::While(..)
        | StmtKind::Clear(_)
        | StmtKind::Return
        | StmtKind::Turn(_)
        | StmtKind::TurnEnd(_)
        | StmtKind::Span(_) => false,
    })
}
