//! Finds the variables that a probe's loops share with the code around them.
//!
//! In: a typed probe. Out: for each variable, which functions mention it and which parts they use;
//! the nesting depth of loops; whether stacks are captured.
//! Guarantee: reports `Several` whenever two functions (the probe's and its loops') mention a
//! variable, or its address is taken: it then has a place in memory.

use crate::typed::{Expr, ExprKind, MapIndex, Probe, SpanAction, SpanStep, SpanValues, Stmt, StmtKind, VarIndex};
use crate::types::Type;

/// Which functions mention a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mentions {
    /// The probe's own function, or none.
    Probe,
    /// One loop's function.
    Loop,
    /// More than one function.
    Several,
}

/// Uses of one variable.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    /// The function that mentions it; the probe's own is 0.
    function: Option<u32>,
    is_shared: bool,
    /// Whether it is used as a whole. `parts`: the start offsets of the first and of the last part
    /// used.
    whole: bool,
    parts: Option<(u32, u32)>,
}

/// Variables that a probe's loops share with the code around them, and the depth of its loops.
#[derive(Debug, Default)]
pub(super) struct Captures {
    /// Maps that are read in a loop of our own.
    looped: Vec<bool>,
    vars: Vec<Uses>,
    depth: u32,
    has_stacks: bool,
    /// During the scan: the current function, the number of functions so far, the current depth.
    function: u32,
    functions: u32,
    here: u32,
}

impl Captures {
    /// Scans a probe. `looped` says for each map whether reading it takes a loop.
    pub(super) fn of(probe: &Probe, looped: Vec<bool>) -> Captures {
        let vars = vec![Uses::default(); probe.vars.len()];
        let mut captures = Captures { looped, vars, ..Captures::default() };
        captures.exprs(&probe.predicate);
        captures.stmts(&probe.body);
        captures
    }

    /// Which functions mention a variable.
    pub(super) fn of_var(&self, var: usize) -> Mentions {
        match self.vars.get(var) {
            Some(uses) if uses.is_shared => Mentions::Several,
            Some(Uses { function: Some(1..), .. }) => Mentions::Loop,
            _ => Mentions::Probe,
        }
    }

    /// Whether parts of a tuple before this offset are used, and whether parts from there on are.
    pub(super) fn used_parts(&self, var: usize, offset_bytes: u32) -> (bool, bool) {
        let uses = self.vars.get(var).copied().unwrap_or_default();
        let before = uses.parts.is_some_and(|(first, _)| first < offset_bytes);
        let behind = uses.parts.is_some_and(|(_, last)| last >= offset_bytes);
        (uses.whole || before, uses.whole || behind)
    }

    /// The nesting depth of loops.
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether any value is a stack.
    pub(super) fn has_stacks(&self) -> bool {
        self.has_stacks
    }

    fn mention(&mut self, var: usize) {
        let function = self.function;
        if let Some(uses) = self.vars.get_mut(var) {
            uses.is_shared |= *uses.function.get_or_insert(function) != function;
        }
    }

    fn read(&mut self, map: MapIndex) {
        if self.looped.get(map.0) == Some(&true) {
            self.depth = self.depth.max(self.here + 1);
        }
    }

