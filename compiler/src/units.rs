//! Units of quantities.
//!
//! In: what builtins, fields and constants declare. Out: the unit of what is computed from them, and text for people.
//! Guarantee: a unit never changes a value or what a bare `%d` prints.

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unit {
    /// Nothing in particular: goes with every unit.
    #[default]
    None,
    /// A moment, in nanoseconds since some beginning.
    Time,
    /// Nanoseconds between two moments.
    Duration,
    /// Bytes.
    Bytes,
    /// Sectors of 512 bytes.
    Sectors,
    /// Hundredths.
    Percent,
}

/// All units; a unit's place is its number in an object's constants.
const ALL: [Unit; 6] = [Unit::None, Unit::Time, Unit::Duration, Unit::Bytes, Unit::Sectors, Unit::Percent];

impl Unit {
    /// Its number among an aggregation's constants.
    pub fn code(self) -> i64 {
        ALL.iter().position(|unit| *unit == self).unwrap_or(0) as i64
    }

    /// The unit of a number; without one, [`Unit::None`].
    pub fn of_code(code: i64) -> Unit {
        usize::try_from(code).ok().and_then(|at| ALL.get(at)).copied().unwrap_or_default()
    }

    /// What machines call it, in a fixed scale: `ns`, `bytes`; `None` for a bare number.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Unit::None => None,
            Unit::Time | Unit::Duration => Some("ns"),
            Unit::Bytes => Some("bytes"),
            Unit::Sectors => Some("sectors"),
            Unit::Percent => Some("percent"),
        }
    }

    /// What people call it in a message: `a duration`.
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

    /// A quantity for people: `12.3 ms`, `4 KiB`; a bare number in full. Three digits, never rounded to a value of another
    /// order (999.6 µs is 1 ms).
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
        // What rounds up to a whole larger unit is written in that.
        if let Some((next, _)) = scale.get(at + 1)
            && rounded(value.abs() / scale[at].0) * scale[at].0 >= *next
        {
            at += 1;
        }
        format!("{} {}", three_digits(value / scale[at].0), scale[at].1)
    }
}

/// A number at three significant digits.
fn rounded(value: f64) -> f64 {
    three_digits(value).parse().unwrap_or(value)
}

/// Three significant digits, more when there are more before the point; no zeros at the end of a fraction.
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

/// A whole number in full, another with up to two digits behind the point.
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
    fn codes_name_units() {
        for unit in ALL {
            assert_eq!(Unit::of_code(unit.code()), unit);
        }
        assert_eq!((Unit::of_code(-1), Unit::of_code(99)), (Unit::None, Unit::None));
    }
}
