//! Statements of the random scripts.
//!
//! In: a depth. Out: a statement. Guarantee: loops end after a few iterations.

use profiler_compiler::ast::{BinaryOp, Expr, Stmt, StmtKind};

use super::Generator;
use super::shapes::{Held, MapShape, OPERATORS, Ty};
use crate::tree;

/// Conversions and the kind of value that they print.
#[derive(Clone, Copy)]
enum Shown {
    Int(u32),
    Str(u32),
    Stack,
    Word,
    Buffer,
}

const CONVERSIONS: [(&str, Shown); 12] = [
    ("%x", Shown::Int(3)),
    ("%5d", Shown::Int(3)),
    ("%c", Shown::Int(1)),
    ("%d", Shown::Int(4)),
    ("%d", Shown::Int(4)),
    ("%lld", Shown::Int(2)),
    ("%s", Shown::Str(3)),
    ("%s", Shown::Str(3)),
    ("%-20s|", Shown::Str(1)),
    ("%s", Shown::Stack),
    ("%s", Shown::Word),
    ("%r", Shown::Buffer),
];
const STACKS: &[&str] = &["kstack", "ustack", "kstack(3)", "ustack(perf, 100)"];
const WORDS: &[&str] = &["ksym(curtask)", "ntop(pid)", "probe", "username", "strftime(\"%H:%M\", nsecs)"];
const FIXED_WORDS: &[&str] = &["ksym(uid)", "ntop(pid)", "probe", "username", "strftime(\"%H:%M\", uid)"];

impl Generator {
    pub(super) fn statement(&mut self, depth: u32) -> Stmt {
        match self.dice.below(22) {
            0..=3 => self.declare(),
            4 => self.assign(),
            5..=9 => self.write_map(),
            10 | 11 if depth < 4 => {
                let cond = self.condition(3);
                let then = self.body(depth);
                let otherwise = if self.dice.one_in(2) { self.body(depth) } else { Vec::new() };
                tree::stmt(StmtKind::If { cond, then, otherwise })
            }
            12 if depth < 3 => {
                let count = tree::int(1 + self.dice.below(5));
                tree::stmt(StmtKind::Unroll { count, body: self.body(depth + 1) })
            }
            13 | 14 => self.printf(),
            15 => self.print(),
            16 => self.remove(),
            17 => self.step(),
            18 => self.rarity(depth),
            19 if depth < 3 && self.loops => self.repeat(depth),
            20 if depth < 4 => tree::stmt(StmtKind::Block(self.body(depth))),
            _ => self.write_map(),
        }
    }

    fn assign(&mut self) -> Stmt {
        if self.vars.is_empty() {
            return self.declare();
        }
        let (name, ty) = self.vars[self.dice.below(self.vars.len() as u64) as usize].clone();
        if ty == Ty::Int && self.dice.one_in(3) {
            let op = self.dice.pick(OPERATORS);
            return tree::assign(tree::var(&name), Some(op), self.int(2));
        }
        let value = self.value(&ty, 3);
        tree::assign(tree::var(&name), None, value)
    }

    pub(super) fn place(&mut self, map: &MapShape) -> Expr {
        let keys = map.key.iter().flatten().map(|ty| self.value(ty, 2)).collect();
        tree::map(&map.name, keys)
    }

    fn write_map(&mut self) -> Stmt {
        let map = self.any_map();
        self.write(&map)
    }

    pub(super) fn write(&mut self, map: &MapShape) -> Stmt {
        if let Held::Record(fields) = &map.held {
            return self.write_field(map, fields);
        }
        let place = self.place(map);
        match &map.held {
            Held::Record(_) => unreachable!("it was written above"),
            Held::Aggregate("count", _) => tree::assign(place, None, tree::call("count", Vec::new())),
            Held::Aggregate(word, rest) => {
                let mut args = vec![self.int(3)];
                args.extend(rest.iter().map(|n| tree::int(*n)));
                tree::assign(place, None, tree::call(word, args))
            }
            Held::Plain(Ty::Int) if self.dice.one_in(3) => {
                let op = self.dice.pick(OPERATORS);
                tree::assign(place, Some(op), self.int(2))
            }
            Held::Plain(ty) => {
                let value = self.value(ty, 3);
                tree::assign(place, None, value)
            }
        }
    }

    fn any_map(&mut self) -> MapShape {
        self.maps[self.dice.below(self.maps.len() as u64) as usize].clone()
    }

