//! Makes a script that fails as small as it can be while it still fails.
//!
//! In: a tree, and a test of whether a tree fails. Out: a tree that fails, and of which no single simplification does.
//! Guarantees: ends, as every simplification makes the tree smaller or its constants smaller; trees that no longer compile are the test's to refuse.

use profiler_compiler::ast::{Expr, ExprKind, Script, SpanDefinition, Stmt, StmtKind};

use crate::tree;

/// The smallest script that the simplifications lead to.
pub fn shrink(script: &Script, fails: impl Fn(&Script) -> bool) -> Script {
    let mut smallest = script.clone();
    loop {
        let before = smallest.clone();
        for pass in [Pass::Statements, Pass::Expressions] {
            let mut at = 0;
            while let Some(smaller) = simplified(&smallest, pass, at) {
                if smaller != smallest && fails(&smaller) {
                    smallest = smaller;
                } else {
                    at += 1;
                }
            }
        }
        if smallest == before {
            return smallest;
        }
    }
}

/// What is tried: whole statements first, which is quick.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Statements,
    Expressions,
}

/// The `at`th simplification of a script; `None` when there are fewer.
fn simplified(script: &Script, pass: Pass, at: usize) -> Option<Script> {
    let mut smaller = script.clone();
    let mut editor = Editor { left: at, done: false, pass };
    editor.script(&mut smaller);
    editor.done.then_some(smaller)
}

/// Walks a tree and makes one change: the one after `left` others.
struct Editor {
    left: usize,
    done: bool,
    pass: Pass,
}

impl Editor {
    /// Which of `count` changes of this place to make.
    fn choose(&mut self, count: usize) -> Option<usize> {
        if self.done {
            return None;
        }
        if self.left < count {
            self.done = true;
            return Some(self.left);
        }
        self.left -= count;
        None
    }

    fn script(&mut self, script: &mut Script) {
        if self.pass == Pass::Statements {
            self.cut(&mut script.blocks);
            self.cut(&mut script.config);
            self.cut(&mut script.spans);
            self.cut(&mut script.states);
            self.cut(&mut script.views);
        }
        for span in &mut script.spans {
            self.span(span);
        }
        for block in &mut script.blocks {
            if self.pass == Pass::Statements && block.predicate.is_some() && self.choose(1).is_some() {
                block.predicate = None;
            }
            block.predicate.iter_mut().for_each(|predicate| self.expr(predicate));
            self.body(&mut block.body);
        }
    }

    fn span(&mut self, span: &mut SpanDefinition) {
        if self.pass == Pass::Statements {
            self.cut(&mut span.stages);
            self.cut(&mut span.restart);
            self.cut(&mut span.expire);
            self.cut(&mut span.limit);
        }
        for stage in &mut span.stages {
            if self.pass == Pass::Statements {
                self.cut(&mut stage.keeps);
                if stage.predicate.is_some() && self.choose(1).is_some() {
                    stage.predicate = None;
                }
            }
        }
        for value in span.exprs_mut() {
            self.expr(value);
        }
    }

    /// Drops a half, a quarter, …, one of a list.
    fn cut<T>(&mut self, list: &mut Vec<T>) {
        let mut size = list.len();
        while size > 0 {
            if let Some(at) = self.choose(list.len().div_ceil(size)) {
                list.drain(at * size..list.len().min((at + 1) * size));
                return;
            }
            size /= 2;
        }
    }

    fn body(&mut self, body: &mut Vec<Stmt>) {
        if self.pass == Pass::Statements {
            self.cut(body);
        }
        for at in 0..body.len() {
            if self.pass == Pass::Statements
                && let Some(inner) = inner(&body[at])
                && self.choose(1).is_some()
            {
                body.splice(at..=at, inner);
                return;
            }
            self.stmt(&mut body[at]);
            if self.done {
                return;
            }
        }
    }

