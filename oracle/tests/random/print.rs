//! Prints a syntax tree as a script.
//!
//! In: a tree. Out: text. Guarantee: parsing the text gives the same tree; every operation is
//! parenthesized.

mod spans;
mod views;

use std::fmt::Write as _;

use profiler_compiler::ast::{
    AttachPoint, BinaryOp, Expr, ExprKind, Macro, MacroParamKind, Param, ParamValue, ProbeBlock, PublicKind,
    STATE_MARK, Script, StatePart, Stmt, StmtKind, TypeName, TypeSuffix, TypeTag,
};

/// The text of a script.
pub fn print(script: &Script) -> String {
    let mut printer = Printer { out: String::new(), depth: 0 };
    if !script.config.is_empty() {
        let entries: Vec<String> =
            script.config.iter().map(|entry| format!("{} = {}", entry.key.text, expr(&entry.value))).collect();
        printer.line(&format!("config = {{ {} }}", entries.join("; ")));
    }
    for define in &script.defines {
        printer.line(&format!("#define {} {}", define.name.text, expr(&define.value)));
    }
    for import in &script.imports {
        printer.line(&format!("import {};", string(import.path.text.as_bytes())));
    }
    for of in &script.uses {
        printer.line(&format!("use {} as {}", of.module.text, of.prefix()));
    }
    for param in &script.params {
        printer.line(&format!("{}{}", public(script, PublicKind::Param, &param.name.text), parameter(param)));
    }
    for name in script.public.iter().filter(|public| public.kind == PublicKind::Map).map(|public| &public.name.text) {
        if !script.maps.iter().any(|map| map.name.text == *name) {
            printer.line(&format!("pub @{name}"));
        }
    }
    for map in &script.maps {
        let word = public(script, PublicKind::Map, &map.name.text);
        printer.line(&format!("{word}let @{} = {}({});", map.name.text, map.kind.text, expr(&map.entries)));
    }
    for of in &script.macros {
        printer.out.push_str(public(script, PublicKind::Macro, &of.name.text));
        printer.of_macro(of);
    }
    for state in &script.states {
        let part = |part: &StatePart| match &part.ty {
            Some(ty) => format!("{}: {}", part.name.text, type_name(ty)),
            None => part.name.text.clone(),
        };
        let key: Vec<String> = state.key.iter().map(part).collect();
        let mut fields: Vec<String> = state.fields.iter().map(part).collect();
        fields.extend(state.limit.as_ref().map(|limit| format!("limit {}", expr(limit))));
        printer.line(&format!("state {} by ({}) {{ {} }}", state.name.text, key.join(", "), fields.join(", ")));
    }
    for span in &script.spans {
        printer.out.push_str(public(script, PublicKind::Span, &span.name.text));
        printer.span(span);
    }
    for view in &script.views {
        printer.out.push_str(public(script, PublicKind::View, &view.title.text));
        printer.view(view);
    }
    for block in &script.blocks {
        printer.block(block);
    }
    printer.out
}

/// The keyword `pub ` for public names, else nothing.
fn public(script: &Script, kind: PublicKind, name: &str) -> &'static str {
    if script.public.iter().any(|public| public.kind == kind && public.name.text == name) { "pub " } else { "" }
}

fn parameter(param: &Param) -> String {
    let value = |value: &ParamValue| {
        if value.quoted { string(value.text.as_bytes()) } else { value.text.clone() }
    };
    let default: Vec<String> = param.default.iter().map(value).collect();
    let equals = if default.is_empty() { "" } else { " = " };
    let range =
        param.range.as_ref().map_or(String::new(), |(low, high)| format!(" in {}..{}", value(low), value(high)));
    let help = string(param.help.text.as_bytes());
    format!("param {}: {}{equals}{} {help}{range}", param.name.text, param.ty.text, default.join(", "))
}

struct Printer {
    out: String,
    depth: usize,
}

