//! Loops: what is repeated becomes a function that a helper of the kernel calls.
//!
//! In: typed loops. Out: a subprogram a loop, and the call that runs it.
//! Guarantee: every round sees what the rounds before left in the variables that it shares with the code around the loop;
//! `return` in a loop leaves the probe; a loop that the kernel would cut is counted.
//!
//! A subprogram gets one address from its caller: that of a frame on the program's stack, with the addresses of the
//! program's context and of its scratch memory. All that loops share with the code around them is in scratch memory.
//! Verifier: before Linux 6.7 it follows a loop's function once, with what it knows at the call; a variable on the stack
//! that is 0 before the loop would stay 0 for it, and code for other values would be removed. Of scratch memory it knows no
//! contents. Since 6.7 it follows the function until nothing new is learned, which for the same reason is at once.

use crate::ir::build::FunctionBuilder;
use crate::ir::{
    self, Addr, Arg, BinOp, BlockId, CmpOp, FunctionId, Helper, Likely, Operand, Role, Size, SlotId, VReg, Width,
};
use crate::layout;
use crate::lower::body::VarPlace;
use crate::lower::lookups::Lookup;
use crate::lower::storage::Place;
use crate::lower::{Body, Value};
use crate::object::{Loss, MAX_ROUNDS};
use crate::typed::{Expr, ExprKind, MapIndex, Stmt, StmtKind, VarIndex};
use crate::types::Type;

/// The frame that subprograms get: two addresses.
pub(super) const FRAME_BYTES: u32 = 16;
/// Where it has that of the context.
const FRAME_CONTEXT: i32 = 0;
/// Where it has that of scratch memory.
const FRAME_SCRATCH: i32 = 8;

/// How a loop ended, in scratch memory; 0 while it runs.
const ENDED: i64 = 1;
/// The same when the probe is to be left.
const LEFT: i64 = 2;

/// Where the code of a loop goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Targets {
    /// `break`.
    pub leave: BlockId,
    /// `continue`.
    pub next: BlockId,
}

/// Where a function has the frame for the subprograms that it runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum FramePlace {
    /// The program makes it.
    Own(SlotId),
    /// A subprogram was given it.
    Given(VReg),
}

/// What of a body belongs to the function being made.
#[derive(Debug)]
struct Outer {
    b: FunctionBuilder,
    vars: Vec<Option<VarPlace>>,
    targets: Vec<Targets>,
    frame: Option<FramePlace>,
    signal: Option<i32>,
    exit: BlockId,
    in_handler: bool,
    scratch: Option<VReg>,
    stack_used_bytes: u32,
    lookups: Vec<Lookup>,
    depth: u32,
}

/// A subprogram and how it may end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeated {
    pub function: FunctionId,
    /// Scratch memory with [`ENDED`] or [`LEFT`], when it says so.
    signal: Option<i32>,
}

impl Body<'_, '_> {
    /// Makes a subprogram. `lower` adds its code, from the first block on; its last round's end is up to it.
    pub(super) fn subprogram(&mut self, role: Role, word: &str, lower: impl FnOnce(&mut Self, &[VReg])) -> Repeated {
        self.loops += 1;
        let name = format!("p{}_{word}{}", self.index, self.loops);
        let mut b = FunctionBuilder::subprogram(name, role, self.b.span());
        let given: Vec<VReg> = (0..role.parameters()).map(|index| b.parameter(index)).collect();
        let frame = given[given.len() - 1];
        let context = b.load(Addr::reg(frame, FRAME_CONTEXT), Size::B8);
        b.set_context(context);
        let scratch = self.scratch.map(|_| b.load(Addr::reg(frame, FRAME_SCRATCH), Size::B8));
        let (entry, start, exit) = (b.current_block(), b.new_block(), b.new_block());
        b.switch_to(start);
        let shared = |place: &Option<VarPlace>| {
            place.filter(|place| matches!(place, VarPlace::SharedScalar(_) | VarPlace::Shared(_)))
        };
        let vars = self.vars.iter().map(shared).collect();
        let outer = self.enter(b, vars, FramePlace::Given(frame), exit, scratch);
        lower(self, &given);
        self.b.switch_to(exit);
        if let Some(signal) = self.signal {
            let at = self.scratch_at(signal);
            self.b.store(at, LEFT, Size::B8);
        }
        self.b.ret(1);
        self.b.switch_to(entry);
        for place in self.vars.clone().into_iter().flatten() {
            if let VarPlace::Register(reg) = place {
                self.b.assign(reg, 0);
            }
        }
        self.b.jump(start);
        let signal = self.signal;
        let function = self.leave_to(outer);
        self.shared.ir.subprograms.push(function);
        Repeated { function: FunctionId(self.shared.ir.subprograms.len() as u32 - 1), signal }
    }

