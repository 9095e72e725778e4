//! A typed program as indented text, for `-d typed`.
//!
//! In: a [`Program`], and the kernel's BTF for the names of structs. Out: maps, then programs; one
//! node per line, with its type after a colon, children indented by two spaces.
//! Guarantee: every expression shows its type; source spans are omitted, so moving code changes
//! nothing.

use std::fmt::Write as _;

use crate::btf::Btf;
use crate::object::Constant;
use crate::typed::{Expr, ExprKind, Map, MapIndex, MapValue, Probe, Program, SpanStep, Stmt, StmtKind, VarIndex};

/// The tree of a program.
pub fn print(program: &Program, btf: Option<&Btf>) -> String {
    let mut printer = Printer { out: String::new(), depth: 0, program, btf };
    for map in &program.maps {
        printer.map(map);
    }
    for probe in &program.probes {
        printer.probe(probe);
    }
    printer.out
}

struct Printer<'a> {
    out: String,
    depth: usize,
    program: &'a Program,
    btf: Option<&'a Btf>,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.depth * 2);
    }

    fn nested(&mut self, children: impl FnOnce(&mut Self)) {
        self.depth += 1;
        children(self);
        self.depth -= 1;
    }

    fn parent(&mut self, text: &str, children: impl FnOnce(&mut Self)) {
        self.line(text);
        self.nested(children);
    }

    fn map(&mut self, map: &Map) {
        let key = map.key.as_ref().map_or(String::new(), |key| format!("[{}]", key.describe(self.btf)));
        let value = match &map.value {
            MapValue::Plain(ty) => ty.describe(self.btf),
            MapValue::Aggregate { word, params, signed, .. } => {
                let params: Vec<String> = params.iter().map(ToString::to_string).collect();
                let sign = if *signed { "signed" } else { "unsigned" };
                format!("{word}({}) of {sign} values", params.join(", "))
            }
        };
        self.line(&format!("map {}{key}: {value}", map.name));
    }

    fn probe(&mut self, probe: &Probe) {
        let context = format!("{:?}", probe.context.kind).to_lowercase();
        self.line(&format!("program {} ({context} context)", probe.section));
        self.nested(|p| {
            for name in &probe.names {
                p.line(&format!("at {name}"));
            }
            if !probe.only_pids.is_empty() {
                let pids: Vec<String> = probe.only_pids.iter().map(ToString::to_string).collect();
                p.line(&format!("only process {}", pids.join(", ")));
            }
            for var in &probe.vars {
                p.line(&format!("var ${}: {}", var.name, var.ty.describe(p.btf)));
            }
            if let Some(predicate) = &probe.predicate {
                p.parent("when", |p| p.expr(probe, predicate));
            }
            p.parent("do", |p| p.stmts(probe, &probe.body));
        });
    }

    fn stmts(&mut self, probe: &Probe, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(probe, &stmt.kind);
        }
    }

    fn stmt(&mut self, probe: &Probe, stmt: &StmtKind) {
        match stmt {
            StmtKind::Expr(value) => self.expr(probe, value),
            StmtKind::AssignVar(var, value) => {
                self.parent(&format!("assign {}", var_name(probe, *var)), |p| p.expr(probe, value));
            }
            StmtKind::AssignMap(map, key, value) => {
                self.keyed(probe, "assign", *map, key.as_ref(), |p| p.expr(probe, value));
            }
            StmtKind::UpdateMap(map, key, op, value) => {
                let verb = format!("update {}=", op.symbol());
                self.keyed(probe, &verb, *map, key.as_ref(), |p| p.expr(probe, value));
            }
            StmtKind::AssignField(field, value) => {
                let verb = format!("assign +{} of", field.offset_bytes);
                self.keyed(probe, &verb, field.map, field.key.as_deref(), |p| p.expr(probe, value));
            }
            StmtKind::UpdateField(field, op, value) => {
                let verb = format!("update {}= +{} of", op.symbol(), field.offset_bytes);
                self.keyed(probe, &verb, field.map, field.key.as_deref(), |p| p.expr(probe, value));
            }
            StmtKind::Aggregate(map, key, values) => {
                self.keyed(probe, "aggregate", *map, key.as_ref(), |p| p.exprs(probe, values));
            }
            StmtKind::If(cond, then, otherwise) => self.parent("if", |p| {
                p.expr(probe, cond);
                p.parent("then", |p| p.stmts(probe, then));
                if !otherwise.is_empty() {
                    p.parent("else", |p| p.stmts(probe, otherwise));
                }
            }),
            StmtKind::Block(body) => self.parent("block", |p| p.stmts(probe, body)),
            StmtKind::Clear(var) => self.line(&format!("clear {}", var_name(probe, *var))),
            StmtKind::Unroll(copies) => self.parent("unroll", |p| {
                for body in copies {
                    p.parent("block", |p| p.stmts(probe, body));
                }
            }),
            StmtKind::ForRange { var, start, end, body } => {
                self.parent(&format!("for {}", var_name(probe, *var)), |p| {
                    p.parent("from", |p| p.expr(probe, start));
                    p.parent("to", |p| p.expr(probe, end));
                    p.parent("do", |p| p.stmts(probe, body));
                });
            }
            StmtKind::ForMap { var, map, body } => {
                let head = format!("for {} in {}", var_name(probe, *var), self.map_name(*map));
                self.parent(&head, |p| p.stmts(probe, body));
            }
            StmtKind::ForSpan { span, key, body, .. } => {
                let head = format!("for {} in span {}", var_name(probe, *key), self.program.spans[span.0].name);
                self.parent(&head, |p| p.stmts(probe, body));
            }
            StmtKind::While(cond, body) => self.parent("while", |p| {
                p.expr(probe, cond);
                p.parent("do", |p| p.stmts(probe, body));
            }),
            StmtKind::Break => self.line("break"),
            StmtKind::Continue => self.line("continue"),
            StmtKind::Result(value) => self.parent("result", |p| p.expr(probe, value)),
            StmtKind::Return => self.line("return"),
            StmtKind::Span(step) => self.span_step(probe, step),
            StmtKind::Turn(groups) => self.line(&format!("turn {groups:?}")),
            StmtKind::TurnEnd(groups) => self.line(&format!("turn end {groups:?}")),
        }
    }

    fn span_step(&mut self, probe: &Probe, step: &SpanStep) {
        let name = self.program.spans.get(step.span.0).map_or("?", |span| span.name.as_str());
        self.line(&format!("span {name} {:?}", step.action).to_lowercase());
        self.nested(|p| {
            for keep in &step.keeps {
                p.parent(&format!("keep {}", var_name(probe, keep.var)), |p| p.expr(probe, &keep.value));
            }
            for handler in &step.handlers {
                p.parent("handler", |p| p.stmts(probe, handler));
            }
            for handler in step.evicted.iter().flat_map(|evicted| &evicted.handlers) {
                p.parent("evicted", |p| p.stmts(probe, handler));
            }
            for handler in step.replaced.iter().flat_map(|(_, handlers)| handlers) {
                p.parent("replaced", |p| p.stmts(probe, handler));
            }
        });
    }

    fn keyed(
        &mut self,
        probe: &Probe,
        verb: &str,
        map: MapIndex,
        key: Option<&Expr>,
        children: impl FnOnce(&mut Self),
    ) {
        self.line(&format!("{verb} {}", self.map_name(map)));
        self.nested(|p| {
            if let Some(key) = key {
                p.parent("key", |p| p.expr(probe, key));
            }
            children(p);
        });
    }

    fn map_name(&self, map: MapIndex) -> &str {
        self.program.maps.get(map.0).map_or("@?", |map| map.name.as_str())
    }

    fn param_name(&self, param: usize) -> String {
        self.program.params.get(param).map_or_else(|| "$?".into(), |param| format!("${}", param.name))
    }

    fn exprs(&mut self, probe: &Probe, exprs: &[Expr]) {
        for expr in exprs {
            self.expr(probe, expr);
        }
    }

    fn expr(&mut self, probe: &Probe, expr: &Expr) {
        let ty = expr.ty.describe(self.btf);
        let words = self.words(probe, &expr.kind);
        self.line(&format!("{words}: {ty}"));
        self.nested(|p| p.parts(probe, &expr.kind));
    }

    /// The text of an expression, without its operands.
    fn words(&self, probe: &Probe, kind: &ExprKind) -> String {
        match kind {
            ExprKind::Int(n) => n.to_string(),
            ExprKind::Str(text) => format!("{:?}", String::from_utf8_lossy(text)),
            ExprKind::Var(var) => var_name(probe, *var),
            ExprKind::Map(map, _) => self.map_name(*map).to_string(),
            ExprKind::Builtin(word, _) => word.to_string(),
            ExprKind::Call(call) => {
                let constants: Vec<String> = call.constants.iter().map(|c| self.constant(c)).collect();
                format!("{}({})", call.word, constants.join(", "))
            }
            ExprKind::Unary(op, _) => op.symbol().to_string(),
            ExprKind::Binary(op, ..) => op.symbol().to_string(),
            ExprKind::Ternary(..) => "choice".into(),
            ExprKind::StepVar { var, by, prefix } => step(&var_name(probe, *var), *by, *prefix),
            ExprKind::StepMap { map, by, prefix, .. } => step(self.map_name(*map), *by, *prefix),
            ExprKind::StepField { field, by, prefix } => {
                step(&format!("+{} of {}", field.offset_bytes, self.map_name(field.map)), *by, *prefix)
            }
            ExprKind::Exchange(field, _) => {
                format!("exchange +{} of {}", field.offset_bytes, self.map_name(field.map))
            }
            ExprKind::Convert(_) => "convert".into(),
            ExprKind::ContextField(offset) => format!("context field at {offset}"),
            ExprKind::ContextData(offset) => format!("context data described at {offset}"),
            ExprKind::ContextArg(index) => format!("context argument {index}"),
            ExprKind::Register(offset) => format!("register at {offset}"),
            ExprKind::SyscallRegister(offset) => format!("system call register at {offset}"),
            ExprKind::Deref { offset_bytes, bits: None, .. } => format!("memory at +{offset_bytes}"),
            ExprKind::Deref { offset_bytes, bits: Some((first, width)), .. } => {
                format!("{width} bits from bit {first} of memory at +{offset_bytes}")
            }
            ExprKind::Part { offset_bytes, .. } => format!("part at +{offset_bytes}"),
            ExprKind::PartAt { stride_bytes, .. } => format!("part of {stride_bytes} bytes"),
            ExprKind::Element { stride_bytes, .. } => format!("element of {stride_bytes} bytes"),
            ExprKind::AddressOf(_) => "address".into(),
            ExprKind::Tuple(_) => "tuple".into(),
            ExprKind::Block(..) => "block".into(),
            ExprKind::Param(param) => self.param_name(*param),
            ExprKind::Matches(_, param) => format!("matches {}", self.param_name(*param)),
        }
    }

    fn constant(&self, constant: &Constant) -> String {
        match constant {
            Constant::Int(n) => n.to_string(),
            Constant::Str(text) => format!("{text:?}"),
            Constant::Map(map) => self.map_name(MapIndex(*map)).to_string(),
            Constant::Format(format) => format!("format of {} values", format.conversions().count()),
        }
    }

    fn parts(&mut self, probe: &Probe, kind: &ExprKind) {
        match kind {
            ExprKind::Map(_, Some(key)) | ExprKind::StepMap { key: Some(key), .. } => self.expr(probe, key),
            ExprKind::StepField { field, .. } => {
                if let Some(key) = &field.key {
                    self.expr(probe, key);
                }
            }
            ExprKind::Exchange(field, value) => {
                if let Some(key) = &field.key {
                    self.expr(probe, key);
                }
                self.expr(probe, value);
            }
            ExprKind::Call(call) => self.exprs(probe, &call.args),
            ExprKind::Unary(_, inner)
            | ExprKind::Convert(inner)
            | ExprKind::AddressOf(inner)
            | ExprKind::Matches(inner, _) => self.expr(probe, inner),
            ExprKind::Deref { base, .. } | ExprKind::Part { base, .. } => self.expr(probe, base),
            ExprKind::Binary(_, a, b)
            | ExprKind::Element { base: a, index: b, .. }
            | ExprKind::PartAt { base: a, index: b, .. } => {
                self.expr(probe, a);
                self.expr(probe, b);
            }
            ExprKind::Ternary(cond, then, otherwise) => {
                for part in [cond, then, otherwise] {
                    self.expr(probe, part);
                }
            }
            ExprKind::Tuple(parts) => self.exprs(probe, parts),
            ExprKind::Block(body, value) => {
                self.stmts(probe, body);
                self.expr(probe, value);
            }
            ExprKind::Int(_)
            | ExprKind::Str(_)
            | ExprKind::Var(_)
            | ExprKind::Map(_, None)
            | ExprKind::StepMap { key: None, .. }
            | ExprKind::StepVar { .. }
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

fn var_name(probe: &Probe, var: VarIndex) -> String {
    probe.vars.get(var.0).map_or_else(|| "$?".into(), |var| format!("${}", var.name))
}

fn step(what: &str, by: i64, prefix: bool) -> String {
    let when = if prefix { "then read" } else { "after reading" };
    format!("step {what} by {by}, {when}")
}
