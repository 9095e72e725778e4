//! Loops.
//!
//! In: loop statements of the tree. Out: typed ones.
//! Guarantee: `break` and `continue` stand in a loop; a map that is gone over has keys and values that can be read; loops
//! are no deeper than the kernel's calls.

use crate::ast::{Expr, Ident, Stmt, StmtKind};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::object::Attach;
use crate::source::Span;
use crate::typed::{self, MapValue};
use crate::types::{Int, Type};

/// `unroll` copies its body; bpftrace has the same limit.
const MAX_UNROLL: i64 = 100;

/// Most copies in one probe, where `unroll` stands inside `unroll`: more would not fit into a BPF program anyway.
const MAX_COPIES: u32 = 10_000;

/// The kernel gives a program eight frames: one for the program, one a loop, one for a loop of our own over CPUs.
const MAX_DEPTH: u32 = 6;

/// The loops around some code.
#[derive(Debug, Default, Clone, Copy)]
pub struct Loops {
    /// All of them.
    all: u32,
    /// Those that are more than copies of their body: they run as functions of their own.
    running: u32,
}

impl Body<'_, '_> {
    /// The word of a statement behind which its block never goes on.
    pub(super) fn leaves(&self, kind: &StmtKind) -> Option<&'static str> {
        match kind {
            StmtKind::Return(_) => Some("return"),
            StmtKind::Break if self.loops.all > 0 => Some("break"),
            StmtKind::Continue if self.loops.all > 0 => Some("continue"),
            _ => None,
        }
    }

    /// Reports a stack of the kernel that would begin with the frames of a loop: a raw tracepoint has no registers to begin
    /// at, and how many frames a loop has differs from kernel to kernel.
    pub fn refuse_stack_in_loop(&mut self, span: Span) -> bool {
        let refused = self.loops.running > 0 && matches!(self.seed.attach, Attach::RawTracepoint { .. });
        if refused {
            let message = "inside a loop, this probe's stack would begin with frames of the loop itself";
            let help = "take it before the loop, with `$stack = kstack;`, and use `$stack`";
            self.error(Diagnostic::error(Code(365), span, message).help(help));
        }
        refused
    }

    pub(super) fn loop_statement(&mut self, stmt: &Stmt) -> Option<typed::StmtKind> {
        match &stmt.kind {
            StmtKind::Unroll { count, body } => self.unroll(count, body),
            StmtKind::While { cond, body } => self.repeated(stmt.span, |cx| {
                let cond = cx.condition(cond);
                Some(typed::StmtKind::While(cond, cx.scoped(body)))
            }),
            StmtKind::ForRange { name, start, end, body } => self.for_range(name, start, end, body, stmt.span),
            StmtKind::ForMap { name, map, body } => self.for_map(name, map, body, stmt.span),
            StmtKind::Break if self.loops.all > 0 => Some(typed::StmtKind::Break),
            StmtKind::Continue if self.loops.all > 0 => Some(typed::StmtKind::Continue),
            _ => {
                let message = "there is no loop to leave or to continue here";
                self.error(Diagnostic::error(Code(313), stmt.span, message));
                None
            }
        }
    }

    fn unroll(&mut self, count: &Expr, body: &[Stmt]) -> Option<typed::StmtKind> {
        let Some(times @ 1..=MAX_UNROLL) = self.constant_int(count) else {
            let message = format!("`unroll` repeats a constant number of times, from 1 to {MAX_UNROLL}");
            self.error(Diagnostic::error(Code(315), count.span, message));
            return None;
        };
        let outer = self.loops;
        self.loops.all += 1;
        let mut copies = Vec::new();
        for _ in 0..times {
            if self.copies == MAX_COPIES {
                let message = format!("program too large: `unroll` makes more than {MAX_COPIES} copies in this probe");
                self.error(Diagnostic::error(Code(510), count.span, message).help("repeat less often"));
                break;
            }
            self.copies += 1;
            copies.push(self.scoped(body));
        }
        self.loops = outer;
        Some(typed::StmtKind::Unroll(copies))
    }

    /// Checks what runs in a loop of its own.
    fn repeated(
        &mut self,
        span: Span,
        check: impl FnOnce(&mut Self) -> Option<typed::StmtKind>,
    ) -> Option<typed::StmtKind> {
        if self.loops.running == MAX_DEPTH {
            let message = format!("this loop is inside {MAX_DEPTH} others, and the kernel allows no more");
            self.error(Diagnostic::error(Code(364), span, message).help("take the inner loops apart"));
            return None;
        }
        let outer = self.loops;
        self.loops = Loops { all: outer.all + 1, running: outer.running + 1 };
        let checked = check(self);
        self.loops = outer;
        checked
    }

    /// Checks a loop's body with the loop's variable in reach.
    fn with_variable(&mut self, name: &Ident, ty: Type, body: &[Stmt]) -> (typed::VarIndex, Vec<typed::Stmt>) {
        if self.find_var(&name.text).is_some() {
            let message = format!("`${}` is a variable already, so the loop cannot have one of this name", name.text);
            self.error(Diagnostic::error(Code(363), name.span, message).help("use another name"));
        }
        self.in_scope(&[], |cx, _| {
            let var = cx.declare(&name.text, ty);
            (var, cx.scoped(body))
        })
    }

    fn for_range(
        &mut self,
        name: &Ident,
        start: &Expr,
        end: &Expr,
        body: &[Stmt],
        span: Span,
    ) -> Option<typed::StmtKind> {
        let (start, end) = (self.bound(start), self.bound(end));
        self.repeated(span, |cx| {
            let (var, body) = cx.with_variable(name, Type::I64, body);
            Some(typed::StmtKind::ForRange { var, start, end, body })
        })
    }

    fn bound(&mut self, e: &Expr) -> typed::Expr {
        let checked = self.expr(e);
        if matches!(checked.ty, Type::Int(_) | Type::Enum { .. } | Type::Unknown) {
            return Self::convert(checked, &Type::I64);
        }
        let message = format!("a range goes from one integer to another, this is {}", self.one(&checked.ty));
        self.fail(Diagnostic::error(Code(362), e.span, message))
    }

    fn for_map(&mut self, name: &Ident, map: &Expr, body: &[Stmt], span: Span) -> Option<typed::StmtKind> {
        // The parser lets nothing else stand here.
        let index = self.whole_map(map)?;
        // What is wrong in the loop is told as well.
        self.is_walkable(index, "`for`", map.span);
        let info = self.env.maps.get(index);
        if info.key == Some(None) {
            let message = format!("`{}` has no keys to go over", info.name);
            let (first, help) = (info.key_span, format!("use its value: `{}`", info.name));
            let diagnostic = Diagnostic::error(Code(361), map.span, message).help(help);
            self.error(diagnostic.related(first, "used without a key here"));
            return None;
        }
        let key = info.key.clone().flatten();
        let value = match info.value.clone() {
            None => None,
            Some(MapValue::Plain(ty)) => Some(ty),
            Some(MapValue::Aggregate { word, signed, .. }) if word.reading().is_some() => {
                Some(Type::Int(Int { size_bytes: 8, signed }))
            }
            Some(MapValue::Aggregate { word, .. }) => {
                let message = format!("the values of `{}()` cannot be read inside a probe", word.name());
                let help = "print the map with `print(@x)`; count(), sum(), min(), max() and avg() can be read";
                self.error(Diagnostic::error(Code(392), map.span, message).help(help));
                return None;
            }
        };
        // Until the map's other uses have told both, nothing is said of the variable.
        let ty = match (key, value) {
            (Some(key), Some(value)) if value != Type::Unknown => Type::Tuple(vec![key, value]),
            _ => Type::Unknown,
        };
        self.repeated(span, |cx| {
            let (var, body) = cx.with_variable(name, ty, body);
            Some(typed::StmtKind::ForMap { var, map: index, body })
        })
    }
}