    fn enter(
        &mut self,
        b: FunctionBuilder,
        vars: Vec<Option<VarPlace>>,
        frame: FramePlace,
        exit: BlockId,
        scratch: Option<VReg>,
    ) -> Outer {
        Outer {
            b: std::mem::replace(&mut self.b, b),
            vars: std::mem::replace(&mut self.vars, vars),
            targets: std::mem::take(&mut self.targets),
            frame: self.frame.replace(frame),
            signal: self.signal.take(),
            exit: std::mem::replace(&mut self.exit, exit),
            in_handler: std::mem::take(&mut self.in_handler),
            scratch: std::mem::replace(&mut self.scratch, scratch),
            stack_used_bytes: std::mem::take(&mut self.stack_used_bytes),
            lookups: std::mem::take(&mut self.lookups),
            depth: std::mem::take(&mut self.depth),
        }
    }

    /// Goes on with the function around; the one that was made.
    fn leave_to(&mut self, outer: Outer) -> ir::Function {
        self.vars = outer.vars;
        self.targets = outer.targets;
        self.frame = outer.frame;
        self.signal = outer.signal;
        self.exit = outer.exit;
        self.in_handler = outer.in_handler;
        self.scratch = outer.scratch;
        self.stack_used_bytes = outer.stack_used_bytes;
        self.lookups = outer.lookups;
        self.depth = outer.depth;
        std::mem::replace(&mut self.b, outer.b).finish()
    }

    /// The frame for a subprogram, filled.
    pub(super) fn frame(&mut self) -> Arg {
        let slot = match self.frame {
            Some(FramePlace::Given(frame)) => return frame.into(),
            Some(FramePlace::Own(slot)) => slot,
            None => self.b.slot(FRAME_BYTES, 8, "frame"),
        };
        self.frame = Some(FramePlace::Own(slot));
        self.fill_frame(slot);
        slot.into()
    }

    /// Puts into a frame what subprograms need.
    pub(super) fn fill_frame(&mut self, slot: SlotId) {
        let context = self.b.context();
        self.b.store(Addr::slot(slot, FRAME_CONTEXT), context, Size::B8);
        if let Some(scratch) = self.scratch {
            self.b.store(Addr::slot(slot, FRAME_SCRATCH), scratch, Size::B8);
        }
    }

    /// Runs a subprogram so many times.
    pub(super) fn run_rounds(&mut self, repeated: Repeated, rounds: Operand) {
        let frame = self.frame();
        let args = [Arg::Value(rounds), Arg::Function(repeated.function), frame, Arg::Value(0.into())];
        self.b.call_void(Helper::Loop, &args);
    }

