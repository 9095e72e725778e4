//! Integer expressions: an independent implementation of the language's arithmetic, on the syntax.
//!
//! In: a seed. Out: an expression as text and its value. Guarantee: shares no code with the
//! compiler; the rules are those of `check/operators.rs`: 64 bits, a nonnegative literal takes the
//! other side's sign unless it is cast (but also then in a division), x/0 = 0, x%0 = x.

use std::fmt::Write as _;

use crate::dice::Dice;
use crate::executors::{Setting, evaluated, forms, interpreted, run_by_kernel};
use crate::{can_load, range};

/// An integer type; booleans are separate.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ty {
    Bool,
    Int { bytes: u32, signed: bool },
}

const I64: Ty = Ty::Int { bytes: 8, signed: true };
const U64: Ty = Ty::Int { bytes: 8, signed: false };

impl Ty {
    fn signed(self) -> bool {
        matches!(self, Ty::Int { signed: true, .. })
    }

    fn bytes(self) -> u32 {
        if let Ty::Int { bytes, .. } = self { bytes } else { 1 }
    }

    /// Truncates a number to the type's width, and sign-extends or zero-extends it.
    fn cut(self, bits: i128) -> i128 {
        if self == Ty::Bool {
            return i128::from(bits != 0);
        }
        let modulus = 1i128 << (8 * self.bytes());
        let low = bits.rem_euclid(modulus);
        if self.signed() && low >= modulus / 2 { low - modulus } else { low }
    }
}

/// An expression with its exact value, reduced to the range of its type.
#[derive(Debug, Clone)]
struct Value {
    text: String,
    number: i128,
    ty: Ty,
    /// Whether the compiler knows the value.
    constant: bool,
    /// Whether a cast decides its type.
    cast: bool,
}

impl Value {
    fn neutral(&self, divides: bool) -> bool {
        self.constant && self.number >= 0 && self.ty == I64 && (divides || !self.cast)
    }

    fn converted(&self, ty: Ty) -> i128 {
        ty.cut(self.number)
    }
}

const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    7,
    8,
    63,
    64,
    127,
    128,
    255,
    65535,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ff80,
];

struct Maker {
    dice: Dice,
    vars: Vec<Value>,
}

impl Maker {
    fn literal(&mut self) -> Value {
        let n = self.dice.pick(&NUMBERS);
        let ty = if i64::try_from(n).is_ok() { I64 } else { U64 };
        Value { text: n.to_string(), number: i128::from(n), ty, constant: true, cast: false }
    }

    fn ty(&mut self) -> Ty {
        Ty::Int { bytes: self.dice.pick(&[1, 2, 4, 8]), signed: self.dice.one_in(2) }
    }

    fn cast(value: &Value, ty: Ty) -> Value {
        let sign = if ty.signed() { "int" } else { "uint" };
        let text = format!("({sign}{})({})", ty.bytes() * 8, value.text);
        Value { text, number: value.converted(ty), ty, constant: value.constant, cast: true }
    }

    fn expression(&mut self, depth: u32) -> Value {
        if depth == 0 || self.dice.one_in(8) {
            return if self.dice.one_in(3) { self.literal() } else { self.variable() };
        }
        match self.dice.below(12) {
            0 => {
                let (inner, ty) = (self.expression(depth - 1), self.ty());
                Maker::cast(&inner, ty)
            }
            1 => {
                let inner = self.expression(depth - 1);
                // Negation keeps the type of a number; literals and booleans become `I64`.
                let is_literal = inner.text.starts_with(|c: char| c.is_ascii_digit());
                let ty = if is_literal || inner.ty == Ty::Bool { I64 } else { inner.ty };
                Value {
                    text: format!("-({})", inner.text),
                    number: ty.cut(-inner.number),
                    ty,
                    constant: inner.constant,
                    cast: inner.cast,
                }
            }
            2 => {
                let inner = self.expression(depth - 1);
                let ty = if inner.ty == Ty::Bool { U64 } else { inner.ty };
                Value {
                    text: format!("~({})", inner.text),
                    number: ty.cut(-1 - inner.number),
                    ty,
                    constant: inner.constant,
                    cast: inner.cast,
                }
            }
            3 => {
                let inner = self.expression(depth - 1);
                let number = i128::from(inner.number == 0);
                Value {
                    text: format!("!({})", inner.text),
                    number,
                    ty: Ty::Bool,
                    constant: inner.constant,
                    cast: false,
                }
            }
            4 => self.ternary(depth),
            5 => self.logical(depth),
            6 | 7 => self.comparison(depth),
            _ => self.binary(depth),
        }
    }

    fn variable(&mut self) -> Value {
        self.vars[self.dice.below(self.vars.len() as u64) as usize].clone()
    }

    fn ternary(&mut self, depth: u32) -> Value {
        let (cond, a, b) = (self.expression(depth - 1), self.expression(depth - 1), self.expression(depth - 1));
        let ty = match (a.ty, b.ty) {
            (a, b) if a == b => a,
            (Ty::Bool, other) | (other, Ty::Bool) => other,
            (a, b) if a.signed() == b.signed() => {
                if a.bytes() > b.bytes() {
                    a
                } else {
                    b
                }
            }
            (a, b) => {
                let (signed, unsigned) = if a.signed() { (a, b) } else { (b, a) };
                Ty::Int { bytes: signed.bytes().max(unsigned.bytes() * 2).min(8), signed: true }
            }
        };
        let number = ty.cut(if cond.number != 0 { a.number } else { b.number });
        Value { text: format!("({} ? {} : {})", cond.text, a.text, b.text), number, ty, constant: false, cast: false }
    }

