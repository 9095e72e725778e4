//! Reads the parts of an attach point.
//!
//! In: an attach point as written. Out: names and numbers.
//! Guarantee: numbers are those of the language.

use crate::ast::AttachPoint;

/// A probe's name with its full kind: `interval:s:1`.
pub(super) fn full_name(kind: &str, point: &AttachPoint) -> String {
    let parts = point.parts.iter().map(|p| p.text.as_str());
    std::iter::once(kind).chain(parts).collect::<Vec<_>>().join(":")
}

/// Parses a whole number of the language: `1000`, `1_000`, `1e3`.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    let (digits, zeros) = text.split_once('e').unwrap_or((&text, "0"));
    digits.parse::<u64>().ok()?.checked_mul(10u64.checked_pow(zeros.parse().ok()?)?)
}
