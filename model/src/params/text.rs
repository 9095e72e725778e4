//! Parsing and printing of parameter values.
//!
//! In: text. Out: numbers.
//! Guarantee: [`shown`] prints a number so that parsing it gives the same number.

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

/// Units of sizes; one-letter units are binary, as in most tools.
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

/// A boolean; a switch without a value is true.
pub(super) fn truth(text: &str) -> Option<i64> {
    match text {
        "true" | "1" | "on" | "yes" => Some(1),
        "false" | "0" | "off" | "no" => Some(0),
        _ => None,
    }
}

/// A number with a unit, possibly with a fraction; 0 needs no unit.
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
    // Fractions of a nanosecond are not allowed.
    if small % parts != 0 {
        return None;
    }
    i64::try_from(whole.parse::<i128>().ok()?.checked_mul(size)?.checked_add(small / parts)?).ok()
}

/// A number of a type, in the largest unit that divides it.
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
