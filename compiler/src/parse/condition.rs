//! The expressions of `#if` and `#elif`.
//!
//! In: an expression as text, and the names that are defined, with their values as text. Out: its
//! value, or what is wrong with it.
//! Guarantee: never panics or overflows the stack, for any text; ends, for any definitions.
//! Arithmetic is that of C's preprocessor: 64 bits, signed, wrapping; a name that is not defined
//! is 0 (C11, 6.10.1). A division by 0 has the value 0, as in scripts.

use std::collections::BTreeMap;

/// The defined names with the text of their values.
pub(super) type Names = BTreeMap<String, String>;

/// Maximum nesting of parentheses, operators and names.
const MAX_DEPTH: u32 = 64;

/// Binary operators with their precedence. Of two that begin alike, the longer one comes first.
const OPERATORS: [(&str, u8); 18] = [
    ("||", 1),
    ("&&", 2),
    ("==", 6),
    ("!=", 6),
    ("<=", 7),
    (">=", 7),
    ("<<", 8),
    (">>", 8),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("<", 7),
    (">", 7),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

/// The value of an expression; fails with what is wrong, as the end of a sentence.
pub(super) fn value(text: &str, names: &Names) -> Result<i64, String> {
    Reader { rest: text, names, depth: 0 }.whole()
}

struct Reader<'a> {
    rest: &'a str,
    names: &'a Names,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn whole(mut self) -> Result<i64, String> {
        let value = self.conditional()?;
        self.skip_blanks();
        if self.rest.is_empty() { Ok(value) } else { Err(format!("`{}` is not expected here", shown(self.rest))) }
    }

    /// `a ? b : c`, or an expression without it.
    fn conditional(&mut self) -> Result<i64, String> {
        self.deeper()?;
        let condition = self.binary(1)?;
        let value = if self.takes("?") {
            let yes = self.conditional()?;
            if !self.takes(":") {
                return Err("`?` needs a `:`".to_owned());
            }
            let no = self.conditional()?;
            if condition != 0 { yes } else { no }
        } else {
            condition
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Operators of at least this precedence.
    fn binary(&mut self, lowest: u8) -> Result<i64, String> {
        let mut left = self.unary()?;
        loop {
            self.skip_blanks();
            let found = OPERATORS.iter().find(|(operator, _)| self.rest.starts_with(operator));
            let Some((operator, precedence)) = found.filter(|(_, precedence)| *precedence >= lowest) else {
                return Ok(left);
            };
            self.rest = &self.rest[operator.len()..];
            self.deeper()?;
            let right = self.binary(precedence + 1)?;
            self.depth -= 1;
            left = applied(operator, left, right);
        }
    }

    fn unary(&mut self) -> Result<i64, String> {
        self.deeper()?;
        let value = if self.takes("!") {
            i64::from(self.unary()? == 0)
        } else if self.takes("-") {
            self.unary()?.wrapping_neg()
        } else if self.takes("~") {
            !self.unary()?
        } else if self.takes("+") {
            self.unary()?
        } else if self.takes("(") {
            let value = self.conditional()?;
            self.closes()?;
            value
        } else {
            self.operand()?
        };
        self.depth -= 1;
        Ok(value)
    }

    /// A number, a name, or `defined NAME`.
    fn operand(&mut self) -> Result<i64, String> {
        let word = self.word();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return number(word).ok_or_else(|| format!("`{word}` is not an integer"));
        }
        match word {
            "" if self.rest.is_empty() => Err("a value is missing at the end".to_owned()),
            "" => Err(format!("a value is expected before `{}`", shown(self.rest))),
            "defined" => {
                let is_in_parentheses = self.takes("(");
                let name = self.word();
                if name.is_empty() {
                    return Err("`defined` needs a name".to_owned());
                }
                if is_in_parentheses {
                    self.closes()?;
                }
                Ok(i64::from(self.names.contains_key(name)))
            }
            // The kernel's macro, `include/generated/uapi/linux/version.h`.
            "KERNEL_VERSION" if self.takes("(") => {
                let mut parts = [0; 3];
                for (index, part) in parts.iter_mut().enumerate() {
                    if index > 0 && !self.takes(",") {
                        return Err("KERNEL_VERSION needs three numbers".to_owned());
                    }
                    *part = self.conditional()?;
                }
                self.closes()?;
                Ok((parts[0] << 16).wrapping_add(parts[1] << 8).wrapping_add(parts[2].min(255)))
            }
            name => match self.names.get(name) {
                Some(text) if !text.is_empty() => {
                    let depth = self.depth;
                    Reader { rest: text, names: self.names, depth }.whole()
                }
                _ => Ok(0),
            },
        }
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err("it is nested too deeply".to_owned()) } else { Ok(()) }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
        // A comment ends the line.
        if self.rest.starts_with("//") {
            self.rest = "";
        }
        while let Some(comment) = self.rest.strip_prefix("/*") {
            self.rest = comment.split_once("*/").map_or("", |(_, rest)| rest).trim_start();
        }
    }

    /// Whether a mark comes next; then it is read.
    fn takes(&mut self, mark: &str) -> bool {
        self.skip_blanks();
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn closes(&mut self) -> Result<(), String> {
        if self.takes(")") { Ok(()) } else { Err("a `)` is missing".to_owned()) }
    }

    /// The name or number that comes next, which is read; empty if there is none.
    fn word(&mut self) -> &'a str {
        self.skip_blanks();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}