    fn shown(&mut self, what: Shown) -> Expr {
        match what {
            Shown::Int(depth) => self.int(depth),
            Shown::Stack if self.here.stacks => self.snippet(STACKS),
            Shown::Word => self.snippet(if self.fixed { FIXED_WORDS } else { WORDS }),
            Shown::Buffer if !self.fixed => self.buffer(),
            Shown::Str(depth) => self.string(depth),
            Shown::Stack | Shown::Buffer => self.string(1),
        }
    }

    fn printf(&mut self) -> Stmt {
        let count = if self.dice.one_in(8) { 12 } else { self.dice.below(5) };
        self.formatted("printf", count)
    }

    /// A call of a function that takes a format.
    fn formatted(&mut self, function: &str, count: u64) -> Stmt {
        let (mut format, mut args) = (String::new(), Vec::new());
        for _ in 0..count {
            let (mut conversion, what) = self.dice.pick(&CONVERSIONS);
            if matches!(what, Shown::Buffer) && self.fixed {
                conversion = "%s";
            }
            format.push_str(conversion);
            format.push(' ');
            args.push(self.shown(what));
        }
        format.push('\n');
        args.insert(0, tree::text(format.as_bytes()));
        tree::act(function, args)
    }

    fn buffer(&mut self) -> Expr {
        let size = match self.dice.below(3) {
            0 => tree::int(self.dice.pick(&[1, 16, 100, 1024])),
            _ => tree::binary(BinaryOp::Add, tree::name("pid"), self.int(1)),
        };
        tree::call("buf", vec![tree::name("curtask"), size])
    }

    fn print(&mut self) -> Stmt {
        let what = match self.dice.below(4) {
            0 => {
                let map = self.any_map();
                match map.key {
                    Some(_) if self.dice.one_in(2) => self.place(&map),
                    _ => tree::map(&map.name, Vec::new()),
                }
            }
            _ => {
                let ty = self.ty(2);
                self.value(&ty, 3)
            }
        };
        tree::act("print", vec![what])
    }

    fn remove(&mut self) -> Stmt {
        let map = self.any_map();
        let whole = tree::map(&map.name, Vec::new());
        let is_record = matches!(map.held, Held::Record(_));
        match self.dice.below(5) {
            0 => tree::act("clear", vec![whole]),
            1 if !is_record => tree::act("zero", vec![whole]),
            _ => {
                let place = self.place(&map);
                tree::act("delete", vec![place])
            }
        }
    }

    fn step(&mut self) -> Stmt {
        let numbers: Vec<MapShape> =
            self.maps.iter().filter(|m| matches!(m.held, Held::Plain(Ty::Int))).cloned().collect();
        let Some(map) = numbers.first() else { return self.write_map() };
        let place = self.place(map);
        tree::stmt(StmtKind::Expr(tree::step(place, self.dice.one_in(2), false)))
    }

    /// A loop of a few iterations.
    fn repeat(&mut self, depth: u32) -> Stmt {
        let counter = self.fresh();
        let rounds = 1 + self.dice.below(5);
        let known = self.vars.len();
        self.vars.push((counter.clone(), Ty::Int));
        let mut body = self.body(depth + 1);
        self.vars.truncate(known);
        if self.dice.one_in(3) {
            let cond = self.condition(1);
            let leave = self.dice.pick(&[StmtKind::Break, StmtKind::Continue].each_ref()).clone();
            body.push(tree::stmt(StmtKind::If { cond, then: vec![tree::stmt(leave)], otherwise: Vec::new() }));
        }
        let (start, end) = (tree::int(0), tree::int(rounds));
        tree::stmt(StmtKind::ForRange { name: tree::ident(&counter), start, end, body })
    }

    /// Statements that are rare in scripts.
    fn rarity(&mut self, depth: u32) -> Stmt {
        match self.dice.below(9) {
            0 if depth > 1 => tree::stmt(StmtKind::Return(None)),
            1 => tree::act("exit", Vec::new()),
            2 if !self.fixed => tree::act("time", vec![tree::text(b"%H:%M:%S\n")]),
            3 => {
                let path = self.string(1);
                tree::act("cat", vec![tree::text(b"/proc/%s/%d"), path, tree::name("pid")])
            }
            4 if !self.fixed => tree::act("join", vec![tree::name("curtask")]),
            5 if self.here.stacks => tree::act("print", vec![tree::name("kstack")]),
            6 => {
                let (cond, a, b) = (self.condition(2), self.string(1), self.string(1));
                let say = |format: &[u8], value| tree::call("printf", vec![tree::text(format), value]);
                tree::stmt(StmtKind::Expr(tree::choice(cond, say(b"%s\n", a), say(b"%s!\n", b))))
            }
            7 => self.formatted("system", 2),
            _ => self.printf(),
        }
    }
}
