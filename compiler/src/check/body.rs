//! Statements of one program's body.
//!
//! In: a block and the [`Seed`] of one program for it. Out: a [`typed::Probe`].
//! Guarantee: variables keep their index from round to round, so that inference converges.

use std::collections::BTreeMap;

use crate::ast::{Expr, ExprKind, Ident, ProbeBlock, Stmt, StmtKind, UnaryOp};
use crate::check::loops::Loops;
use crate::check::{Env, Seed, unify};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::typed::{self, VarIndex};
use crate::types::Type;
use crate::units::Unit;

/// A body being checked.
#[derive(Debug)]
pub struct Body<'a, 'e> {
    /// What all bodies share.
    pub env: &'a mut Env<'e>,
    /// The program that the body is for.
    pub seed: &'a Seed,
    vars: Vec<typed::Var>,
    /// Variables declared so far in this round.
    declared: usize,
    /// What variables count, as far as it is known in this round.
    units: BTreeMap<VarIndex, Option<Unit>>,
    /// Variables whose type was declared.
    fixed: Vec<VarIndex>,
    scopes: Vec<Vec<(String, VarIndex)>>,
    /// Copies made by `unroll` so far in this round.
    pub(super) copies: u32,
    /// Loops around the present code: those that can be left, and those among them that run.
    pub(super) loops: Loops,
    /// Whether a condition that is known to fail is around what is being checked.
    pub unreachable: bool,
    /// The events of spans whose handlers are being checked, the innermost last.
    pub(super) events: Vec<super::spans::Active>,
}

impl<'a, 'e> Body<'a, 'e> {
    /// A body whose variables had these types in the round before.
    pub fn new(env: &'a mut Env<'e>, seed: &'a Seed, vars: Vec<typed::Var>) -> Body<'a, 'e> {
        Body {
            env,
            seed,
            vars,
            declared: 0,
            units: BTreeMap::new(),
            fixed: Vec::new(),
            scopes: vec![Vec::new()],
            copies: 0,
            unreachable: false,
            events: Vec::new(),
            loops: Loops::default(),
        }
    }

    /// Checks the block.
    pub fn check(mut self, block: &ProbeBlock) -> typed::Probe {
        let predicate = block.predicate.as_ref().map(|e| self.condition(e));
        let body = self.stmts(&block.body);
        self.probe(predicate, body, block.span)
    }

    /// The program of the seed, with this body.
    pub(super) fn probe(self, predicate: Option<typed::Expr>, body: Vec<typed::Stmt>, span: Span) -> typed::Probe {
        let seed = self.seed;
        typed::Probe {
            names: seed.names.clone(),
            points: seed.points,
            attach: seed.attach.clone(),
            section: seed.section.clone(),
            context: seed.context.clone(),
            only_pid: if seed.filter_pid { self.env.options.pid } else { None },
            predicate,
            body,
            vars: self.vars,
            span,
        }
    }

    /// Reports a diagnostic.
    pub fn error(&mut self, diagnostic: Diagnostic) {
        self.env.report.push(diagnostic);
    }

    /// The expression that stands for a mistake: it stops a cascade.
    pub fn poison(span: Span) -> typed::Expr {
        typed::Expr { kind: typed::ExprKind::Int(0), ty: Type::Unknown, span }
    }

    /// Reports a diagnostic and yields poison.
    pub fn fail(&mut self, diagnostic: Diagnostic) -> typed::Expr {
        let span = diagnostic.span;
        self.error(diagnostic);
        Self::poison(span)
    }

    /// Statements in the present scope.
    pub fn stmts(&mut self, stmts: &[Stmt]) -> Vec<typed::Stmt> {
        let mut checked = Vec::with_capacity(stmts.len());
        for (index, stmt) in stmts.iter().enumerate() {
            self.hoist(stmt, &stmts[index + 1..], &mut checked);
            self.stmt(stmt, &mut checked);
            if let (Some(word), Some(next)) = (self.leaves(&stmt.kind), stmts.get(index + 1)) {
                let message = format!("nothing behind `{word}` is reached");
                self.error(
                    Diagnostic::warning(Code(911), next.span, message).related(stmt.span, "here the block is left"),
                );
            }
        }
        checked
    }

