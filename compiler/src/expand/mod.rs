//! The expand stage: links modules into the script and expands all macro calls.
//!
//! In: a script. Out: the same script without modules and macro calls, or diagnostics.
//! Guarantee: expansion terminates for any macros. It adds at most `NODE_LIMIT` nodes, and the tree
//! is at most `DEPTH_LIMIT` levels deep. A macro's local variables are renamed, so they never
//! collide with the caller's.

mod modules;
mod substitute;

use crate::ast::visit::PartMut;
use crate::ast::{Expr, ExprKind, Ident, Macro, MacroParamKind, Param, Script, Stmt, StmtKind};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::words::CATALOGUE;
use substitute::Substitution;
pub use substitute::fields;

/// Maximum number of nodes that all expansions of a script may add.
const NODE_LIMIT: usize = 32_000;

/// Maximum depth of nested macro expansions.
const NESTING_LIMIT: usize = 32;

/// Maximum depth of the tree; the parser's own limits allow nearly as much.
const DEPTH_LIMIT: usize = 800;

/// Links the modules into the script that uses them, then expands all macros.
pub fn expand(script: Script) -> Result<Script, Vec<Diagnostic>> {
    let mut script = modules::link(script)?;
    if script.macros.is_empty() {
        return Ok(script);
    }
    let macros = std::mem::take(&mut script.macros);
    let params = std::mem::take(&mut script.params);
    let mut expander = Expander {
        macros: &macros,
        params: &params,
        active: Vec::new(),
        expansions: 0,
        nodes: 0,
        depth: 0,
        problems: same_signatures(&macros),
    };
    for block in &mut script.blocks {
        if let Some(predicate) = &mut block.predicate {
            expander.expr(predicate);
        }
        expander.stmts(&mut block.body);
    }
    for expr in script.spans.iter_mut().flat_map(crate::ast::SpanDefinition::exprs_mut) {
        expander.expr(expr);
    }
    let problems = expander.problems;
    script.macros = macros;
    script.params = params;
    if problems.is_empty() { Ok(script) } else { Err(problems) }
}

/// Macros of the same name must differ in their parameters.
fn same_signatures(macros: &[Macro]) -> Vec<Diagnostic> {
    let kinds = |it: &Macro| it.params.iter().map(|param| param.kind).collect::<Vec<_>>();
    let mut problems = Vec::new();
    for (at, later) in macros.iter().enumerate() {
        let earlier = macros[..at].iter().find(|m| m.name.text == later.name.text && kinds(m) == kinds(later));
        if let Some(earlier) = earlier {
            let message = format!("a macro `{}` that takes the same arguments is already defined", later.name.text);
            problems.push(
                Diagnostic::error(Code(207), later.name.span, message)
                    .related(earlier.name.span, "the first one is here"),
            );
        }
    }
    problems
}

struct Expander<'a> {
    macros: &'a [Macro],
    params: &'a [Param],
    /// The macros that are being expanded, outermost first.
    active: Vec<&'a str>,
    expansions: usize,
    nodes: usize,
    /// Nodes above the current one.
    depth: usize,
    problems: Vec<Diagnostic>,
}