impl Printer {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.depth * 2);
    }

    fn block(&mut self, block: &ProbeBlock) {
        let name = block.name.as_ref().map_or(String::new(), |name| format!("{} = ", name.text));
        let points: Vec<String> = block.points.iter().map(point).collect();
        let predicate = block.predicate.as_ref().map_or(String::new(), |p| format!(" /{}/", expr(p)));
        self.body(&format!("{name}{}{predicate}", points.join(", ")), &block.body);
    }

    fn of_macro(&mut self, of: &Macro) {
        let params = of.params.iter().map(|param| match param.kind {
            MacroParamKind::Var => format!("${}", param.name.text),
            MacroParamKind::Map => format!("@{}", param.name.text),
            MacroParamKind::Expr => param.name.text.clone(),
        });
        self.line(&format!("macro {}({}) {{", of.name.text, params.collect::<Vec<String>>().join(", ")));
        for stmt in &of.body {
            self.stmt(stmt);
        }
        self.line(&format!("{} }}", of.value.as_ref().map_or(String::new(), expr)));
    }

    fn body(&mut self, head: &str, body: &[Stmt]) {
        self.line(format!("{head} {{").trim_start());
        self.depth += 1;
        for stmt in body {
            self.stmt(stmt);
        }
        self.depth -= 1;
        self.line("}");
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::If { cond, then, otherwise } => {
                self.body(&format!("if ({})", expr(cond)), then);
                if !otherwise.is_empty() {
                    self.body("else", otherwise);
                }
            }
            StmtKind::Unroll { count, body } => self.body(&format!("unroll ({})", expr(count)), body),
            StmtKind::While { cond, body } => self.body(&format!("while ({})", expr(cond)), body),
            StmtKind::ForRange { name, start, end, body } => {
                self.body(&format!("for ${} : {}..{}", name.text, expr(start), expr(end)), body);
            }
            StmtKind::ForMap { name, map, body } => self.body(&format!("for ${} : {}", name.text, expr(map)), body),
            StmtKind::Block(body) => self.body("", body),
            simple @ (StmtKind::Expr(_)
            | StmtKind::Assign { .. }
            | StmtKind::Let { .. }
            | StmtKind::Return(_)
            | StmtKind::Break
            | StmtKind::Continue) => self.line(&format!("{};", plain(simple))),
        }
    }
}

/// A statement without a body.
fn plain(stmt: &StmtKind) -> String {
    match stmt {
        StmtKind::Expr(value) => expr(value),
        StmtKind::Assign { target, op, value } => {
            format!("{} {}= {}", expr(target), op.map_or("", BinaryOp::symbol), expr(value))
        }
        StmtKind::Let { name, ty, value } => {
            let ty = ty.as_ref().map_or(String::new(), |ty| format!(" : {}", type_name(ty)));
            let value = value.as_ref().map_or(String::new(), |value| format!(" = {}", expr(value)));
            format!("let ${}{ty}{value}", name.text)
        }
        StmtKind::Return(value) => value.as_ref().map_or("return".into(), |value| format!("return {}", expr(value))),
        StmtKind::Break => "break".into(),
        StmtKind::Continue => "continue".into(),
        with_body => {
            let mut printer = Printer { out: String::new(), depth: 0 };
            printer.stmt(&Stmt { kind: with_body.clone(), span: profiler_compiler::source::Span::default() });
            printer.out
        }
    }
}

fn point(point: &AttachPoint) -> String {
    let is_plain = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || "_*/.-+".contains(c));
    let quoted = |part: &str| {
        if part.is_empty() || !is_plain(part) { string(part.as_bytes()) } else { part.to_string() }
    };
    let mut text = point.kind.text.clone();
    for part in &point.parts {
        let _ = write!(text, ":{}", quoted(&part.text));
    }
    for other in &point.unless {
        let _ = write!(text, " unless {}", self::point(other));
    }
    text
}

fn type_name(ty: &TypeName) -> String {
    let tag = match ty.tag {
        TypeTag::None => "",
        TypeTag::Struct => "struct ",
        TypeTag::Union => "union ",
        TypeTag::Enum => "enum ",
    };
    let mut text = match (&ty.of, &ty.inner) {
        (Some(of), _) => format!("typeof({})", expr(of)),
        (None, Some(inner)) => format!("typeof({})", type_name(inner)),
        (None, None) => format!("{tag}{}", ty.name),
    };
    for suffix in &ty.suffixes {
        let _ = match suffix {
            TypeSuffix::Pointer => write!(text, " *"),
            TypeSuffix::Array(len) => write!(text, "[{len}]"),
        };
    }
    text
}

fn string(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
    text
}

fn list(exprs: &[Expr]) -> String {
    exprs.iter().map(expr).collect::<Vec<String>>().join(", ")
}

