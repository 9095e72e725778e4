//! Expressions of the random scripts.
//!
//! In: a type and a depth. Out: text of an expression of that type. Guarantee: only variables in reach are named.

use super::{Generator, Held, MapShape, OPERATORS, Ty};

const INTS: &[&str] =
    &["pid", "tid", "uid", "gid", "nsecs", "cpu", "rand", "ncpus", "elapsed", "cgroup", "numaid", "curtask->pid"];
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
const COMPARISONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
const STRINGS: &[&str] =
    &[r#""""#, r#""a""#, r#""hello""#, r#""a longer literal with 40 bytes in it here""#, r#""tab\tnl\n""#];

impl Generator {
    pub(super) fn value(&mut self, ty: &Ty, depth: u32) -> String {
        let known: Vec<String> = self.vars.iter().filter(|v| v.1 == *ty).map(|v| v.0.clone()).collect();
        match ty {
            Ty::Int => self.int(depth),
            Ty::Str => self.string(depth),
            Ty::Word(word) => (*word).to_string(),
            Ty::Tuple(_) if !known.is_empty() && self.dice.one_in(3) => {
                known[self.dice.below(known.len() as u64) as usize].clone()
            }
            Ty::Tuple(_) if depth > 1 && self.dice.one_in(6) => {
                let (condition, a, b) = (self.condition(1), self.value(ty, depth - 1), self.value(ty, depth - 1));
                format!("({condition} ? {a} : {b})")
            }
            Ty::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|ty| self.value(ty, depth.saturating_sub(1))).collect();
                format!("({})", parts.join(", "))
            }
        }
    }

    pub(super) fn known(&mut self, ty: &Ty) -> Option<String> {
        let fits: Vec<String> = self.vars.iter().filter(|v| v.1 == *ty).map(|v| v.0.clone()).collect();
        (!fits.is_empty()).then(|| fits[self.dice.below(fits.len() as u64) as usize].clone())
    }

    /// A part of a known tuple that has the type.
    pub(super) fn part(&mut self, ty: &Ty) -> Option<String> {
        let fits: Vec<String> = self
            .vars
            .iter()
            .filter_map(|(name, of)| match of {
                Ty::Tuple(parts) => parts.iter().position(|part| part == ty).map(|at| format!("{name}.{at}")),
                _ => None,
            })
            .collect();
        (!fits.is_empty()).then(|| fits[self.dice.below(fits.len() as u64) as usize].clone())
    }

    /// A read of a map that holds the type.
    pub(super) fn read(&mut self, ty: &Ty) -> Option<String> {
        let fits: Vec<MapShape> =
            self.maps.iter().filter(|m| matches!(&m.held, Held::Plain(t) if t == ty)).cloned().collect();
        if fits.is_empty() {
            return None;
        }
        let map = fits[self.dice.below(fits.len() as u64) as usize].clone();
        Some(self.place(&map))
    }

    pub(super) fn int(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.int_leaf();
        }
        match self.dice.below(16) {
            0..=4 => {
                let (a, op, b) = (self.int(depth - 1), self.dice.pick(OPERATORS), self.int(depth - 1));
                format!("({a} {op} {b})")
            }
            5 => format!("({}){}", self.dice.pick(CASTS), self.int_leaf()),
            6 => format!("({})({})", self.dice.pick(CASTS), self.int(depth - 1)),
            7 => format!("{}({})", self.dice.pick(&["-", "~"]), self.int(depth - 1)),
            8 => format!("({})", self.condition(depth - 1)),
            9 => {
                let (condition, a, b) = (self.condition(depth - 1), self.int(depth - 1), self.int(depth - 1));
                format!("({condition} ? {a} : {b})")
            }
            10 => self.part(&Ty::Int).unwrap_or_else(|| self.int_leaf()),
            11 if depth > 1 => self.read(&Ty::Int).unwrap_or_else(|| self.int_leaf()),
            12 => {
                let keyed: Vec<MapShape> = self.maps.iter().filter(|m| m.key.is_some()).cloned().collect();
                match keyed.first() {
                    Some(map) if self.dice.one_in(2) => format!("len({})", map.name),
                    Some(map) => {
                        let place = self.place(map);
                        format!("has_key({place})")
                    }
                    None => self.int_leaf(),
                }
            }
            _ => self.int_leaf(),
        }
    }

    fn int_leaf(&mut self) -> String {
        if self.fixed {
            return match self.dice.below(5) {
                0 | 1 => self.dice.pick(LITERALS).to_string(),
                2 => self.dice.pick(&["uid", "ncpus"]).to_string(),
                _ => self.known(&Ty::Int).unwrap_or_else(|| "ncpus".into()),
            };
        }
        let here = self.here.as_ref().map_or(&[][..], |here| here.ints);
        match self.dice.below(8) {
            0 | 1 => self.dice.pick(LITERALS).to_string(),
            2 => self.dice.pick(INTS).to_string(),
            3 if self.dice.one_in(2) => self.dice.pick(TASK).to_string(),
            4 | 5 => self.known(&Ty::Int).unwrap_or_else(|| "11".into()),
            _ if !here.is_empty() => format!("(int64){}", self.dice.pick(here)),
            _ => self.dice.pick(INTS).to_string(),
        }
    }

    pub(super) fn string(&mut self, depth: u32) -> String {
        let here = self.here.as_ref().map_or(&[][..], |here| here.strings);
        match self.dice.below(10) {
            0 => self.dice.pick(STRINGS).to_string(),
            1 | 2 => "comm".into(),
            3 | 4 => self.known(&Ty::Str).unwrap_or_else(|| "comm".into()),
            5 if depth > 0 => {
                let (condition, a, b) = (self.condition(depth - 1), self.string(depth - 1), self.string(depth - 1));
                format!("({condition} ? {a} : {b})")
            }
            6 => self.part(&Ty::Str).unwrap_or_else(|| "comm".into()),
            7 if depth > 0 => self.read(&Ty::Str).unwrap_or_else(|| "comm".into()),
            _ if self.fixed => self.dice.pick(STRINGS).to_string(),
            _ if !here.is_empty() => self.dice.pick(here).to_string(),
            _ => self
                .dice
                .pick(&["comm", "curtask->comm", "str(curtask)", "str(curtask, 5)", "curtask->real_parent->comm"])
                .to_string(),
        }
    }

    pub(super) fn condition(&mut self, depth: u32) -> String {
        let next = depth.saturating_sub(1);
        match self.dice.below(10) {
            0..=3 => {
                let (a, op, b) = (self.int(next), self.dice.pick(COMPARISONS), self.int(next));
                format!("({a} {op} {b})")
            }
            4 | 5 => {
                let (a, op, b) = (self.string(next), self.dice.pick(&["==", "!="]), self.string(next));
                format!("({a} {op} {b})")
            }
            6 if depth > 0 => {
                let (a, op, b) = (self.condition(next), self.dice.pick(&["&&", "||"]), self.condition(next));
                format!("({a} {op} {b})")
            }
            7 if depth > 0 => format!("!({})", self.condition(next)),
            8 => format!("({})", self.int(next)),
            _ => {
                let point = self.here.as_ref().map(|here| here.point.clone()).unwrap_or_default();
                if self.fixed {
                    "(ncpus != 0)".into()
                } else if point.starts_with("uprobe") {
                    "(arg0 > 100)".into()
                } else {
                    "(pid != 0)".into()
                }
            }
        }
    }
}
