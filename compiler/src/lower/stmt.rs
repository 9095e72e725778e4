//! Statements.
//!
//! In: typed statements. Out: instructions appended to the function.

use crate::ir::{Addr, Section, Size};
use crate::lower::{Body, aggregates, conditions, loops, maps, records, spans, variables, windows};
use crate::typed::{Expr, ExprKind, Stmt, StmtKind};

impl Body<'_, '_> {
    /// Lowers statements.
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            let outer = self.b.set_span(stmt.span);
            lower(self, &stmt.kind);
            self.b.set_span(outer);
        }
    }
}

/// Lowers the probe's predicate and statements, up to the exit block.
pub(super) fn predicate_and_statements(cx: &mut Body<'_, '_>) {
    variables::declare(cx);
    if let Some(predicate) = &cx.probe.predicate {
        let (body, exit) = (cx.b.new_block(), cx.function.exit);
        conditions::branch_on(cx, predicate, body, exit);
        cx.b.switch_to(body);
    }
    cx.stmts(&cx.probe.body);
    cx.b.jump(cx.function.exit);
}

/// The `.bss` offset of the value that a test or a benchmark returned.
fn result_offset(cx: &mut Body<'_, '_>) -> u32 {
    cx.shared.word(|shared| &mut shared.result)
}

pub(super) fn lower(cx: &mut Body<'_, '_>, kind: &StmtKind) {
    match kind {
        StmtKind::Expr(e) => effect(cx, e),
        StmtKind::AssignVar(var, value) => variables::assign(cx, *var, value),
        StmtKind::AssignMap(map, key, value) => maps::assign(cx, *map, key.as_ref(), value),
        StmtKind::UpdateMap(map, key, op, value) => maps::modify(cx, *map, key.as_ref(), *op, value),
        StmtKind::AssignField(field, value) => records::assign(cx, field, value),
        StmtKind::UpdateField(field, op, value) => records::modify(cx, field, *op, value),
        StmtKind::Aggregate(map, key, args) => aggregates::update(cx, *map, key.as_ref(), args),
        StmtKind::If(cond, then, otherwise) => if_else(cx, cond, then, otherwise),
        StmtKind::Block(body) => {
            let inside = body.first().map(|first| first.span);
            cx.within(inside, |cx| cx.stmts(body));
        }
        StmtKind::Clear(var) => variables::clear(cx, *var),
        StmtKind::Unroll(copies) => loops::unroll(cx, copies),
        StmtKind::ForRange { var, start, end, body } => loops::for_range(cx, *var, start, end, body),
        StmtKind::ForMap { var, map, body } => loops::for_map(cx, *var, *map, body),
        StmtKind::ForSpan { span, key, values, body } => spans::walk::for_span(cx, *span, *key, values, body),
        StmtKind::While(cond, body) => loops::while_loop(cx, cond, body),
        StmtKind::Break => loops::jump_to(cx, |targets| targets.leave),
        StmtKind::Continue => loops::jump_to(cx, |targets| targets.next),
        StmtKind::Result(value) => keep_result(cx, value),
        StmtKind::Return => cx.leave(),
        StmtKind::Span(step) => spans::lower_step(cx, step),
        StmtKind::Turn(groups) => windows::turn(cx, groups),
        StmtKind::TurnEnd(groups) => windows::turn_end(cx, groups),
    }
}

/// Evaluates an expression whose value is not used.
fn effect(cx: &mut Body<'_, '_>, e: &Expr) {
    match &e.kind {
        ExprKind::StepMap { map, key, by, .. } => maps::step(cx, *map, key.as_deref(), *by, None),
        ExprKind::StepField { field, by, .. } => records::step(cx, field, *by, None),
        ExprKind::Call(call) => {
            let outer = cx.b.set_span(e.span);
            cx.shared.catalogue.function_of(&call.word).lower_unused(cx, call, &e.ty);
            cx.b.set_span(outer);
        }
        _ => {
            cx.expr(e);
        }
    }
}

/// Stores the result of a test or a benchmark where the runtime reads it. It is in `.bss` and
/// not the program's return value, because a loop's function may be what returns.
fn keep_result(cx: &mut Body<'_, '_>, value: &Expr) {
    let value = cx.scalar(value);
    let offset = result_offset(cx);
    let base = cx.b.data_addr(Section::Bss, offset);
    cx.b.store(Addr::reg(base, 0), value, Size::B8);
}

fn if_else(cx: &mut Body<'_, '_>, cond: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
    let (yes, done) = (cx.b.new_block(), cx.b.new_block());
    let no = if otherwise.is_empty() { done } else { cx.b.new_block() };
    conditions::branch_on(cx, cond, yes, no);
    cx.b.switch_to(yes);
    cx.conditionally(|cx| cx.stmts(then));
    cx.b.jump(done);
    if !otherwise.is_empty() {
        cx.b.switch_to(no);
        cx.conditionally(|cx| cx.stmts(otherwise));
        cx.b.jump(done);
    }
    cx.b.switch_to(done);
}