impl Expander<'_> {
    fn stmts(&mut self, stmts: &mut [Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &mut Stmt) {
        // As a statement, a macro call needs no value.
        if let StmtKind::Expr(expr) = &mut stmt.kind
            && let Some((name, args)) = self.call_of(expr)
        {
            if let Some((mut body, value)) = self.expansion(&name, args) {
                body.extend(value.map(|value| Stmt { span: value.span, kind: StmtKind::Expr(value) }));
                stmt.kind = StmtKind::Block(body);
            }
            return;
        }
        self.depth += 1;
        stmt.kind.for_each_part_mut(&mut |part| self.part(part));
        self.depth -= 1;
    }

    fn part(&mut self, part: PartMut<'_>) {
        match part {
            PartMut::Expr(expr) => self.expr(expr),
            PartMut::Stmts(stmts) => self.stmts(stmts),
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        if let Some((name, args)) = self.call_of(expr) {
            let Some((body, value)) = self.expansion(&name, args) else { return };
            let Some(value) = value else {
                self.problems.push(no_value(&name));
                return;
            };
            expr.kind = if body.is_empty() { value.kind } else { ExprKind::Block(body, Box::new(value)) };
            return;
        }
        self.depth += 1;
        expr.kind.for_each_part_mut(&mut |part| self.part(part));
        self.depth -= 1;
    }

    /// Name and expanded arguments of a macro call; `None` for other expressions.
    fn call_of(&mut self, expr: &mut Expr) -> Option<(Ident, Vec<Expr>)> {
        let span = expr.span;
        let (name, mut args) = match &mut expr.kind {
            ExprKind::Call { name, args } if self.is_called(&name.text, args.len()) => {
                (name.clone(), std::mem::take(args))
            }
            ExprKind::Name(name) if self.is_macro(name, Some(0)) => (Ident { text: name.clone(), span }, Vec::new()),
            _ => return None,
        };
        for arg in &mut args {
            self.expr(arg);
        }
        Some((name, args))
    }

    /// Whether the call means a macro. A builtin or function takes precedence unless a macro of its
    /// name has this number of parameters.
    fn is_called(&self, name: &str, args: usize) -> bool {
        let is_word = || CATALOGUE.builtin(name).is_some() || CATALOGUE.function(name).is_some();
        self.is_macro(name, Some(args)) || self.is_macro(name, None) && !is_word()
    }

    fn is_macro(&self, name: &str, params: Option<usize>) -> bool {
        self.macros.iter().any(|m| m.name.text == name && params.is_none_or(|params| params == m.params.len()))
    }

    /// The body and value that replace a call.
    fn expansion(&mut self, name: &Ident, args: Vec<Expr>) -> Option<(Vec<Stmt>, Option<Expr>)> {
        let macros = self.macros;
        let Some(chosen) = choose(macros, &name.text, &args) else {
            self.problems.push(wrong_arguments(macros, name, &args));
            return None;
        };
        if self.active.contains(&chosen.name.text.as_str()) {
            self.problems.push(recursive(name, &self.active));
            return None;
        }
        self.expansions += 1;
        let substitution = Substitution::new(chosen, args, self.expansions, self.params);
        let (mut body, mut value) = (chosen.body.clone(), chosen.value.clone());
        substitution.stmts(&mut body);
        if let Some(value) = &mut value {
            substitution.expr(value);
        }
        let mut extents = vec![substitute::extent_of_all(&body)];
        extents.extend(value.as_ref().map(substitute::extent));
        self.nodes += extents.iter().map(|extent| extent.nodes).sum::<usize>();
        let depth = self.depth + extents.iter().map(|extent| extent.depth).max().unwrap_or(0);
        if self.nodes > NODE_LIMIT || depth > DEPTH_LIMIT || self.active.len() >= NESTING_LIMIT {
            if !self.problems.iter().any(|problem| problem.code == Code(209)) {
                self.problems.push(too_much(name.span));
            }
            return None;
        }
        self.active.push(&chosen.name.text);
        self.stmts(&mut body);
        if let Some(value) = &mut value {
            self.expr(value);
        }
        self.active.pop();
        Some((body, value))
    }
}

/// The macro that accepts these arguments; one with more `$x` and `@x` parameters is preferred.
fn choose<'a>(macros: &'a [Macro], name: &str, args: &[Expr]) -> Option<&'a Macro> {
    let takes = |m: &&Macro| {
        m.name.text == name && m.params.len() == args.len() && m.params.iter().zip(args).all(|(p, a)| fits(p.kind, a))
    };
    let exact = |m: &&Macro| m.params.iter().filter(|param| param.kind != MacroParamKind::Expr).count();
    macros.iter().filter(takes).max_by_key(exact)
}

fn fits(kind: MacroParamKind, arg: &Expr) -> bool {
    match kind {
        MacroParamKind::Var => matches!(arg.kind, ExprKind::Var(_)),
        MacroParamKind::Map => matches!(&arg.kind, ExprKind::Map { keys, .. } if keys.is_empty()),
        MacroParamKind::Expr => true,
    }
}

fn signature(it: &Macro) -> String {
    let param = |param: &crate::ast::MacroParam| match param.kind {
        MacroParamKind::Var => format!("${}", param.name.text),
        MacroParamKind::Map => format!("@{}", param.name.text),
        MacroParamKind::Expr => param.name.text.clone(),
    };
    format!("{}({})", it.name.text, it.params.iter().map(param).collect::<Vec<_>>().join(", "))
}

fn wrong_arguments(macros: &[Macro], name: &Ident, args: &[Expr]) -> Diagnostic {
    let known: Vec<&Macro> = macros.iter().filter(|m| m.name.text == name.text).collect();
    let shown: Vec<String> = known.iter().map(|m| format!("`{}`", signature(m))).collect();
    let message = match known.as_slice() {
        [one] if one.params.len() != args.len() => {
            format!("the macro `{}` takes {} arguments, and {} are given", name.text, one.params.len(), args.len())
        }
        _ => format!("no macro `{}` takes these arguments", name.text),
    };
    let mut diagnostic = Diagnostic::error(Code(207), name.span, message)
        .help(format!("there is {}; `$x` takes a variable, `@x` a map, `x` any expression", shown.join(" and ")));
    if let Some(one) = known.first() {
        diagnostic = diagnostic.related(one.name.span, "defined here");
    }
    diagnostic
}

fn no_value(name: &Ident) -> Diagnostic {
    Diagnostic::error(Code(207), name.span, format!("the macro `{}` has no value", name.text))
        .help("end its body with an expression that has no `;` after it, or use it as a statement")
}

