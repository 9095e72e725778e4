//! Values of parameters as they are written.
//!
//! In: text. Out: numbers, and a `regex` as a pattern of names.
//! Guarantee: what [`shown`] writes is read as the same number.

use super::Type;

/// Units with their sizes, largest first.
type Units = [(&'static str, u64)];

/// Units of durations, in nanoseconds.
pub(super) const DURATIONS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Units of sizes; those of one letter are the binary ones, as most tools have it.
pub(super) const SIZES: [(&str, u64); 11] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("G", 1 << 30),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("M", 1 << 20),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("k", 1 << 10),
    ("B", 1),
    ("", 1),
];

/// A whole number, decimal or hexadecimal.
pub(super) fn whole(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let digits = digits.replace('_', "");
    let number = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    i64::try_from(if negative { -number } else { number }).ok()
}

/// Yes or no; a switch without a value is on.
pub(super) fn truth(text: &str) -> Option<i64> {
    match text {
        "true" | "1" | "on" | "yes" => Some(1),
        "false" | "0" | "off" | "no" => Some(0),
        _ => None,
    }
}

/// A number with a unit, of which a fraction may be given; 0 needs no unit.
pub(super) fn with_unit(text: &str, units: &Units) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let digits = digits.replace('_', "");
    if digits == "0" && unit.is_empty() {
        return Some(0);
    }
    let size = i128::from(units.iter().find(|(name, _)| *name == unit)?.1);
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, "0"));
    if fraction.is_empty() || fraction.len() > 9 || whole.is_empty() {
        return None;
    }
    let parts = 10_i128.pow(fraction.len() as u32);
    let small = fraction.parse::<i128>().ok()?.checked_mul(size)?;
    // Half a nanosecond is none.
    if small % parts != 0 {
        return None;
    }
    i64::try_from(whole.parse::<i128>().ok()?.checked_mul(size)?.checked_add(small / parts)?).ok()
}

/// A number of a type, in the largest unit of which it is a multiple.
pub(super) fn shown(ty: Type, number: i64) -> String {
    let units: &Units = match ty {
        Type::Duration => &DURATIONS,
        Type::Bytes => &SIZES,
        Type::Percent => return format!("{number}%"),
        Type::Bool => return (number != 0).to_string(),
        _ => return number.to_string(),
    };
    let size = |size: &u64| i64::try_from(*size).unwrap_or(i64::MAX);
    let binary = |unit: &str| ty == Type::Duration || unit.ends_with("iB") || unit.is_empty();
    let fitting = units.iter().find(|(unit, of)| binary(unit) && number != 0 && number % size(of) == 0);
    match fitting {
        Some((unit, of)) => format!("{}{unit}", number / size(of)),
        None if ty == Type::Duration => format!("{number}ns"),
        None => number.to_string(),
    }
}

/// A regular expression of literal characters, `.*` and anchors as a pattern with `*`.
pub(super) fn pattern(text: &str) -> Result<String, String> {
    let mut pattern = String::new();
    let (start, mut rest) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
    pattern.push_str(if start { "" } else { "*" });
    let mut at_end = false;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        rest = match first {
            '.' if after.starts_with('*') => {
                pattern.push('*');
                &after[1..]
            }
            '\\' if after.starts_with(['.', '$', '^', '+', '[', ']', '(', ')', '{', '}', '|', '\\']) => {
                pattern.push_str(&after[..1]);
                &after[1..]
            }
            '$' if after.is_empty() => {
                at_end = true;
                after
            }
            '\0' | '.' | '*' | '\\' | '$' | '^' | '+' | '?' | '[' | ']' | '(' | ')' | '{' | '}' | '|' => {
                return Err(format!(
                    "`{first}` is more than is understood; a regex has literal characters, `.*`, `^` at its start and `$` at its end"
                ));
            }
            literal => {
                pattern.push(literal);
                after
            }
        };
    }
    pattern.push_str(if at_end { "" } else { "*" });
    while pattern.contains("**") {
        pattern = pattern.replace("**", "*");
    }
    Ok(pattern)
}