    /// Scans code that becomes a function of its own.
    fn in_loop(&mut self, look: impl FnOnce(&mut Self)) {
        self.functions += 1;
        let outer = std::mem::replace(&mut self.function, self.functions);
        self.here += 1;
        self.depth = self.depth.max(self.here);
        look(self);
        self.here -= 1;
        self.function = outer;
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(&stmt.kind);
        }
    }

    fn stmt(&mut self, stmt: &StmtKind) {
        match stmt {
            StmtKind::Expr(e) | StmtKind::Result(e) => self.expr(e),
            StmtKind::AssignVar(var, value) => {
                self.mention(var.0);
                self.expr(value);
            }
            StmtKind::AssignMap(_, key, value) | StmtKind::UpdateMap(_, key, _, value) => {
                self.exprs(key);
                self.expr(value);
            }
            StmtKind::AssignField(field, value) | StmtKind::UpdateField(field, _, value) => {
                self.key(field.key.as_deref());
                self.expr(value);
            }
            StmtKind::Aggregate(_, key, values) => {
                self.exprs(key);
                self.exprs(values);
            }
            StmtKind::If(cond, then, otherwise) => {
                self.expr(cond);
                self.stmts(then);
                self.stmts(otherwise);
            }
            StmtKind::Block(body) => self.stmts(body),
            StmtKind::Clear(var) => self.mention(var.0),
            StmtKind::Unroll(copies) => {
                for body in copies {
                    self.stmts(body);
                }
            }
            StmtKind::ForRange { var, start, end, body } => {
                self.expr(start);
                self.expr(end);
                self.in_loop(|captures| {
                    captures.mention(var.0);
                    captures.stmts(body);
                });
            }
            StmtKind::ForMap { var, map, body } => self.in_loop(|captures| {
                captures.read(*map);
                captures.mention(var.0);
                captures.stmts(body);
            }),
            StmtKind::ForSpan { key, values, body, .. } => self.in_loop(|captures| {
                captures.whole(*key);
                captures.span_values(values);
                captures.stmts(body);
            }),
            StmtKind::While(cond, body) => self.in_loop(|captures| {
                captures.expr(cond);
                captures.stmts(body);
            }),
            StmtKind::Span(step) if step.action == SpanAction::Sweep => self.in_loop(|captures| captures.span(step)),
            StmtKind::Span(step) => self.span(step),
            StmtKind::Break | StmtKind::Continue | StmtKind::Return | StmtKind::Turn(_) | StmtKind::TurnEnd(_) => {}
        }
    }

    fn span(&mut self, step: &SpanStep) {
        self.whole(step.key);
        self.span_values(&step.values);
        for keep in &step.keeps {
            self.whole(keep.var);
            self.expr(&keep.value);
        }
        for handler in &step.handlers {
            self.stmts(handler);
        }
        if let Some(evicted) = &step.evicted {
            self.in_loop(|captures| {
                captures.whole(evicted.key);
                captures.span_values(&evicted.values);
                evicted.handlers.iter().for_each(|handler| captures.stmts(handler));
            });
        }
        if let Some((values, handlers)) = &step.replaced {
            self.span_values(values);
            for handler in handlers {
                self.stmts(handler);
            }
        }
    }

    fn span_values(&mut self, values: &SpanValues) {
        let kept = values.kept.iter().map(|(_, var)| *var);
        for var in values.elapsed.into_iter().chain(values.lap).chain(kept) {
            self.whole(var);
        }
    }

    fn whole(&mut self, var: VarIndex) {
        self.mention(var.0);
        if let Some(uses) = self.vars.get_mut(var.0) {
            uses.whole = true;
        }
    }

    fn key(&mut self, key: Option<&Expr>) {
        if let Some(key) = key {
            self.expr(key);
        }
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) {
        for e in exprs {
            self.expr(e);
        }
    }

    fn expr(&mut self, e: &Expr) {
        self.has_stacks |= matches!(e.ty, Type::Stack(_));
        match &e.kind {
            ExprKind::Var(var) => {
                self.mention(var.0);
                self.vars[var.0].whole = true;
            }
            ExprKind::Part { base, offset_bytes } if matches!(base.kind, ExprKind::Var(_)) => {
                let ExprKind::Var(var) = base.kind else { return };
                self.mention(var.0);
                let (first, last) = self.vars[var.0].parts.unwrap_or((*offset_bytes, *offset_bytes));
                self.vars[var.0].parts = Some((first.min(*offset_bytes), last.max(*offset_bytes)));
            }
            ExprKind::StepVar { var, .. } => self.mention(var.0),
            ExprKind::Map(map, key) => {
                self.read(*map);
                self.key(key.as_deref());
            }
            ExprKind::StepMap { key, .. } => self.key(key.as_deref()),
            ExprKind::StepField { field, .. } => self.key(field.key.as_deref()),
            ExprKind::Exchange(field, value) => {
                self.key(field.key.as_deref());
                self.expr(value);
            }
            ExprKind::Call(call) => self.exprs(&call.args),
            ExprKind::AddressOf(inner) => {
                self.expr(inner);
                if let ExprKind::Var(var) = inner.kind {
                    self.vars[var.0].is_shared = true;
                }
            }
            ExprKind::Unary(_, inner)
            | ExprKind::Matches(inner, _)
            | ExprKind::Convert(inner)
            | ExprKind::Deref { base: inner, .. }
            | ExprKind::Part { base: inner, .. } => self.expr(inner),
            ExprKind::Binary(_, a, b)
            | ExprKind::Element { base: a, index: b, .. }
            | ExprKind::PartAt { base: a, index: b, .. } => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Ternary(cond, a, b) => {
                for e in [cond, a, b] {
                    self.expr(e);
                }
            }
            ExprKind::Tuple(parts) => self.exprs(parts),
            ExprKind::Block(body, value) => {
                self.stmts(body);
                self.expr(value);
            }
            ExprKind::Int(_)
            | ExprKind::Str(_)
            | ExprKind::Builtin(..)
            | ExprKind::Param(_)
            | ExprKind::ContextField(_)
            | ExprKind::ContextData(_)
            | ExprKind::ContextArg(_)
            | ExprKind::Register(_)
            | ExprKind::SyscallRegister(_) => {}
        }
    }
}
