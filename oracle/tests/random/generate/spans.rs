//! Spans of the random scripts, and the handlers of their events.
//!
//! In: the types that the maps hold. Out: definitions and blocks. Guarantee: there are few keys, so
//! that starts meet ends; no time is read, and nothing expires within a test.

use profiler_compiler::ast::{BinaryOp, Expr, ExprKind, Keep, KeyPart, ProbeBlock, SpanDefinition, Stage, StageKind};
use profiler_compiler::source::Span;

use super::Generator;
use super::shapes::{ProbeShape, Ty};
use crate::tree;

/// Longer than any machine's uptime.
const NEVER_NS: u64 = 365 * 86_400_000_000_000;

/// A span under construction.
struct Shape {
    name: String,
    /// The parts of the key; none if the key is the thread.
    key: Vec<(String, Ty)>,
    fields: Vec<(String, Ty)>,
    marks: Vec<String>,
}

impl Generator {
    /// A span and the handlers of its events.
    pub(super) fn span(&mut self, index: u64) -> (SpanDefinition, Vec<ProbeBlock>) {
        let of_thread = self.dice.one_in(4);
        let key_ty = |cx: &mut Self| match cx.dice.below(3) {
            0 => Ty::Str,
            1 => Ty::Tuple(vec![Ty::Int, Ty::Str]),
            _ => Ty::Int,
        };
        let parts = if of_thread { 0 } else { 1 + self.dice.below(2) };
        let shape = Shape {
            name: format!("sp{index}"),
            key: (0..parts).map(|at| (format!("k{at}"), key_ty(self))).collect(),
            fields: (0..self.dice.below(4)).map(|at| (format!("f{at}"), key_ty(self))).collect(),
            marks: (0..self.dice.below(3)).map(|at| format!("m{at}")).collect(),
        };
        let mut made = SpanDefinition {
            name: tree::ident(&shape.name),
            key: Vec::new(),
            stages: Vec::new(),
            restart: Vec::new(),
            expire: Vec::new(),
            limit: Vec::new(),
            evict: None,
            span: Span::default(),
        };
        let mut blocks = Vec::new();
        let starts = 1 + self.dice.below(2);
        let marks: Vec<StageKind> = shape.marks.iter().map(|mark| StageKind::Mark(tree::ident(mark))).collect();
        let kinds = (0..starts).map(|_| StageKind::Start).chain(marks).chain([StageKind::End]);
        let mut at_start = None;
        for kind in kinds.collect::<Vec<_>>() {
            self.enter_probe();
            let stage = self.stage(&shape, kind);
            let event = stage.kind.event().to_owned();
            let is_one_of_several = stage.kind == StageKind::Start && starts > 1;
            made.stages.push(stage);
            if is_one_of_several {
                self.here = ProbeShape { point: "BEGIN", ints: &[], strings: &[], stacks: false };
            }
            if event == "start" {
                let is_first = at_start.is_none();
                at_start = Some(self.here.clone());
                if !is_first {
                    continue;
                }
            }
            if self.dice.below(4) > 0 {
                blocks.push(self.handler(&shape, &event));
            }
        }
        self.clauses(&mut made, of_thread);
        let replaces = made.restart.iter().all(|word| word.text == "replace");
        self.here = at_start.unwrap_or_else(|| self.here.clone());
        if replaces && self.dice.one_in(2) {
            blocks.push(self.handler(&shape, "replace"));
        }
        if made.evict.is_some() && self.dice.below(4) > 0 {
            blocks.push(self.handler(&shape, "evict"));
        }
        if !made.expire.is_empty() && self.dice.one_in(2) {
            let gone = tree::assign(tree::map("expired", Vec::new()), None, tree::call("count", Vec::new()));
            blocks.push(tree::block(&format!("{}:expire", shape.name), None, vec![gone]));
        }
        self.vars.clear();
        (made, blocks)
    }