    pub(super) fn scoped(&mut self, stmts: &[Stmt]) -> Vec<typed::Stmt> {
        self.scopes.push(Vec::new());
        let checked = self.stmts(stmts);
        self.scopes.pop();
        checked
    }

    fn reached_if(&mut self, reached: bool, stmts: &[Stmt]) -> Vec<typed::Stmt> {
        let outer = self.unreachable;
        self.unreachable |= !reached;
        let checked = self.scoped(stmts);
        self.unreachable = outer;
        checked
    }

    fn stmt(&mut self, stmt: &Stmt, out: &mut Vec<typed::Stmt>) {
        let span = stmt.span;
        if self.binds_param(stmt) {
            return;
        }
        let kind = match &stmt.kind {
            StmtKind::Expr(e) => match self.expression_statement(e) {
                Some(kind) => kind,
                None => return,
            },
            StmtKind::Assign { target, op, value } => match self.assign(target, *op, value, span) {
                Some(kind) => kind,
                None => return,
            },
            StmtKind::Let { name, ty, value } => match self.declaration(name, ty.as_ref(), value.as_ref()) {
                Some(kind) => kind,
                None => return,
            },
            StmtKind::If { cond, then, otherwise } => {
                let cond = self.condition(cond);
                let known = super::constant(&cond);
                let then = self.reached_if(known != Some(0), then);
                let otherwise = self.reached_if(matches!(known, None | Some(0)), otherwise);
                typed::StmtKind::If(cond, then, otherwise)
            }
            StmtKind::Unroll { .. }
            | StmtKind::While { .. }
            | StmtKind::ForRange { .. }
            | StmtKind::ForMap { .. }
            | StmtKind::Break
            | StmtKind::Continue => match self.loop_statement(stmt) {
                Some(kind) => kind,
                None => return,
            },
            StmtKind::Block(body) => typed::StmtKind::Block(self.scoped(body)),
            StmtKind::Return(None) => typed::StmtKind::Return,
            StmtKind::Return(Some(value)) => {
                // Only of tests somebody takes the value: bpftrace's scripts write `return 1` where they leave.
                let value = self.expr(value);
                if !value.ty.is_scalar() && value.ty != Type::Unknown {
                    let message = format!("a probe returns a number or nothing, this is {}", self.one(&value.ty));
                    self.error(Diagnostic::error(Code(312), value.span, message).help("write `return;`"));
                    return;
                }
                let span = value.span;
                let is_trial = self.seed.attach.is_trial();
                let kind = if is_trial { typed::StmtKind::Result(value) } else { typed::StmtKind::Expr(value) };
                out.push(typed::Stmt { kind, span });
                typed::StmtKind::Return
            }
        };
        out.push(typed::Stmt { kind, span });
    }

    fn expression_statement(&mut self, e: &Expr) -> Option<typed::StmtKind> {
        if let ExprKind::Call { name, .. } = &e.kind
            && let Some(word) = self.env.catalogue.aggregation(&name.text)
        {
            let message = format!("`{}()` must be assigned to a map", name.text);
            self.error(Diagnostic::error(Code(314), e.span, message).help(format!("write `{};`", word.doc().usage())));
            return None;
        }
        let checked = self.expr(e);
        let pure = matches!(
            checked.kind,
            typed::ExprKind::Int(_) | typed::ExprKind::Str(_) | typed::ExprKind::Var(_) | typed::ExprKind::Binary(..)
        );
        if pure && !matches!(checked.ty, Type::Unknown | Type::None) {
            self.error(
                Diagnostic::warning(Code(901), e.span, "this value is not used")
                    .help("assign it, or print it with `print(…)`"),
            );
        }
        Some(typed::StmtKind::Expr(checked))
    }

    /// An expression used as a condition: an integer, a pointer or a boolean.
    pub fn condition(&mut self, e: &Expr) -> typed::Expr {
        if let ExprKind::Record(parts) = &e.kind {
            return self.comparison_like_a_record(parts, e.span);
        }
        let checked = self.expr(e);
        if checked.ty.is_scalar() || checked.ty == Type::Unknown {
            return checked;
        }
        let message = format!("a condition must be a number or a boolean, this is {}", self.one(&checked.ty));
        self.fail(Diagnostic::error(Code(305), e.span, message))
    }

