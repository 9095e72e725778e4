//! Expressions of the random scripts.
//!
//! In: a type and a depth. Out: an expression of that type. Guarantee: only variables in scope are
//! used.

use profiler_compiler::ast::{BinaryOp, Expr, ExprKind, UnaryOp};

use super::Generator;
use super::shapes::{Held, MapShape, OPERATORS, Ty};
use crate::tree;

const INTS: &[&str] =
    &["pid", "tid", "uid", "gid", "nsecs", "cpu", "rand", "ncpus", "elapsed", "cgroup", "numaid", "curtask->pid"];
const FIXED_INTS: &[&str] = &["uid", "gid", "ncpus", "pid", "tid"];
const TASK: &[&str] = &[
    "curtask->prio",
    "curtask->real_parent->tgid",
    "(uint64)curtask->mm->pgd",
    "curtask->se.vruntime",
    "curtask->real_parent->real_parent->pid",
    "curtask->in_execve",
    "curtask->cred->uid.val",
    "curtask->signal->nr_threads",
    "curtask->se.load.weight",
];
const LITERALS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "63",
    "64",
    "255",
    "256",
    "1000",
    "65535",
    "0xffffffff",
    "0x7fffffff",
    "4294967296",
    "0x7fffffffffffffff",
    "0xffffffffffffffff",
    "10ms",
    "-1",
    "-128",
];
const CASTS: &[&str] = &["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"];
const COMPARISONS: &[BinaryOp] = &[
    BinaryOp::Equal,
    BinaryOp::NotEqual,
    BinaryOp::Less,
    BinaryOp::LessEqual,
    BinaryOp::Greater,
    BinaryOp::GreaterEqual,
];
const STRINGS: &[&[u8]] = &[b"", b"a", b"hello", b"a longer literal with 40 bytes in it here", b"tab\tnl\n"];
const KERNEL_STRINGS: &[&str] =
    &["comm", "curtask->comm", "str(curtask)", "str(curtask, 5)", "curtask->real_parent->comm"];

impl Generator {
    pub(super) fn value(&mut self, ty: &Ty, depth: u32) -> Expr {
        match ty {
            Ty::Int => self.int(depth),
            Ty::Str => self.string(depth),
            Ty::Word(word) => tree::parsed(word),
            Ty::Tuple(parts) => {
                if self.dice.one_in(3)
                    && let Some(known) = self.known(ty)
                {
                    return known;
                }
                if depth > 1 && self.dice.one_in(6) {
                    let (cond, a, b) = (self.condition(1), self.value(ty, depth - 1), self.value(ty, depth - 1));
                    return tree::choice(cond, a, b);
                }
                tree::tuple(parts.iter().map(|ty| self.value(ty, depth.saturating_sub(1))).collect())
            }
        }
    }

    fn one_of(&mut self, mut from: Vec<Expr>) -> Option<Expr> {
        if from.is_empty() { None } else { Some(from.swap_remove(self.dice.below(from.len() as u64) as usize)) }
    }

    /// A variable of the type.
    pub(super) fn known(&mut self, ty: &Ty) -> Option<Expr> {
        let places = self.places.iter().filter(|place| place.1 == *ty).map(|place| place.0.clone());
        let fits = self.vars.iter().filter(|v| v.1 == *ty).map(|v| tree::var(&v.0)).chain(places).collect();
        self.one_of(fits)
    }

    /// An element of the type in a known tuple.
    pub(super) fn part(&mut self, ty: &Ty) -> Option<Expr> {
        let part = |(name, of): &(String, Ty)| match of {
            Ty::Tuple(parts) => {
                let at = parts.iter().position(|part| part == ty)? as u32;
                Some(tree::expr(ExprKind::TupleField(Box::new(tree::var(name)), at)))
            }
            _ => None,
        };
        let fits = self.vars.iter().filter_map(part).collect();
        self.one_of(fits)
    }

    /// A read of a map that holds the type.
    pub(super) fn read(&mut self, ty: &Ty) -> Option<Expr> {
        let fits: Vec<MapShape> =
            self.maps.iter().filter(|m| matches!(&m.held, Held::Plain(t) if t == ty)).cloned().collect();
        if fits.is_empty() || self.dice.one_in(3) {
            return self.field(ty);
        }
        let map = fits[self.dice.below(fits.len() as u64) as usize].clone();
        Some(self.place(&map))
    }