    fn logical(&mut self, depth: u32) -> Value {
        let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
        let (op, holds) = match self.dice.below(2) {
            0 => ("&&", a.number != 0 && b.number != 0),
            _ => ("||", a.number != 0 || b.number != 0),
        };
        Value {
            text: format!("({} {op} {})", a.text, b.text),
            number: i128::from(holds),
            ty: Ty::Bool,
            constant: false,
            cast: false,
        }
    }

    /// The common type of both operands.
    fn meeting(a: &Value, b: &Value, divides: bool) -> Ty {
        let signed = match (a.neutral(divides), b.neutral(divides)) {
            (true, true) => true,
            (true, false) => b.ty.signed(),
            (false, true) => a.ty.signed(),
            (false, false) => a.ty.signed() || b.ty.signed(),
        };
        if signed { I64 } else { U64 }
    }

    fn comparison(&mut self, depth: u32) -> Value {
        let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
        let ty = Maker::meeting(&a, &b, false);
        let (x, y) = (a.converted(ty), b.converted(ty));
        let (op, holds) = match self.dice.below(6) {
            0 => ("==", x == y),
            1 => ("!=", x != y),
            2 => ("<", x < y),
            3 => ("<=", x <= y),
            4 => (">", x > y),
            _ => (">=", x >= y),
        };
        let constant = a.constant && b.constant;
        Value {
            text: format!("({} {op} {})", a.text, b.text),
            number: i128::from(holds),
            ty: Ty::Bool,
            constant,
            cast: false,
        }
    }

    fn binary(&mut self, depth: u32) -> Value {
        let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
        let op = self.dice.pick(&["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
        let operands = match op {
            "<<" | ">>" => {
                if a.ty.signed() {
                    I64
                } else {
                    U64
                }
            }
            _ => Maker::meeting(&a, &b, matches!(op, "/" | "%")),
        };
        let (x, y) = (a.converted(operands), b.converted(operands));
        let count = y.rem_euclid(64);
        let result = match op {
            "+" => x + y,
            "-" => x - y,
            "*" => x.wrapping_mul(y),
            "/" => {
                if y == 0 {
                    0
                } else {
                    x / y
                }
            }
            "%" => {
                if y == 0 {
                    x
                } else {
                    x % y
                }
            }
            "&" => x & y,
            "|" => x | y,
            "^" => x ^ y,
            "<<" => (x << count) & i128::from(u64::MAX),
            _ => x >> count,
        };
        let ty = if op == "-" { I64 } else { operands };
        let constant = a.constant && b.constant;
        let cast = a.cast || (b.cast && !matches!(op, "<<" | ">>"));
        Value { text: format!("({} {op} {})", a.text, b.text), number: ty.cut(result), ty, constant, cast }
    }
}

const RESULTS: usize = 12;

/// A script that stores results in `@r0`, `@r1`, …, and their expected values.
fn program(seed: u64) -> (String, Vec<u64>) {
    let mut maker = Maker { dice: Dice::new(seed), vars: Vec::new() };
    let mut text = String::from("BEGIN {\n");
    for index in 0..8 {
        let (value, ty) = (maker.literal(), maker.ty());
        // The user id of root is 0, but the compiler does not know that.
        let _ = writeln!(text, "  $x{index} = {}(uid + {});", cast_words(ty), value.text);
        maker.vars.push(Value {
            text: format!("$x{index}"),
            number: ty.cut(value.number),
            ty,
            constant: false,
            cast: false,
        });
    }
    let mut expected = Vec::new();
    for index in 0..RESULTS {
        let value = maker.expression(4);
        let kept = Maker::cast(&value, I64);
        let _ = writeln!(text, "  @r{index} = {};", kept.text);
        expected.push(kept.number as u64);
    }
    text.push_str("}\n");
    (text, expected)
}

fn cast_words(ty: Ty) -> String {
    format!("({}{})", if ty.signed() { "int" } else { "uint" }, ty.bytes() * 8)
}

#[test]
fn arithmetic_is_what_the_language_says() {
    if !can_load() {
        return;
    }
    let mut wrong = Vec::new();
    let seeds = range(200);
    for seed in seeds.clone() {
        let (text, expected) = program(seed);
        let forms = forms(&text, false).unwrap_or_else(|diagnostics| panic!("seed {seed}: {diagnostics:?}\n{text}"));
        let setting = Setting::of_this_thread(&forms.object, seed);
        let complain = |words: String| panic!("seed {seed}: {words}");
        let by_ir = evaluated(&forms.lowered, &forms.object, &setting).unwrap_or_else(|(_, words)| complain(words));
        let by_bytecode = interpreted(&forms, &setting, |_| {}).unwrap_or_else(complain);
        let by_kernel = run_by_kernel(&forms.object, &setting).unwrap_or_else(complain);
        for (index, expected) in expected.iter().enumerate() {
            let line = text.lines().nth(index + 9).unwrap_or_default();
            for (who, outcome) in [("the IR", &by_ir), ("the interpreter", &by_bytecode), ("the kernel", &by_kernel)] {
                let value = &outcome.maps[&format!("@r{index}")][&Vec::new()][0];
                let value = u64::from_le_bytes(value.as_slice().try_into().expect("8 bytes"));
                if value != *expected {
                    wrong.push(format!("seed {seed}: {who} says {value:#x}, not {expected:#x}: {line}"));
                }
            }
        }
    }
    println!("{} expressions", RESULTS as u64 * (seeds.end - seeds.start));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