    fn stmt(&mut self, stmt: &mut Stmt) {
        match &mut stmt.kind {
            StmtKind::Expr(value) | StmtKind::Return(Some(value)) => self.expr(value),
            StmtKind::Assign { target, op, value } => {
                if self.pass == Pass::Expressions && op.is_some() && self.choose(1).is_some() {
                    *op = None;
                }
                self.parts(target);
                self.expr(value);
            }
            StmtKind::Let { value, .. } => value.iter_mut().for_each(|value| self.expr(value)),
            StmtKind::If { cond, then, otherwise } => {
                self.expr(cond);
                self.body(then);
                self.body(otherwise);
            }
            StmtKind::Unroll { count: head, body } | StmtKind::While { cond: head, body } => {
                self.expr(head);
                self.body(body);
            }
            StmtKind::ForRange { start, end, body, .. } => {
                self.expr(start);
                self.expr(end);
                self.body(body);
            }
            StmtKind::ForMap { body, .. } | StmtKind::Block(body) => self.body(body),
            StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue => {}
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        if self.pass == Pass::Expressions && !self.done {
            let mut simpler = simpler(expr);
            if let Some(at) = self.choose(simpler.len()) {
                *expr = simpler.swap_remove(at);
                return;
            }
        }
        self.parts(expr);
    }

    fn parts(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Map { keys: parts, .. } | ExprKind::Call { args: parts, .. } | ExprKind::Tuple(parts) => {
                for part in parts {
                    self.expr(part);
                }
            }
            ExprKind::Unary(_, of)
            | ExprKind::Field(of, _)
            | ExprKind::TupleField(of, _)
            | ExprKind::Cast(_, of)
            | ExprKind::SizeofExpr(of) => self.expr(of),
            ExprKind::Step { target, .. } => self.parts(target),
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Ternary { cond, then, otherwise } => {
                self.expr(cond);
                if let Some(then) = then {
                    self.expr(then);
                }
                self.expr(otherwise);
            }
            ExprKind::Block(body, value) => {
                self.body(body);
                self.expr(value);
            }
            _ => {}
        }
    }
}

/// What a statement does inside.
fn inner(stmt: &Stmt) -> Option<Vec<Stmt>> {
    match &stmt.kind {
        StmtKind::If { then, otherwise, .. } => Some(then.iter().chain(otherwise).cloned().collect()),
        StmtKind::Unroll { body, .. }
        | StmtKind::While { body, .. }
        | StmtKind::ForRange { body, .. }
        | StmtKind::ForMap { body, .. }
        | StmtKind::Block(body) => Some(body.clone()),
        _ => None,
    }
}

/// What may stand in place of an expression: its operands, constants, smaller constants, fewer arguments.
fn simpler(expr: &Expr) -> Vec<Expr> {
    let constants = || vec![tree::int(0), tree::int(1), tree::text(b"")];
    match &expr.kind {
        ExprKind::Int(0) => Vec::new(),
        ExprKind::Int(value) => [0, 1, value / 2, value - 1].into_iter().filter(|n| n < value).map(tree::int).collect(),
        ExprKind::Duration(value) => vec![tree::int(*value)],
        ExprKind::Str(bytes) if bytes.is_empty() => Vec::new(),
        ExprKind::Str(bytes) => vec![tree::text(b""), tree::text(&bytes[..bytes.len() / 2]), tree::text(&bytes[1..])],
        ExprKind::Bool(_) | ExprKind::Name(_) | ExprKind::Var(_) => constants(),
        ExprKind::Map { keys, .. } => [constants(), keys.clone()].concat(),
        ExprKind::Unary(_, of) | ExprKind::Cast(_, of) | ExprKind::TupleField(of, _) | ExprKind::Field(of, _) => {
            [constants(), vec![(**of).clone()]].concat()
        }
        ExprKind::Binary(_, a, b) => [constants(), vec![(**a).clone(), (**b).clone()]].concat(),
        ExprKind::Ternary { cond, then, otherwise } => {
            let then = then.iter().map(|then| (**then).clone()).collect();
            [constants(), then, vec![(**otherwise).clone(), (**cond).clone()]].concat()
        }
        ExprKind::Step { target, .. } => [constants(), vec![(**target).clone()]].concat(),
        ExprKind::Call { name, args } => [constants(), fewer(&name.text, args)].concat(),
        ExprKind::Tuple(parts) => [constants(), parts.clone()].concat(),
        ExprKind::Block(_, value) => vec![(**value).clone()],
        _ => constants(),
    }
}

/// Calls with one argument less, with its conversion where there is a format; the arguments alone.
fn fewer(function: &str, args: &[Expr]) -> Vec<Expr> {
    let format = match args.first().map(|first| &first.kind) {
        Some(ExprKind::Str(format)) if args.len() > 1 => String::from_utf8_lossy(format).into_owned(),
        _ => return args.to_vec(),
    };
    let without = |gone: usize| {
        let words = format.split(' ').enumerate().filter(|(at, _)| *at != gone).map(|(_, word)| word);
        let mut left = args.to_vec();
        left.remove(gone + 1);
        left[0] = tree::text(words.collect::<Vec<&str>>().join(" ").as_bytes());
        tree::call(function, left)
    };
    (0..args.len() - 1).map(without).collect()
}

#[test]
fn what_is_left_cannot_be_made_smaller() {
    let script = tree::script(
        "BEGIN { @a = 1; if (pid > 3) { $x = (40 - pid) * 2; @b[$x, \"text\"] = count(); printf(\"%d %s \\n\", $x, comm); } } END { exit(); }",
    );
    let fails = |script: &Script| crate::print::print(script).contains("- pid");
    let small = shrink(&script, fails);
    assert_eq!(crate::print::print(&small), "BEGIN {\n  $x = (0 - pid);\n}\n");
}
