//! Shrinks a failing script while it still fails.
//!
//! In: a tree, and a test of whether a tree fails. Out: a tree that fails, and that no longer fails
//! after any single simplification.
//! Guarantees: terminates, because every simplification makes the tree or its constants smaller;
//! the test must reject trees that do not compile.

use profiler_compiler::ast::visit::{Part, PartMut};
use profiler_compiler::ast::{Expr, ExprKind, Script, SpanDefinition, Stmt, StmtKind};

use crate::tree;

/// The smallest script that the simplifications reach.
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

/// The passes in order: whole statements first, which is fast.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Statements,
    Expressions,
}

/// The `at`th simplification of a script; `None` if there are fewer.
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
    /// Which of the `count` possible changes of this node to make.
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

    /// Removes a half, a quarter, … or one element of a list.
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
            StmtKind::Assign { target, op, value } => {
                if self.pass == Pass::Expressions && op.is_some() && self.choose(1).is_some() {
                    *op = None;
                }
                self.parts(target);
                self.expr(value);
            }
            StmtKind::ForMap { body, .. } => self.body(body),
            kind => kind.for_each_part_mut(&mut |part| self.part(part)),
        }
    }

    fn part(&mut self, part: PartMut<'_>) {
        match part {
            PartMut::Expr(expr) => self.expr(expr),
            PartMut::Stmts(stmts) => self.body(stmts),
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
            ExprKind::Step { target, .. } => self.parts(target),
            kind => kind.for_each_part_mut(&mut |part| self.part(part)),
        }
    }
}

/// The statements inside a statement.
fn inner(stmt: &Stmt) -> Option<Vec<Stmt>> {
    let mut inner: Option<Vec<Stmt>> = None;
    stmt.kind.for_each_part(&mut |part| {
        if let Part::Stmts(stmts) = part {
            inner.get_or_insert_default().extend_from_slice(stmts);
        }
    });
    inner
}

/// Replacements for an expression: its operands, constants, smaller constants, fewer arguments.
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

/// Calls with one argument and its conversion removed; without a format, each argument alone.
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
