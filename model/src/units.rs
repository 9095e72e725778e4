//! Units of quantities.
//!
//! In: units declared by builtins, fields and constants. Out: the units of expressions, and
//! human-readable text.
//! Guarantee: a unit never changes a value or what a bare `%d` prints.

use serde::{Deserialize, Serialize};

use crate::operator::BinaryOp;

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Unit {
    /// A bare number, compatible with every unit.
    #[default]
    None,
    /// A point in time, in nanoseconds since some epoch.
    Time,
    /// A duration in nanoseconds.
    Duration,
    /// Bytes.
    Bytes,
    /// Sectors of 512 bytes.
    Sectors,
    /// Percent.
    Percent,
}

impl Unit {
    /// Machine-readable name, with a fixed scale: `ns`, `bytes`; `None` for a bare number.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Unit::None => None,
            Unit::Time | Unit::Duration => Some("ns"),
            Unit::Bytes => Some("bytes"),
            Unit::Sectors => Some("sectors"),
            Unit::Percent => Some("percent"),
        }
    }

    /// Name for messages: `a duration`.
    pub fn noun(self) -> &'static str {
        match self {
            Unit::None => "a number",
            Unit::Time => "a time",
            Unit::Duration => "a duration",
            Unit::Bytes => "bytes",
            Unit::Sectors => "sectors",
            Unit::Percent => "a percentage",
        }
    }

    /// A quantity in human-readable form: `12.3 ms`, `4 KiB`; a bare number in full. Three
    /// significant digits; rounding up to the next unit switches to that unit (999.6 µs is 1 ms).
    pub fn text(self, value: f64) -> String {
        let scale: &[(f64, &str)] = match self {
            Unit::None => return plain(value),
            Unit::Percent => return format!("{} %", three_digits(value)),
            Unit::Sectors => &[(1.0, "sectors")],
            Unit::Time | Unit::Duration => {
                &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (60e9, "min"), (3600e9, "h"), (86400e9, "d")]
            }
            Unit::Bytes => &[
                (1.0, "B"),
                (1024.0, "KiB"),
                (1_048_576.0, "MiB"),
                (1_073_741_824.0, "GiB"),
                (1_099_511_627_776.0, "TiB"),
                (1_125_899_906_842_624.0, "PiB"),
            ],
        };
        let mut at = scale.iter().rposition(|(size, _)| value.abs() >= *size).unwrap_or(0);
        // If the value rounds up to one of the next unit, use that unit.
        if let Some((next, _)) = scale.get(at + 1)
            && rounded(value.abs() / scale[at].0) * scale[at].0 >= *next
        {
            at += 1;
        }
        format!("{} {}", three_digits(value / scale[at].0), scale[at].1)
    }
}

/// Two units that are incompatible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mixed(pub Unit, pub Unit);

/// An operand: its unit and, for a literal, its value.
pub type Operand = (Unit, Option<u64>);

/// Bytes per sector, and the equivalent shift.
const SECTOR: (u64, u64) = (512, 9);

/// The unit of `a op b`.
///
/// A bare number is compatible with any unit. Multiplication or division by a constant that
/// converts between scales (a power of ten from 1000, or of two from 1024) removes the unit,
/// because the result is no longer in nanoseconds or bytes.
pub fn combined(op: BinaryOp, (a, _): Operand, (b, b_value): Operand) -> Result<Unit, Mixed> {
    use BinaryOp as Op;
    use Unit::{Bytes, Duration, None, Sectors, Time};
    match op {
        Op::Add => match (a, b) {
            (Time, Duration) | (Duration, Time) => Ok(Time),
            (None, unit) | (unit, None) => Ok(unit),
            (a, b) if a == b => Ok(a),
            (a, b) => Err(Mixed(a, b)),
        },
        Op::Sub => match (a, b) {
            (Time, Time) => Ok(Duration),
            // Time minus an unknown number is assumed to be a duration; time minus a constant an
            // earlier time.
            (Time, None) if b_value.is_none() => Ok(Duration),
            (Time, Duration | None) => Ok(Time),
            (None, Time) => Ok(Duration),
            (None, unit) | (unit, None) => Ok(unit),
            (a, b) if a == b => Ok(a),
            (a, b) => Err(Mixed(a, b)),
        },
        Op::Equal | Op::NotEqual | Op::Less | Op::Greater | Op::LessEqual | Op::GreaterEqual => {
            if a == b || a == None || b == None { Ok(None) } else { Err(Mixed(a, b)) }
        }
        Op::Mul if a == Sectors && b_value == Some(SECTOR.0) => Ok(Bytes),
        Op::ShiftLeft if a == Sectors && b_value == Some(SECTOR.1) => Ok(Bytes),
        Op::Mul | Op::Div if b_value.is_some_and(converts) => Ok(None),
        Op::Mul if a == None => Ok(b),
        Op::Mul | Op::Div if b == None => Ok(a),
        Op::Mod => Ok(a),
        _ => Ok(None),
    }
}