    /// Runs a loop with its signal: before it, nothing has ended.
    pub(super) fn run(&mut self, repeated: Repeated, call: impl FnOnce(&mut Self), is_bounded: bool) {
        if let Some(signal) = repeated.signal {
            let at = self.scratch_at(signal);
            self.b.store(at, 0, Size::B8);
        }
        call(self);
        // What the loop's code did to maps is not looked into.
        self.lookups.clear();
        let Some(signal) = repeated.signal else { return };
        let at = self.scratch_at(signal);
        let ended = self.b.load(at, Size::B8);
        if !is_bounded {
            let (cut, go_on) = (self.b.new_block(), self.b.new_block());
            self.b.branch(CmpOp::Eq, Width::W64, ended, 0, cut, go_on, Likely::Otherwise);
            self.b.switch_to(cut);
            self.count_loss(Loss::Rounds { program: self.index });
            self.b.jump(go_on);
            self.b.switch_to(go_on);
        }
        let (left, go_on) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W64, ended, LEFT, left, go_on, Likely::Otherwise);
        self.b.switch_to(left);
        self.leave();
        self.b.switch_to(go_on);
    }

    /// In a loop, leaving the probe is told to the code around it.
    pub(super) fn note_leaving(&mut self) {
        if let (Some(FramePlace::Given(_)), None) = (self.frame, self.signal) {
            self.signal = Some(self.scratch_room(8));
        }
    }

    pub(super) fn jump_to(&mut self, which: impl FnOnce(&Targets) -> BlockId) {
        if let Some(targets) = self.targets.last() {
            let to = which(targets);
            self.b.jump(to);
        }
    }

    /// The statements of a round: `break` ends the subprogram with 1, `continue` with 0.
    fn round(&mut self, body: &[Stmt]) {
        let targets = Targets { leave: self.b.new_block(), next: self.b.new_block() };
        self.round_between(targets, body);
        self.b.switch_to(targets.leave);
        self.b.ret(1);
    }

    fn round_between(&mut self, targets: Targets, body: &[Stmt]) {
        self.targets.push(targets);
        self.stmts(body);
        self.targets.pop();
        self.b.jump(targets.next);
        self.b.switch_to(targets.next);
        self.b.ret(0);
    }

    pub(super) fn for_range(&mut self, var: VarIndex, start: &Expr, end: &Expr, body: &[Stmt]) {
        let (start, end) = (self.scalar(start), self.scalar(end));
        let rounds = self.rounds(start, end);
        if rounds == Operand::Imm(0) {
            return;
        }
        let first = match start {
            Operand::Imm(_) => None,
            Operand::Reg(_) => Some(self.scratch_room(8)),
        };
        if let Some(offset) = first {
            let at = self.scratch_at(offset);
            self.b.store(at, start, Size::B8);
        }
        let repeated = self.subprogram(Role::Iteration, "range", |cx, given| {
            let start = match first {
                None => start,
                Some(offset) => {
                    let at = cx.scratch_at(offset);
                    cx.b.load(at, Size::B8).into()
                }
            };
            let value = cx.b.bin(BinOp::Add, Width::W64, given[0], start);
            cx.write_var(var, value.into());
            cx.round(body);
        });
        self.run(repeated, |cx| cx.run_rounds(repeated, rounds), true);
    }

    /// How many rounds a range has; more than the kernel allows are cut, and counted.
    fn rounds(&mut self, start: Operand, end: Operand) -> Operand {
        let most = i64::from(MAX_ROUNDS);
        if let (Operand::Imm(start), Operand::Imm(end)) = (start, end)
            && end.saturating_sub(start) <= most
        {
            return Operand::Imm(end.saturating_sub(start).max(0));
        }
        let rounds = self.b.copy(0);
        let (some, many, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::SLt, Width::W64, start, end, some, done, Likely::Then);
        self.b.switch_to(some);
        let length = self.b.bin(BinOp::Sub, Width::W64, end, start);
        self.b.assign(rounds, length);
        self.b.branch(CmpOp::Gt, Width::W64, rounds, most, many, done, Likely::Otherwise);
        self.b.switch_to(many);
        self.count_loss(Loss::Rounds { program: self.index });
        self.b.assign(rounds, most);
        self.b.jump(done);
        self.b.switch_to(done);
        // Verifier: where it knows that there are no rounds, it takes the subprogram for dead code and stumbles over its
        // address. Of what was in scratch memory it knows nothing.
        let room = self.scratch_room(8);
        let at = self.scratch_at(room);
        self.b.store(at, rounds, Size::B8);
        self.b.load(at, Size::B8).into()
    }

    pub(super) fn while_loop(&mut self, cond: &Expr, body: &[Stmt]) {
        let repeated = self.subprogram(Role::Iteration, "while", |cx, _| {
            let signal = cx.scratch_room(8);
            cx.signal = Some(signal);
            let targets = Targets { leave: cx.b.new_block(), next: cx.b.new_block() };
            let holds = cx.b.new_block();
            cx.branch_on(cond, holds, targets.leave);
            cx.b.switch_to(holds);
            cx.round_between(targets, body);
            cx.b.switch_to(targets.leave);
            let at = cx.scratch_at(signal);
            cx.b.store(at, ENDED, Size::B8);
            cx.b.ret(1);
        });
        let rounds = Operand::Imm(i64::from(MAX_ROUNDS));
        self.run(repeated, |cx| cx.run_rounds(repeated, rounds), false);
    }

    pub(super) fn for_map(&mut self, var: VarIndex, map: MapIndex, body: &[Stmt]) {
        let id = match self.map_place(map) {
            Place::Map { id, .. } => id,
            Place::Threads { id, .. } => {
                return self.for_threads(id, "states", |cx, thread, value| {
                    cx.take_entry(var, map, thread, value);
                    cx.round(body);
                });
            }
            Place::Global { .. } => return,
        };
        let repeated = self.subprogram(Role::Entry, "map", |cx, given| {
            cx.take_entry(var, map, given[1], given[2]);
            cx.round(body);
        });
        self.run(
            repeated,
            |cx| {
                let frame = cx.frame();
                let args = [Arg::Map(id), Arg::Function(repeated.function), frame, Arg::Value(0.into())];
                cx.b.call_void(Helper::ForEachMapElem, &args);
            },
            true,
        );
    }

    /// Copies what is used of an entry: another CPU, or the loop itself, may change or remove it meanwhile.
    fn take_entry(&mut self, var: VarIndex, map: MapIndex, key: VReg, value: VReg) {
        let Type::Tuple(parts) = &self.probe.vars[var.0].ty else { return };
        let [key_type, value_type] = parts.as_slice() else { return };
        let Some(to) = self.var_address(var) else { return };
        let ty = &self.probe.vars[var.0].ty;
        let (whole, offsets) = layout::tuple(parts, self.shared.target.btf_if_needed(ty));
        let (key_bytes, value_bytes) = (self.layout(key_type).size_bytes, self.layout(value_type).size_bytes);
        let (uses_key, uses_value) = self.captures.used_parts(var.0, offsets[1]);
        if uses_key && uses_value && key_bytes + value_bytes != whole.size_bytes {
            // Padding is part of a key, should the whole become one.
            self.zero(to, whole.size_bytes);
        }
        if uses_key {
            self.copy(to, Addr::reg(key, 0), key_bytes);
        }
        if uses_value {
            let at = to.plus(offsets[1] as i32);
            match self.entry_value(map, key, key_bytes) {
                Some(sum) => self.store(Value::Scalar(sum), value_type, at),
                None => self.copy(at, Addr::reg(value, 0), value_bytes),
            }
        }
    }

    pub(super) fn unroll(&mut self, copies: &[Vec<Stmt>]) {
        if !copies.iter().any(|body| may_jump(body)) {
            for body in copies {
                self.stmts(body);
            }
            return;
        }
        let leave = self.b.new_block();
        for body in copies {
            let next = self.b.new_block();
            self.targets.push(Targets { leave, next });
            // What stands behind a jump may not run.
            self.conditionally(|cx| cx.stmts(body));
            self.targets.pop();
            self.b.jump(next);
            self.b.switch_to(next);
        }
        self.b.jump(leave);
        self.b.switch_to(leave);
    }
}

/// Whether `break` or `continue` of the loop around may be among the statements.
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
        | StmtKind::While(..)
        | StmtKind::Clear(_)
        | StmtKind::Return
        | StmtKind::Span(_) => false,
    })
}