/// The text of an expression.
pub fn expr(value: &Expr) -> String {
    match &value.kind {
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Decimal { thousandths, percent } => {
            format!("{}.{:03}{}", thousandths / 1000, thousandths % 1000, if *percent { "%" } else { "" })
        }
        ExprKind::Duration(ns) => format!("{ns}ns"),
        ExprKind::Str(bytes) => string(bytes),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Name(name) => name.clone(),
        ExprKind::Var(name) => format!("${name}"),
        ExprKind::Map { name, keys } => {
            let name = name.strip_prefix(STATE_MARK).map_or_else(|| format!("@{name}"), str::to_owned);
            if keys.is_empty() { name } else { format!("{name}[{}]", list(keys)) }
        }
        ExprKind::Positional(n) => format!("${n}"),
        ExprKind::PositionalCount => "$#".into(),
        ExprKind::Unary(op, value) => format!("({}{})", op.symbol(), expr(value)),
        ExprKind::Binary(op, left, right) => format!("({} {} {})", expr(left), op.symbol(), expr(right)),
        ExprKind::Ternary { cond, then: Some(then), otherwise } => {
            format!("({} ? {} : {})", expr(cond), expr(then), expr(otherwise))
        }
        ExprKind::Ternary { cond, then: None, otherwise } => format!("({} ?: {})", expr(cond), expr(otherwise)),
        ExprKind::Step { target, increment, prefix } => {
            let (op, target) = (if *increment { "++" } else { "--" }, expr(target));
            if *prefix { format!("({op}{target})") } else { format!("({target}{op})") }
        }
        ExprKind::Call { name, args } => format!("{}({})", name.text, list(args)),
        ExprKind::Field(of, name) => format!("{}.{}", expr(of), name.text),
        ExprKind::TupleField(of, index) => format!("{}.{index}", expr(of)),
        ExprKind::Index(of, index) => format!("{}[{}]", expr(of), expr(index)),
        ExprKind::Cast(ty, value) => format!("(({}){})", type_name(ty), expr(value)),
        ExprKind::SizeofType(ty) => format!("sizeof({})", type_name(ty)),
        ExprKind::SizeofExpr(value) => format!("sizeof({})", expr(value)),
        ExprKind::Offsetof(ty, path) => {
            let path: Vec<&str> = path.iter().map(|part| part.text.as_str()).collect();
            format!("offsetof({}, {})", type_name(ty), path.join("."))
        }
        ExprKind::Type(ty) => type_name(ty),
        ExprKind::Tuple(parts) if parts.len() == 1 => format!("({},)", list(parts)),
        ExprKind::Tuple(parts) => format!("({})", list(parts)),
        ExprKind::Record(parts) => {
            let parts: Vec<String> =
                parts.iter().map(|(name, value)| format!("{} = {}", name.text, expr(value))).collect();
            format!("({})", parts.join(", "))
        }
        ExprKind::Block(body, value) => {
            let body: Vec<String> = body.iter().map(|stmt| format!("{};", plain(&stmt.kind))).collect();
            // The grammar parses `/ {` as the end of a predicate, and a brace at the start of a
            // statement as a bare block.
            format!("({{ {} {} }})", body.join(" "), expr(value))
        }
    }
}

/// The lines of a tree, those of public names sorted: they are in text order, which printing
/// changes.
fn in_order(tree: &str) -> String {
    let (mut public, others): (Vec<&str>, Vec<&str>) = tree.lines().partition(|line| line.starts_with("  public "));
    public.sort_unstable();
    [public, others].concat().join("\n")
}

/// For every script of the repository that parses, the printed text parses to the same tree.
#[test]
fn the_text_of_a_tree_has_the_same_tree() {
    use profiler_compiler::source::Source;
    use profiler_compiler::{ast_print, parse};

    let read = |path: std::path::PathBuf| String::from_utf8_lossy(&std::fs::read(path).expect("reads")).into_owned();
    let directories = ["tests/scripts/core", "tests/scripts/loads", "examples"];
    let mut texts: Vec<String> = directories.into_iter().flat_map(crate::loads::scripts_in).map(read).collect();
    for seed in crate::range(30) {
        texts.extend([print(&crate::generate::script(seed)), print(&crate::generate::fixed_script(seed))]);
    }
    let mut compared = 0;
    for text in texts {
        let Ok(tree) = parse::parse(&Source::new("written", text)) else { continue };
        // Random scripts define no types, so the printer does not support them.
        if !tree.definitions.is_empty() {
            continue;
        }
        let printed = print(&tree);
        let again = parse::parse(&Source::new("printed", printed.clone()));
        let again = again.unwrap_or_else(|errors| panic!("{errors:?}\n{printed}"));
        assert_eq!(in_order(&ast_print::print(&again)), in_order(&ast_print::print(&tree)), "{printed}");
        compared += 1;
    }
    println!("{compared} trees");
    assert!(compared > 30);
}