/// Whether a factor converts between scales.
fn converts(factor: u64) -> bool {
    let power_of_ten = (3..20).any(|power| 10u64.checked_pow(power) == Some(factor));
    power_of_ten || (factor.is_power_of_two() && factor >= 1024)
}

/// Rounds a number to three significant digits.
fn rounded(value: f64) -> f64 {
    three_digits(value).parse().unwrap_or(value)
}

/// Three significant digits, more if the integer part has more; no trailing zeros in the fraction.
fn three_digits(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".into() } else { text.into() }
}

/// An integer in full; other numbers with up to two decimals.
fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well_at_every_magnitude() {
        let duration = |ns: f64| Unit::Duration.text(ns);
        assert_eq!(
            [0.0, 1.0, 999.0, 999.6, 1000.0, 1234.0, 12_345.0, 123_456.0, 999_600.0].map(duration),
            ["0 ns", "1 ns", "999 ns", "1 µs", "1 µs", "1.23 µs", "12.3 µs", "123 µs", "1 ms"]
        );
        assert_eq!(
            [12.3e6, 1.5e9, 59.97e9, 90e9, 5400e9, 86400e9, 1e15, -2.5e6].map(duration),
            ["12.3 ms", "1.5 s", "1 min", "1.5 min", "1.5 h", "1 d", "11.6 d", "-2.5 ms"]
        );
        assert_eq!(
            [0.0, 512.0, 1023.9, 4096.0, 1.5e9].map(|n| Unit::Bytes.text(n)),
            ["0 B", "512 B", "1 KiB", "4 KiB", "1.4 GiB"]
        );
        assert_eq!([0.0, 12.0, 2.5, 123_456_789.0].map(|n| Unit::None.text(n)), ["0", "12", "2.5", "123456789"]);
        assert_eq!(Unit::Percent.text(12.34), "12.3 %");
        assert_eq!(Unit::Sectors.text(8.0), "8 sectors");
    }

    #[test]
    fn units_follow_from_what_is_computed() {
        use BinaryOp as Op;
        use Unit::{Bytes, Duration, None, Sectors, Time};
        let of = |op, a, b| combined(op, (a, Option::None), (b, Option::None));
        let by = |op, a, factor| combined(op, (a, Option::None), (None, Some(factor)));
        assert_eq!(
            [of(Op::Sub, Time, Time), of(Op::Sub, Time, None), by(Op::Sub, Time, 5)].map(Result::unwrap),
            [Duration, Duration, Time]
        );
        assert_eq!([of(Op::Add, Time, Duration), of(Op::Add, Bytes, None)].map(Result::unwrap), [Time, Bytes]);
        assert_eq!(of(Op::Add, Duration, Bytes), Err(Mixed(Duration, Bytes)));
        assert_eq!(of(Op::Less, Sectors, Bytes), Err(Mixed(Sectors, Bytes)));
        assert_eq!(of(Op::Sub, Duration, Time), Err(Mixed(Duration, Time)));
        assert_eq!(of(Op::Greater, Duration, None), Ok(None));
        assert_eq!(
            [by(Op::Div, Duration, 2), by(Op::Div, Duration, 1000), by(Op::Mul, Bytes, 1024)].map(Result::unwrap),
            [Duration, None, None]
        );
        assert_eq!([by(Op::Mul, Sectors, 512), by(Op::ShiftLeft, Sectors, 9)].map(Result::unwrap), [Bytes, Bytes]);
        assert_eq!([of(Op::Div, Bytes, Duration), of(Op::Mul, None, Bytes)].map(Result::unwrap), [None, Bytes]);
    }
}