    /// `(a = 1)` and `(a =~ "x")` are records here, and comparisons elsewhere.
    fn comparison_like_a_record(&mut self, parts: &[(Ident, Expr)], span: Span) -> typed::Expr {
        let is_match = |value: &Expr| match &value.kind {
            ExprKind::Unary(UnaryOp::BitNot, text) => matches!(text.kind, ExprKind::Str(_)),
            _ => false,
        };
        let (message, help) = if parts.iter().any(|(_, value)| is_match(value)) {
            let help = "there are no regular expressions; compare with `==` or use strcontains(text, part)";
            ("there is no operator `=~`", help)
        } else {
            ("this condition compares nothing: `=` names a part of a record", "to compare, write `==`")
        };
        self.fail(Diagnostic::error(Code(249), span, message).help(help))
    }

    /// The words for a type.
    pub fn describe(&self, ty: &Type) -> String {
        match ty {
            Type::Struct { .. }
            | Type::Enum { .. }
            | Type::Pointer { .. }
            | Type::Array { .. }
            | Type::Tuple(_)
            | Type::Record(_) => ty.describe(self.env.target.btf()),
            other => other.describe(None),
        }
    }

    /// The words for a value of a type, with an article: `an int64`, `a string[16]`.
    pub fn one(&self, ty: &Type) -> String {
        let words = self.describe(ty);
        match ty {
            Type::None => "nothing".into(),
            Type::Unknown => "something".into(),
            Type::Tuple(_) => format!("a tuple {words}"),
            Type::Record(_) => format!("a record {words}"),
            _ if words.starts_with(['a', 'e', 'i', 'o']) => format!("an {words}"),
            _ => format!("a {words}"),
        }
    }

    /// The variable of a name in reach.
    pub fn find_var(&self, name: &str) -> Option<VarIndex> {
        let in_scope = |scope: &Vec<(String, VarIndex)>| scope.iter().rev().find(|(n, _)| n == name).map(|(_, v)| *v);
        self.scopes.iter().rev().find_map(in_scope)
    }

    /// Names of the variables in reach.
    pub fn var_names(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().flatten().map(|(name, _)| name.as_str())
    }

    /// The type of a variable.
    pub fn var_type(&self, var: VarIndex) -> &Type {
        &self.vars[var.0].ty
    }

    /// Keeps a variable at the type that it has now.
    pub fn fix_type(&mut self, var: VarIndex) {
        self.fixed.push(var);
    }

    /// Whether a variable's type was declared.
    pub fn is_fixed(&self, var: VarIndex) -> bool {
        self.fixed.contains(&var)
    }

    /// What a variable counts.
    pub fn var_unit(&self, var: VarIndex) -> Unit {
        self.units.get(&var).copied().flatten().unwrap_or_default()
    }

    /// Notes the unit of a value that a variable receives.
    pub fn var_receives(&mut self, var: VarIndex, unit: Unit) {
        super::units::received(self.units.entry(var).or_default(), unit);
    }

    /// Declares a variable in the innermost scope.
    pub fn declare(&mut self, name: &str, ty: Type) -> VarIndex {
        let var = VarIndex(self.declared);
        self.declared += 1;
        match self.vars.get(var.0) {
            None => {
                self.vars.push(typed::Var { name: name.into(), ty });
            }
            Some(known) => {
                let both = unify(&known.ty, &ty).unwrap_or(ty);
                self.set_var_type(var, both);
            }
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name.into(), var));
        }
        var
    }

    /// Gives a variable a type; asks for another round when it is a new one.
    pub fn set_var_type(&mut self, var: VarIndex, ty: Type) {
        if self.vars[var.0].ty != ty {
            self.vars[var.0].ty = ty;
            self.env.changed = true;
        }
    }

    /// What is checked in a scope of its own.
    pub(super) fn in_own_scope<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(Vec::new());
        let result = check(self);
        self.scopes.pop();
        result
    }

    /// Checks statements in a scope of their own and lets `then` see their variables.
    pub fn in_scope<T>(&mut self, stmts: &[Stmt], then: impl FnOnce(&mut Self, Vec<typed::Stmt>) -> T) -> T {
        self.scopes.push(Vec::new());
        let checked = self.stmts(stmts);
        let result = then(self, checked);
        self.scopes.pop();
        result
    }
}
