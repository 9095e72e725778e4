//! A random script.
//!
//! In: a version and a seed. Out: the text of a script.
//! Guarantee: the same seed makes the same script.

use super::grammar::{self, Grammar, Rule, Since};
use super::statement::{KNOWN, head};

/// The depth of an expression in a statement, above that of all rules.
const DEEP: u32 = 9;

/// A pseudo-random number generator (xorshift64*).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from `least` to `bound - 1`.
    fn number(&mut self, least: u64, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        least + (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % (bound - least)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.number(0, from.len() as u64) as usize]
    }
}

/// A script in the making.
struct Script {
    grammar: Grammar,
    dice: Dice,
    /// How many rows have a number of their own so far.
    numbered: u32,
    /// How deep statements may still nest.
    nesting: u32,
    /// The variables of each block around the place, by kind.
    scopes: Vec<Vec<(&'static str, String)>>,
    /// Those that the statement declares: they are known after it.
    declared: Vec<(&'static str, String)>,
    /// The last map with a key.
    keyed: String,
}

/// The script of a seed.
pub fn script(since: Since, seed: u64) -> String {
    let grammar = grammar::of(since);
    let mut script = Script {
        nesting: grammar["STATEMENT"].depth.expect("each version limits it"),
        grammar,
        dice: Dice::new(seed),
        numbered: 0,
        scopes: vec![KNOWN.map(|(kind, name)| (kind, name.to_owned())).to_vec()],
        declared: Vec::new(),
        keyed: String::new(),
    };
    let number = script.dice.number(6, 22);
    format!("{}{}exit();\n}}\n", head(since), script.statements(number))
}

impl Script {
    /// Statements in a scope of their own.
    fn statements(&mut self, number: u64) -> String {
        let mut lines = String::new();
        self.scopes.push(Vec::new());
        for _ in 0..number {
            let row = self.row("STATEMENT", self.nesting);
            let indent = "  ".repeat(self.scopes.len() - 2);
            lines.extend([&indent, &self.filled(row, DEEP), "\n"]);
            self.scopes.last_mut().expect("it was pushed").append(&mut self.declared);
        }
        self.scopes.pop();
        lines
    }

    /// A row of a rule, as the depth that is left allows.
    fn row(&mut self, name: &str, depth: u32) -> &'static str {
        let Rule { leaves, rows, .. } = self.grammar.get(name).unwrap_or_else(|| panic!("no rule {name}"));
        self.dice.pick(if depth == 0 { leaves } else { rows })
    }

    /// A row with text for all its names.
    fn filled(&mut self, row: &'static str, depth: u32) -> String {
        if let Some((Ok(least), Ok(bound))) = row.split_once("..").map(|(a, b)| (a.parse(), b.parse())) {
            return self.dice.number(least, bound).to_string();
        }
        self.numbered += u32::from(row.contains('#'));
        let number = self.numbered.to_string();
        let (mut text, mut rest) = (String::new(), row);
        while let Some(start) = rest.find(|c: char| c.is_ascii_uppercase()) {
            let end =
                rest[start..].find(|c: char| c != '_' && !c.is_ascii_uppercase()).map_or(rest.len(), |n| start + n);
            text += &rest[..start].replace('#', &number);
            text += &if text.ends_with('$') {
                self.variable(&rest[start..end])
            } else {
                self.part(&rest[start..end], depth)
            };
            rest = &rest[end..];
        }
        text + &rest.replace('#', &number)
    }

    /// The text for a name.
    fn part(&mut self, name: &'static str, depth: u32) -> String {
        match name {
            "STATEMENTS" => {
                self.nesting -= 1;
                let number = self.dice.number(1, 4);
                let lines = self.statements(number);
                self.nesting += 1;
                format!("\n{lines}{}", "  ".repeat(self.scopes.len() - 2))
            }
            "PRINTF" => self.printf(),
            "SAME" => self.keyed.clone(),
            _ => {
                let limit = self.grammar.get(name).and_then(|rule| rule.depth);
                let left = limit.map_or(depth, |limit| depth.min(limit));
                let row = self.row(name, left);
                let text = self.filled(row, if limit.is_some() { left.saturating_sub(1) } else { left });
                if name == "KEYED" {
                    self.keyed.clone_from(&text);
                }
                text
            }
        }
    }

    /// The name, without `$`, of a variable in scope, or of a new one.
    fn variable(&mut self, kind: &'static str) -> String {
        if let Some(kind) = kind.strip_prefix("NEW_") {
            self.numbered += 1;
            self.declared.push((kind, format!("v{}", self.numbered)));
            return format!("v{}", self.numbered);
        }
        let of_kind = self.scopes.iter().flatten().filter(|known| known.0 == kind);
        let names: Vec<&str> = of_kind.map(|known| known.1.as_str()).collect();
        self.dice.pick(&names).to_owned()
    }

    /// A `printf` of a few values, with a number by which a difference is found.
    fn printf(&mut self) -> String {
        self.numbered += 1;
        let (mut formats, mut values) = (self.numbered.to_string() + ":", String::new());
        for _ in 0..self.dice.number(1, 5) {
            let (format, value) = self.row("PART", DEEP).split_once(' ').expect("a format and its value");
            formats.extend([" ", format]);
            values.extend([", ", &self.filled(value, DEEP)]);
        }
        format!("printf(\"{formats}\\n\"{values});")
    }
}
