//! A syntax tree as indented text, for `-d ast`.
//!
//! In: a [`Script`]. Out: one node per line, children indented by two spaces.
//! Guarantee: two trees print alike only if they mean the same; source spans are omitted, so moving
//! code changes nothing.

mod definitions;
mod modules;
mod spans;
mod states;
mod view;

use crate::ast::{
    AttachPoint, BinaryOp, Expr, ExprKind, ProbeBlock, STATE_MARK, Script, Stmt, StmtKind, TypeName, TypeSuffix,
    TypeTag,
};
use std::fmt::Write as _;

/// The tree of a script, one node per line.
pub fn print(script: &Script) -> String {
    let mut printer = Printer { out: String::new(), depth: 0 };
    printer.line("script");
    printer.nested(|p| p.script(script));
    printer.out
}

struct Printer {
    out: String,
    depth: usize,
}

fn point_text(point: &AttachPoint) -> String {
    let mut text = point.kind.text.clone();
    for part in &point.parts {
        // Quotes are printed if a part contains a colon or a blank, so that its end is visible.
        let plain =
            !part.text.is_empty() && !part.text.contains([':', '"', ',']) && !part.text.contains(char::is_whitespace);
        text.push(':');
        if plain {
            text.push_str(&part.text);
        } else {
            let _ = write!(text, "{:?}", part.text);
        }
    }
    for other in &point.unless {
        let _ = write!(text, " unless {}", point_text(other));
    }
    text
}

fn type_text(ty: &TypeName) -> String {
    let tag = match ty.tag {
        TypeTag::None => "",
        TypeTag::Struct => "struct ",
        TypeTag::Union => "union ",
        TypeTag::Enum => "enum ",
    };
    let mut text = match (&ty.of, &ty.inner) {
        (Some(of), _) => {
            let mut printer = Printer { out: String::new(), depth: 0 };
            printer.expr(of);
            format!("typeof({})", printer.out.trim_end().replace('\n', ";"))
        }
        (None, Some(inner)) => format!("typeof({})", type_text(inner)),
        (None, None) => format!("{tag}{}", ty.name),
    };
    for suffix in &ty.suffixes {
        match suffix {
            TypeSuffix::Pointer => text.push('*'),
            TypeSuffix::Array(length) => {
                let _ = write!(text, "[{length}]");
            }
        }
    }
    text
}

