//! Statements.
//!
//! In: typed statements. Out: instructions appended to the function.

use crate::ir::{Addr, Section, Size};
use crate::lower::Body;
use crate::typed::{Expr, ExprKind, Stmt, StmtKind, VarIndex};

impl Body<'_, '_> {
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            let outer = self.b.set_span(stmt.span);
            self.stmt(&stmt.kind);
            self.b.set_span(outer);
        }
    }

    fn stmt(&mut self, kind: &StmtKind) {
        match kind {
            StmtKind::Expr(e) => self.effect(e),
            StmtKind::AssignVar(var, value) => self.assign_var(*var, value),
            StmtKind::AssignMap(map, key, value) => self.assign_map(*map, key.as_ref(), value),
            StmtKind::UpdateMap(map, key, op, value) => self.update_map(*map, key.as_ref(), *op, value),
            StmtKind::AssignField(field, value) => self.assign_field(field, value),
            StmtKind::UpdateField(field, op, value) => self.update_field(field, *op, value),
            StmtKind::Aggregate(map, key, args) => self.aggregate(*map, key.as_ref(), args),
            StmtKind::If(cond, then, otherwise) => self.if_else(cond, then, otherwise),
            StmtKind::Block(body) => self.stmts(body),
            StmtKind::Clear(var) => self.clear_var(*var),
            StmtKind::Unroll(copies) => self.unroll(copies),
            StmtKind::ForRange { var, start, end, body } => self.for_range(*var, start, end, body),
            StmtKind::ForMap { var, map, body } => self.for_map(*var, *map, body),
            StmtKind::While(cond, body) => self.while_loop(cond, body),
            StmtKind::Break => self.jump_to(|targets| targets.leave),
            StmtKind::Continue => self.jump_to(|targets| targets.next),
            StmtKind::Result(value) => self.keep_result(value),
            StmtKind::Return => self.leave(),
            StmtKind::Span(step) => self.span_step(step),
        }
    }

    /// Evaluates an expression whose value nobody wants.
    fn effect(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::StepMap { map, key, by, .. } => self.step_map(*map, key.as_deref(), *by, None),
            ExprKind::StepField { field, by, .. } => self.step_field(field, *by, None),
            _ => {
                self.expr(e);
            }
        }
    }

    /// Leaves the value of a test or a benchmark where the runtime looks for it. In `.bss` and not in the program's own result,
    /// for a loop's function may be what returns.
    fn keep_result(&mut self, value: &Expr) {
        let value = self.scalar(value);
        let offset = self.result_offset();
        let base = self.b.data_addr(Section::Bss, offset);
        self.b.store(Addr::reg(base, 0), value, Size::B8);
    }

    pub(super) fn assign_var(&mut self, var: VarIndex, value: &Expr) {
        match self.var_address(var) {
            None => {
                let value = self.scalar(value);
                self.write_var(var, value);
            }
            Some(addr) => {
                let ty = self.probe.vars[var.0].ty.clone();
                let reads_itself = value.any(&|part| matches!(part, ExprKind::Var(read) if *read == var));
                self.replace(value, &ty, addr, reads_itself);
            }
        }
    }

    fn if_else(&mut self, cond: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        let (yes, done) = (self.b.new_block(), self.b.new_block());
        let no = if otherwise.is_empty() { done } else { self.b.new_block() };
        self.branch_on(cond, yes, no);
        self.b.switch_to(yes);
        self.conditionally(|cx| cx.stmts(then));
        self.b.jump(done);
        if !otherwise.is_empty() {
            self.b.switch_to(no);
            self.conditionally(|cx| cx.stmts(otherwise));
            self.b.jump(done);
        }
        self.b.switch_to(done);
    }
}