    fn clauses(&mut self, made: &mut SpanDefinition, of_thread: bool) {
        let word = match self.dice.below(6) {
            0 => Some("keep"),
            1 => Some("replace"),
            2 | 3 if of_thread => Some("nest"),
            _ => None,
        };
        made.restart.extend(word.map(tree::ident));
        let nests = word == Some("nest");
        if !of_thread && self.dice.one_in(2) {
            made.limit.push(tree::int(1 + self.dice.below(3)));
            made.evict = if self.dice.one_in(2) { Some(Span::default()) } else { None };
        }
        if !nests && self.dice.one_in(5) {
            made.expire.push(tree::expr(ExprKind::Duration(NEVER_NS)));
        }
    }

    fn stage(&mut self, shape: &Shape, kind: StageKind) -> Stage {
        let predicate = if self.dice.one_in(4) { Some(self.condition(2)) } else { None };
        let key = if shape.key.is_empty() {
            vec![KeyPart { name: Some(tree::ident("tid")), value: tree::name("tid") }]
        } else {
            let part = |(name, ty): &(String, Ty)| KeyPart { name: Some(tree::ident(name)), value: self.key_value(ty) };
            shape.key.iter().map(part).collect()
        };
        let mut keeps = Vec::new();
        for (name, ty) in &shape.fields {
            if kind == StageKind::Start || self.dice.one_in(2) {
                let value = match ty {
                    Ty::Int if kind != StageKind::Start && self.dice.one_in(2) => {
                        tree::binary(BinaryOp::Add, of_span(&shape.name, name), tree::int(1))
                    }
                    Ty::Int => tree::cast("int64", self.int(2)),
                    // A string may be longer than the span stores, or longer than the field's
                    // initial value.
                    ty => self.key_value(ty),
                };
                keeps.push(Keep { name: tree::ident(name), value });
            }
        }
        let point = tree::block(self.here.point, None, Vec::new()).points;
        Stage { kind, points: point, predicate, key, keeps, span: Span::default() }
    }

    /// One of a few values.
    fn key_value(&mut self, ty: &Ty) -> Expr {
        match ty {
            Ty::Int => {
                let (value, few) = (self.int(1), self.dice.pick(&[0, 1, 3]));
                tree::cast("int64", tree::binary(BinaryOp::BitAnd, value, tree::int(few)))
            }
            Ty::Str => tree::text(self.dice.pick(&[b"a".as_slice(), b"b", b"a longer name"])),
            Ty::Tuple(parts) => tree::tuple(parts.iter().map(|ty| self.key_value(ty)).collect()),
            Ty::Word(word) => tree::parsed(word),
        }
    }

    /// A handler of an event, which reads what the span offers.
    fn handler(&mut self, shape: &Shape, event: &str) -> ProbeBlock {
        self.vars.clear();
        let fields = shape.key.iter().chain(&shape.fields);
        self.places = fields.map(|(name, ty)| (of_span(&shape.name, name), ty.clone())).collect();
        let predicate = if self.dice.one_in(4) { Some(self.condition(2)) } else { None };
        let mut body = Vec::new();
        self.statements(1, 4, 1, &mut body);
        self.places.clear();
        tree::block(&format!("{}:{event}", shape.name), predicate, body)
    }

    /// The number of open spans, in all or in one stage.
    pub(super) fn inflight(&mut self) -> Option<Expr> {
        let at = self.dice.below(self.spans.len().max(1) as u64) as usize;
        let (name, stages) = self.spans.get(at)?.clone();
        let mut args = vec![tree::name(&name)];
        if self.dice.one_in(2) {
            args.push(tree::name(&stages[self.dice.below(stages.len() as u64) as usize]));
        }
        Some(tree::call("inflight", args))
    }
}

fn of_span(span: &str, field: &str) -> Expr {
    tree::expr(ExprKind::Field(Box::new(tree::name(span)), tree::ident(field)))
}