fn applied(operator: &str, left: i64, right: i64) -> i64 {
    // A shift takes the lowest six bits of its count.
    let count = right as u32;
    match operator {
        "||" => i64::from(left != 0 || right != 0),
        "&&" => i64::from(left != 0 && right != 0),
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "<=" => i64::from(left <= right),
        ">=" => i64::from(left >= right),
        "<" => i64::from(left < right),
        ">" => i64::from(left > right),
        "<<" => left.wrapping_shl(count),
        ">>" => left.wrapping_shr(count),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" if right != 0 => left.wrapping_div(right),
        "%" if right != 0 => left.wrapping_rem(right),
        _ => 0,
    }
}

/// An integer of C, whose suffix has no meaning here.
fn number(word: &str) -> Option<i64> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, base) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    u64::from_str_radix(digits, base).ok().map(u64::cast_signed)
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> String {
    text.chars().take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::{Names, value};

    fn names() -> Names {
        let all = [("A", "1"), ("B", "(A + 2)"), ("EMPTY", ""), ("LOOP", "LOOP + 1"), ("HEX", "0x10UL")];
        all.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    #[test]
    fn expressions_have_the_values_of_c() {
        let cases = [
            ("1", 1),
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3 - -4", 13),
            ("10 - 4 - 3", 3),
            ("1 || 0 && 0", 1),
            ("1 | 6 ^ 2 & 3", 5),
            ("1 << 4 >> 2", 4),
            ("5 == 5 != 0", 1),
            ("2 < 1 ? 7 : 8", 8),
            ("!0 && ~0 == -1", 1),
            ("010 + 0x1F", 39),
            ("B * HEX", 48),
            ("defined(A) && defined B && !defined(C)", 1),
            ("UNKNOWN == 0", 1),
            ("EMPTY", 0),
            ("KERNEL_VERSION(6, 1, 300) == 393727", 1),
            ("1 /* one */ + 1 // two", 2),
            ("7 / 0", 0),
            ("9223372036854775807 + 1 < 0", 1),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text, &names()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_said() {
        let cases = [
            ("", "a value is missing at the end"),
            ("1 +", "a value is missing at the end"),
            ("(1", "a `)` is missing"),
            ("1 2", "`2` is not expected here"),
            ("1 ? 2", "`?` needs a `:`"),
            ("defined()", "`defined` needs a name"),
            ("12z", "`12z` is not an integer"),
            ("\"a\"", "a value is expected before `\"a\"`"),
            ("LOOP", "it is nested too deeply"),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text, &names()), Err(expected.to_owned()), "{text}");
        }
        assert!(value(&"(".repeat(100_000), &names()).is_err());
        assert!(value(&"!".repeat(100_000), &names()).is_err());
        assert!(value(&"1+".repeat(100_000), &names()).is_err());
    }
}