fn recursive(name: &Ident, active: &[&str]) -> Diagnostic {
    let message = format!("the macro `{}` uses itself", name.text);
    let path: Vec<&str> = active.iter().copied().skip_while(|n| *n != name.text).chain([name.text.as_str()]).collect();
    Diagnostic::error(Code(208), name.span, message)
        .help(format!("{}: a macro is replaced by its body, which would never end; use a loop", path.join(" → ")))
}

fn too_much(span: Span) -> Diagnostic {
    Diagnostic::error(Code(209), span, "the macros used here expand to too much code").help(format!(
        "at most {NESTING_LIMIT} macros may nest, and all macros of a script together may add {NODE_LIMIT} expressions and statements"
    ))
}

#[cfg(test)]
mod tests {
    use super::expand;
    use crate::ast_print;
    use crate::parse::parse;
    use crate::source::Source;
    use std::fmt::Write as _;

    fn same(with: &str, without: &str) {
        let tree = |text: &str| {
            let mut script = expand(parse(&Source::new("s", text)).expect("it parses")).expect("it expands");
            script.macros.clear();
            ast_print::print(&script)
        };
        assert_eq!(tree(with), tree(without), "{with}");
    }

    fn refused(text: &str) -> Vec<(u16, String)> {
        let script = parse(&Source::new("s", text)).expect("it parses");
        let problems = expand(script).expect_err("a refusal");
        problems.into_iter().map(|problem| (problem.code.0, problem.message)).collect()
    }

    #[test]
    fn a_use_becomes_the_body() {
        same("macro one() { 1 } BEGIN { print(one() + one); }", "BEGIN { print(1 + 1); }");
        same("macro add(a, b) { a + b } BEGIN { print(add(1, 2) * 3); }", "BEGIN { print((1 + 2) * 3); }");
        same("macro bump($x) { $x += 1; } BEGIN { $y = 1; bump($y); }", "BEGIN { $y = 1; { $y += 1; } }");
        same(
            "macro put(@m, k) { @m[k] = 1; @m[k] } BEGIN { print(put(@a, 2)); }",
            "BEGIN { print({ @a[2] = 1; @a[2] }); }",
        );
        same("macro f(a) { a } macro g(a) { f(a) + f(2) } BEGIN { print(g(f(1))); }", "BEGIN { print(1 + 2); }");
        same("macro gate(x) { x > 1 } BEGIN /gate(pid)/ { }", "BEGIN /pid > 1/ { }");
    }

    #[test]
    fn the_better_fit_is_taken() {
        let text = "macro f(a) { 1 } macro f($a) { 2 } macro f(@a) { 3 } macro f() { 4 }";
        let uses = "BEGIN { $x = 1; print((f(5), f($x), f(@m), f())); @m = 1; }";
        same(&format!("{text} {uses}"), "BEGIN { $x = 1; print((1, 2, 3, 4)); @m = 1; }");
    }

    #[test]
    fn variables_of_a_macro_are_its_own() {
        let text = "macro twice(a) { $t = a; $t + $t } BEGIN { $t = 5; print(twice($t)); print(twice(1)); }";
        let script = expand(parse(&Source::new("s", text)).expect("it parses")).expect("it expands");
        let tree = ast_print::print(&script);
        assert!(tree.contains("$t'1") && tree.contains("$t'2") && tree.contains("$t\n"), "{tree}");
    }

    #[test]
    fn wrong_uses_are_explained() {
        let text = "macro f($x) { $x } BEGIN { print(f(1)); print(f()); $y = 1; f($y, 2); }";
        let words: Vec<String> = refused(text).into_iter().map(|(code, words)| format!("{code} {words}")).collect();
        assert_eq!(
            words,
            [
                "207 no macro `f` takes these arguments",
                "207 the macro `f` takes 1 arguments, and 0 are given",
                "207 the macro `f` takes 1 arguments, and 2 are given"
            ]
        );
        assert_eq!(refused("macro f() { @x = 1; } BEGIN { print(f()); }")[0].1, "the macro `f` has no value");
        assert_eq!(refused("macro f(a) { a } macro f(b) { b } BEGIN { }")[0].0, 207);
    }

    #[test]
    fn expansion_ends() {
        assert_eq!(refused("macro f() { f() } BEGIN { print(f()); }")[0].0, 208);
        assert_eq!(refused("macro f() { g() } macro g() { f() } BEGIN { print(f()); }")[0].0, 208);
        let mut text = "macro m0(a) { a + a } ".to_owned();
        for n in 1..30 {
            let _ = write!(text, "macro m{n}(a) {{ m{}(a) + m{}(a) }} ", n - 1, n - 1);
        }
        assert_eq!(refused(&format!("{text} BEGIN {{ print(m29(1)); }}"))[0].0, 209);
    }
}
