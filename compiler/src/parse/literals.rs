//! Evaluates number and string literals.
//!
//! In: the characters of one literal. Out: its value, or a diagnostic.
//! Guarantee: every returned number fits in 64 bits as written; durations are in nanoseconds.

use super::errors;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// A number's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// A plain integer.
    Int(u64),
    /// A duration.
    DurationNs(u64),
}

/// The units of a duration in nanoseconds.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// A duration unit in nanoseconds.
pub(super) fn unit_ns(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ns)| *ns)
}

/// Reads a number such as `42`, `017`, `0x2a`, `1_000`, `1e6`, `10UL` or `10ms`.
pub(super) fn number(text: &str, span: Span) -> Result<Number, Diagnostic> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let bad = || errors::bad_number(span, text);
    if let Some(hex) = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        return digits(strip_c_suffix(hex), 16, span, bad).map(Number::Int);
    }
    let letters = plain.find(|c: char| !c.is_ascii_digit()).unwrap_or(plain.len());
    let (whole, suffix) = plain.split_at(letters);
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']) {
        return scientific(whole, strip_c_suffix(exponent), span, bad).map(Number::Int);
    }
    if let Some(ns) = unit_ns(suffix) {
        let count = digits(whole, 10, span, bad)?;
        return count.checked_mul(ns).map(Number::DurationNs).ok_or_else(|| errors::number_too_large(span));
    }
    if !strip_c_suffix(suffix).is_empty() {
        return Err(bad());
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return digits(whole, 8, span, || errors::bad_octal(span, whole)).map(Number::Int);
    }
    digits(whole, 10, span, bad).map(Number::Int)
}

/// Reads `2%`, `99.9` or `0.5%`: the value in thousandths, and whether `%` follows. At most three
/// digits after the decimal point.
pub(super) fn decimal(text: &str) -> Option<(u64, bool)> {
    let plain = text.strip_suffix('%');
    let (whole, fraction) = plain.unwrap_or(text).split_once('.').unwrap_or((plain.unwrap_or(text), ""));
    if fraction.len() > 3 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    let thousandths = whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(fraction)?;
    Some((thousandths, plain.is_some()))
}

/// Strips C's suffixes `U`, `L`, `UL`, `LL` and `ULL`, in either case.
fn strip_c_suffix(text: &str) -> &str {
    let lower = text.to_ascii_lowercase();
    let suffix = ["ull", "llu", "ul", "lu", "ll", "u", "l"].iter().find(|suffix| lower.ends_with(**suffix));
    &text[..text.len() - suffix.map_or(0, |suffix| suffix.len())]
}

fn digits(text: &str, radix: u32, span: Span, bad: impl Fn() -> Diagnostic) -> Result<u64, Diagnostic> {
    if text.is_empty() || !text.chars().all(|c| c.is_digit(radix)) {
        return Err(bad());
    }
    u64::from_str_radix(text, radix).map_err(|_| errors::number_too_large(span))
}

fn scientific(whole: &str, exponent: &str, span: Span, bad: impl Fn() -> Diagnostic) -> Result<u64, Diagnostic> {
    let mantissa = digits(whole, 10, span, &bad)?;
    let power = digits(exponent, 10, span, &bad)?;
    let factor = u32::try_from(power).ok().and_then(|power| 10_u64.checked_pow(power));
    match factor {
        _ if mantissa == 0 => Ok(0),
        Some(factor) => mantissa.checked_mul(factor).ok_or_else(|| errors::number_too_large(span)),
        None => Err(errors::number_too_large(span)),
    }
}

/// The bytes of a string literal that includes its quotes; adds diagnostics for bad escapes to
/// `problems`.
pub(super) fn string(literal: &str, span: Span, problems: &mut Vec<Diagnostic>) -> Vec<u8> {
    let inner = literal.strip_prefix('"').unwrap_or(literal);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let base = span.start as usize + 1;
    let mut value = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(found) = rest.find('\\') {
        value.extend_from_slice(&rest.as_bytes()[..found]);
        let escape = &rest[found..];
        let len = if let Some((byte, len)) = escape_value(escape.as_bytes()) {
            value.push(byte);
            len
        } else {
            let len = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
            let start = base + inner.len() - escape.len();
            problems.push(errors::bad_escape(Span::new(start, start + len), &escape[..len]));
            len
        };
        rest = &escape[len..];
    }
    value.extend_from_slice(rest.as_bytes());
    value
}

/// The byte that an escape denotes and the length of the escape in characters.
fn escape_value(escape: &[u8]) -> Option<(u8, usize)> {
    let numeric = |start: usize, most: usize, radix: u32| {
        let count = escape.iter().skip(start).take(most).take_while(|b| (**b as char).is_digit(radix)).count();
        let text = std::str::from_utf8(escape.get(start..start + count)?).ok()?;
        Some((u8::from_str_radix(text, radix).ok()?, start + count))
    };
    match escape.get(1)? {
        b'n' => Some((b'\n', 2)),
        b't' => Some((b'\t', 2)),
        b'r' => Some((b'\r', 2)),
        b'"' => Some((b'"', 2)),
        b'\\' => Some((b'\\', 2)),
        b'x' => numeric(2, 2, 16),
        b'0'..=b'7' => numeric(1, 3, 8),
        _ => None,
    }
}