impl Printer {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.depth * 2);
    }

    fn nested(&mut self, children: impl FnOnce(&mut Printer)) {
        self.depth += 1;
        children(self);
        self.depth -= 1;
    }

    fn parent(&mut self, text: &str, children: impl FnOnce(&mut Printer)) {
        self.line(text);
        self.nested(children);
    }

    fn script(&mut self, script: &Script) {
        for entry in &script.config {
            self.parent(&format!("config {}", entry.key.text), |p| {
                p.expr(&entry.value);
            });
        }
        for define in &script.defines {
            self.parent(&format!("define {}", define.name.text), |p| {
                p.expr(&define.value);
            });
        }
        for definition in &script.definitions {
            self.definition(definition);
        }
        for state in &script.states {
            self.state(state);
        }
        for span in &script.spans {
            self.span(span);
        }
        self.outside(script);
        for block in &script.blocks {
            self.block(block);
        }
        for view in &script.views {
            self.view(view);
        }
    }

    fn block(&mut self, block: &ProbeBlock) {
        let name = block.name.as_ref().map_or(String::new(), |name| format!(" {}", name.text));
        self.parent(&format!("probe{name}"), |p| {
            for point in &block.points {
                p.line(&format!("at {}", point_text(point)));
            }
            if let Some(predicate) = &block.predicate {
                p.parent("when", |p| p.expr(predicate));
            }
            p.body("do", &block.body);
        });
    }

    fn body(&mut self, title: &str, statements: &[Stmt]) {
        self.parent(title, |p| p.statements(statements));
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Expr(value) => self.expr(value),
            StmtKind::Assign { target, op, value } => {
                self.parent(&format!("assign {}=", op.map_or("", BinaryOp::symbol)), |p| {
                    p.expr(target);
                    p.expr(value);
                });
            }
            StmtKind::Let { name, ty, value } => {
                let ty = ty.as_ref().map_or(String::new(), |ty| format!(" : {}", type_text(ty)));
                self.parent(&format!("let ${}{ty}", name.text), |p| {
                    p.optional(value.as_ref());
                });
            }
            StmtKind::If { cond, then, otherwise } => self.parent("if", |p| {
                p.expr(cond);
                p.body("then", then);
                if !otherwise.is_empty() {
                    p.body("else", otherwise);
                }
            }),
            StmtKind::Unroll { count, body } => self.headed("unroll", &[count], body),
            StmtKind::While { cond, body } => self.headed("while", &[cond], body),
            StmtKind::ForRange { name, start, end, body } => {
                self.headed(&format!("for ${} in range", name.text), &[start, end], body);
            }
            StmtKind::ForMap { name, map, body } => {
                self.headed(&format!("for ${} in map", name.text), &[map], body);
            }
            StmtKind::Block(body) => self.body("block", body),
            StmtKind::Return(value) => {
                self.parent("return", |p| p.optional(value.as_ref()));
            }
            StmtKind::Break => self.line("break"),
            StmtKind::Continue => self.line("continue"),
        }
    }

    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn optional(&mut self, value: Option<&Expr>) {
        if let Some(value) = value {
            self.expr(value);
        }
    }

    fn headed(&mut self, title: &str, heads: &[&Expr], body: &[Stmt]) {
        self.parent(title, |p| {
            for head in heads {
                p.expr(head);
            }
            p.body("do", body);
        });
    }

    fn exprs(&mut self, title: &str, children: &[Expr]) {
        self.parent(title, |p| {
            for child in children {
                p.expr(child);
            }
        });
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Int(value) => self.line(&format!("int {value}")),
            ExprKind::Decimal { thousandths, percent } => {
                self.line(&format!("decimal {thousandths}/1000{}", if *percent { "%" } else { "" }));
            }
            ExprKind::Duration(value) => self.line(&format!("duration {value}ns")),
            ExprKind::Str(value) => self.line(&format!("string \"{}\"", value.escape_ascii())),
            ExprKind::Bool(value) => self.line(&format!("bool {value}")),
            ExprKind::Name(name) => self.line(&format!("name {name}")),
            ExprKind::Var(name) => self.line(&format!("var ${name}")),
            ExprKind::Map { name, keys } => match name.strip_prefix(STATE_MARK) {
                Some(state) => self.exprs(&format!("state {state}"), keys),
                None => self.exprs(&format!("map @{name}"), keys),
            },
            ExprKind::Positional(position) => self.line(&format!("argument ${position}")),
            ExprKind::PositionalCount => self.line("argument $#"),
            ExprKind::Call { name, args } => self.exprs(&format!("call {}", name.text), args),
            ExprKind::Tuple(parts) => self.exprs("tuple", parts),
            ExprKind::Record(parts) => self.parent("record", |p| {
                for (name, value) in parts {
                    p.parent(&format!("part {}", name.text), |p| p.expr(value));
                }
            }),
            ExprKind::SizeofType(ty) => self.line(&format!("sizeof type {}", type_text(ty))),
            ExprKind::Type(ty) => self.line(&format!("type {}", type_text(ty))),
            ExprKind::Offsetof(ty, fields) => {
                let path: Vec<&str> = fields.iter().map(|field| field.text.as_str()).collect();
                self.line(&format!("offsetof {} .{}", type_text(ty), path.join(".")));
            }
            ExprKind::Block(statements, value) => self.parent("block value", |p| {
                p.statements(statements);
                p.parent("value", |p| p.expr(value));
            }),
            kind => self.compound(kind),
        }
    }

    /// Expressions that have one to three operands.
    fn compound(&mut self, kind: &ExprKind) {
        match kind {
            ExprKind::Unary(op, value) => {
                self.parent(&format!("unary {}", op.symbol()), |p| p.expr(value));
            }
            ExprKind::Binary(op, left, right) => {
                self.parent(&format!("binary {}", op.symbol()), |p| {
                    p.expr(left);
                    p.expr(right);
                });
            }
            ExprKind::Ternary { cond, then, otherwise } => {
                self.parent(if then.is_some() { "ternary" } else { "ternary ?:" }, |p| {
                    p.expr(cond);
                    p.optional(then.as_deref());
                    p.expr(otherwise);
                });
            }
            ExprKind::Step { target, increment, prefix } => {
                let place = if *prefix { "before" } else { "after" };
                self.parent(&format!("step {} {place}", if *increment { "++" } else { "--" }), |p| p.expr(target));
            }
            ExprKind::Field(value, name) => {
                self.parent(&format!("field .{}", name.text), |p| p.expr(value));
            }
            ExprKind::TupleField(value, position) => {
                self.parent(&format!("part .{position}"), |p| p.expr(value));
            }
            ExprKind::Index(value, key) => self.parent("index", |p| {
                p.expr(value);
                p.expr(key);
            }),
            ExprKind::Cast(ty, value) => {
                self.parent(&format!("cast {}", type_text(ty)), |p| p.expr(value));
            }
            ExprKind::SizeofExpr(value) => self.parent("sizeof", |p| p.expr(value)),
            _ => {}
        }
    }
}