    pub(super) fn int(&mut self, depth: u32) -> Expr {
        if depth == 0 {
            return self.int_leaf();
        }
        match self.dice.below(19) {
            0..=4 => {
                let (a, op, b) = (self.int(depth - 1), self.dice.pick(OPERATORS), self.int(depth - 1));
                tree::binary(op, a, b)
            }
            5 => tree::cast(self.dice.pick(CASTS), self.int_leaf()),
            6 => tree::cast(self.dice.pick(CASTS), self.int(depth - 1)),
            7 => tree::unary(self.dice.pick(&[UnaryOp::Neg, UnaryOp::BitNot]), self.int(depth - 1)),
            // A boolean is a number in arithmetic only.
            8 => {
                let (a, b) = (self.condition(depth - 1), self.int(depth - 1));
                tree::binary(BinaryOp::Add, a, b)
            }
            9 => {
                let (cond, a, b) = (self.condition(depth - 1), self.int(depth - 1), self.int(depth - 1));
                tree::choice(cond, a, b)
            }
            10 if self.dice.one_in(3) => self.inflight().unwrap_or_else(|| self.int_leaf()),
            10 => self.part(&Ty::Int).unwrap_or_else(|| self.int_leaf()),
            11 if depth > 1 => self.read(&Ty::Int).unwrap_or_else(|| self.int_leaf()),
            12 => self.about_a_map(),
            13 => self.stepped(),
            14 if depth > 1 => self.block_value(depth),
            15 => {
                let (cond, otherwise) = (Box::new(self.int(depth - 1)), Box::new(self.int(depth - 1)));
                tree::expr(ExprKind::Ternary { cond, then: None, otherwise })
            }
            _ => self.int_leaf(),
        }
    }

    /// The length of a map, or whether it has a key.
    fn about_a_map(&mut self) -> Expr {
        let keyed: Vec<MapShape> = self.maps.iter().filter(|m| m.key.is_some()).cloned().collect();
        match keyed.first() {
            Some(map) if self.dice.one_in(2) => tree::call("len", vec![tree::map(&map.name, Vec::new())]),
            Some(map) => {
                let place = self.place(map);
                // A boolean variable cannot be incremented.
                tree::cast("int64", tree::call("has_key", vec![place]))
            }
            None => self.int_leaf(),
        }
    }

    /// A variable or map that is incremented or decremented in an expression.
    fn stepped(&mut self) -> Expr {
        let (increment, prefix) = (self.dice.one_in(2), self.dice.one_in(2));
        let variables = self.vars.iter().filter(|v| v.1 == Ty::Int).map(|v| tree::var(&v.0)).collect();
        let target = if self.dice.one_in(2) { self.one_of(variables) } else { self.read(&Ty::Int) };
        target.map_or_else(|| self.int_leaf(), |target| tree::step(target, increment, prefix))
    }

    /// `{ …; value }`.
    fn block_value(&mut self, depth: u32) -> Expr {
        let known = self.vars.len();
        let body = vec![self.declare()];
        let value = self.int(depth - 1);
        self.vars.truncate(known);
        tree::expr(ExprKind::Block(body, Box::new(value)))
    }

    fn int_leaf(&mut self) -> Expr {
        let here = self.here.ints;
        if self.fixed {
            return match self.dice.below(6) {
                0 | 1 => self.snippet(LITERALS),
                2 => self.snippet(FIXED_INTS),
                3 if !here.is_empty() => self.snippet(here),
                _ => self.known(&Ty::Int).unwrap_or_else(|| tree::name("ncpus")),
            };
        }
        match self.dice.below(8) {
            0 | 1 => self.snippet(LITERALS),
            2 => self.snippet(INTS),
            3 if self.dice.one_in(2) => self.snippet(TASK),
            4 | 5 => self.known(&Ty::Int).unwrap_or_else(|| tree::int(11)),
            _ if !here.is_empty() => {
                let value = self.snippet(here);
                tree::cast("int64", value)
            }
            _ => self.snippet(INTS),
        }
    }

    pub(super) fn string(&mut self, depth: u32) -> Expr {
        let here = self.here.strings;
        let comm = || tree::name("comm");
        match self.dice.below(10) {
            0 => tree::text(self.dice.pick(STRINGS)),
            1 | 2 => comm(),
            3 | 4 => self.known(&Ty::Str).unwrap_or_else(comm),
            5 if depth > 0 => {
                let (cond, a, b) = (self.condition(depth - 1), self.string(depth - 1), self.string(depth - 1));
                tree::choice(cond, a, b)
            }
            6 => self.part(&Ty::Str).unwrap_or_else(comm),
            7 if depth > 0 => self.read(&Ty::Str).unwrap_or_else(comm),
            _ if self.fixed => tree::text(self.dice.pick(STRINGS)),
            _ if !here.is_empty() => self.snippet(here),
            _ => self.snippet(KERNEL_STRINGS),
        }
    }

    pub(super) fn condition(&mut self, depth: u32) -> Expr {
        let next = depth.saturating_sub(1);
        match self.dice.below(10) {
            0..=3 => {
                let (a, op, b) = (self.int(next), self.dice.pick(COMPARISONS), self.int(next));
                tree::binary(op, a, b)
            }
            4 | 5 => {
                let (a, b) = (self.string(next), self.string(next));
                tree::binary(self.dice.pick(&[BinaryOp::Equal, BinaryOp::NotEqual]), a, b)
            }
            6 if depth > 0 => {
                let (a, b) = (self.condition(next), self.condition(next));
                tree::binary(self.dice.pick(&[BinaryOp::LogicalAnd, BinaryOp::LogicalOr]), a, b)
            }
            7 if depth > 0 => tree::unary(UnaryOp::Not, self.condition(next)),
            8 => self.int(next),
            _ if self.fixed => tree::parsed("ncpus != 0"),
            _ if self.here.point.starts_with("uprobe") => tree::parsed("arg0 > 100"),
            _ => tree::parsed("pid != 0"),
        }
    }
}
