//! Statistics of many values: what a column of a view or `p99(@x)` computes from a map entry.
//!
//! In: a decoded [`Value`] and a [`Statistic`]. Out: a [`Number`], or `None` if the value does not
//! contain it.
//! Guarantee: percentiles use the nearest-rank method: the smallest value such that at least that
//! percentage of the values are not above it. A result that is only a bound is marked as one.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::{Histogram, Value};

/// A statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Statistic {
    /// The number of values.
    Count,
    /// Their sum.
    Sum,
    /// Their arithmetic mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The nearest-rank percentile.
    Percentile(Percentile),
}

/// A percentile rank from 0 to 100 percent, in thousandths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Percentile {
    thousandths: u32,
}

impl From<Percentile> for u32 {
    fn from(percentile: Percentile) -> u32 {
        percentile.thousandths
    }
}

impl TryFrom<u32> for Percentile {
    type Error = &'static str;

    fn try_from(thousandths: u32) -> Result<Percentile, &'static str> {
        Percentile::thousandths(thousandths).ok_or("a percentile is at most 100 percent")
    }
}

/// A statistic's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer: exact, or within the stated error of its distribution.
    Integer(i128),
    /// A quotient.
    Real(f64),
    /// Only an exclusive upper bound is known.
    Below(i128),
}

impl Percentile {
    /// Percentile rank in percent; `None` if above 100.
    pub const fn whole(percent: u32) -> Option<Percentile> {
        if percent > 100 { None } else { Some(Percentile { thousandths: percent * 1000 }) }
    }

    /// Percentile rank in thousandths of a percent (99.9 % is 99900); `None` if above 100 percent.
    pub const fn thousandths(thousandths: u32) -> Option<Percentile> {
        if thousandths > 100_000 { None } else { Some(Percentile { thousandths }) }
    }

    /// Parses `99`, `99.9`: at most three digits after the point.
    pub fn parse(text: &str) -> Option<Percentile> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 3 || fraction.len() > 3 || !digits(whole) || !digits(fraction) {
            return None;
        }
        let fraction: u32 = format!("{fraction:0<3}").parse().ok()?;
        Percentile::thousandths(whole.parse::<u32>().ok()? * 1000 + fraction)
    }

    /// Thousandths of a percent.
    pub const fn in_thousandths(self) -> u32 {
        self.thousandths
    }

    /// The 1-based rank of this percentile among `count` sorted values.
    pub fn rank(self, count: u64) -> u64 {
        let rank = (u128::from(count) * u128::from(self.thousandths)).div_ceil(100_000);
        u64::try_from(rank).unwrap_or(u64::MAX).max(1)
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.thousandths / 1000, self.thousandths % 1000);
        match rest {
            0 => write!(f, "{whole}"),
            rest => write!(f, "{whole}.{}", format!("{rest:03}").trim_end_matches('0')),
        }
    }
}

impl Statistic {
    /// The statistic with this name: `count`, `sum`, `mean`, `min`, `max`, `p50`, `p99.9`.
    pub fn named(name: &str) -> Option<Statistic> {
        Some(match name {
            "count" => Statistic::Count,
            "sum" => Statistic::Sum,
            "mean" => Statistic::Mean,
            "min" => Statistic::Min,
            "max" => Statistic::Max,
            _ => Statistic::Percentile(Percentile::parse(name.strip_prefix('p')?)?),
        })
    }

    /// Whether the result has the unit of the values (a count does not).
    pub const fn has_unit(self) -> bool {
        !matches!(self, Statistic::Count)
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statistic::Count => f.write_str("count"),
            Statistic::Sum => f.write_str("sum"),
            Statistic::Mean => f.write_str("mean"),
            Statistic::Min => f.write_str("min"),
            Statistic::Max => f.write_str("max"),
            Statistic::Percentile(percentile) => write!(f, "p{percentile}"),
        }
    }
}

impl Number {
    /// The number as `f64`; for a bound, the bound.
    #[expect(clippy::cast_precision_loss, reason = "shares and orders need no more")]
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Integer(n) | Number::Below(n) => n as f64,
            Number::Real(n) => n,
        }
    }

    /// Orders by value; a bound sorts directly before the equal number.
    pub fn compare(self, other: Number) -> Ordering {
        let is_bound = |number| matches!(number, Number::Below(_));
        match (self, other) {
            (Number::Integer(a) | Number::Below(a), Number::Integer(b) | Number::Below(b)) => {
                a.cmp(&b).then_with(|| is_bound(other).cmp(&is_bound(self)))
            }
            (a, b) => a.as_f64().total_cmp(&b.as_f64()),
        }
    }

    /// `total / count`.
    #[expect(clippy::cast_precision_loss, reason = "a mean is as exact as a double")]
    pub fn quotient(total: i128, count: u64) -> Number {
        if count == 0 { Number::Real(0.0) } else { Number::Real(total as f64 / count as f64) }
    }
}

impl Value {
    /// A statistic of the values that this summarizes; `None` if it is not known.
    ///
    /// A plain number, which `count()`, `sum()`, `min()` and `max()` also return, is the result for
    /// every statistic except a percentile: only the aggregation knows which statistic it is
    /// ([`crate::results::Merge::yields`]). Histograms give the exact count, and the bound of a
    /// bucket for percentiles and the maximum.
    pub fn statistic(&self, statistic: &Statistic) -> Option<Number> {
        match (self, statistic) {
            (Value::Distribution(distribution), _) => distribution.statistic(*statistic),
            (Value::Histogram(histogram), _) => of_histogram(histogram, *statistic),
            (Value::Stats { count, .. }, Statistic::Count) => Some(Number::Integer(i128::from(*count))),
            (Value::Stats { total, .. }, Statistic::Sum) => Some(Number::Integer(*total)),
            (Value::Stats { count, total, .. }, Statistic::Mean) => Some(Number::quotient(*total, *count)),
            (Value::Average { average }, Statistic::Mean) => Some(Number::Integer(*average)),
            (_, Statistic::Percentile(_)) => None,
            (Value::Int(n), _) => Some(Number::Integer(i128::from(*n))),
            (Value::Uint(n), _) => Some(Number::Integer(i128::from(*n))),
            _ => None,
        }
    }
}

/// Histograms do not store values: the count is exact, the rest are ends of buckets. `None` in an
/// unbounded bucket.
fn of_histogram(histogram: &Histogram, statistic: Statistic) -> Option<Number> {
    let count = histogram.total();
    let rank = match statistic {
        Statistic::Count => return Some(Number::Integer(i128::from(count))),
        Statistic::Percentile(percentile) => percentile.rank(count),
        Statistic::Max => count.max(1),
        Statistic::Sum | Statistic::Mean | Statistic::Min => return None,
    };
    let mut seen = 0u64;
    let reaches = |bucket: &&crate::value::Bucket| {
        seen = seen.saturating_add(bucket.count);
        seen >= rank
    };
    let bucket = histogram.buckets.iter().find(reaches)?;
    bucket.high.map(|high| Number::Below(i128::from(high)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{linear_histogram, log2_histogram};

    fn p(text: &str) -> Statistic {
        Statistic::Percentile(Percentile::parse(text).unwrap())
    }

    #[test]
    fn percentiles_are_written_and_read_exactly() {
        for text in ["0", "50", "99", "99.9", "99.99", "99.999", "0.001", "100"] {
            assert_eq!(Percentile::parse(text).unwrap().to_string(), text);
            assert_eq!(Statistic::named(&format!("p{text}")), Some(p(text)));
        }
        assert_eq!(Percentile::parse("99.90").unwrap().to_string(), "99.9");
        for wrong in ["", ".", ".5", "100.001", "101", "1e1", "-1", "99.9999", "+1", "9999"] {
            assert_eq!(Percentile::parse(wrong), None, "{wrong}");
        }
        for name in ["count", "sum", "mean", "min", "max"] {
            assert_eq!(Statistic::named(name).unwrap().to_string(), name);
        }
        assert_eq!(Statistic::named("pid"), None);
    }

    #[test]
    fn ranks_are_the_nearest_from_below() {
        let rank = |text: &str, count| Percentile::parse(text).unwrap().rank(count);
        assert_eq!(
            [rank("0", 10), rank("50", 10), rank("50", 11), rank("99", 100), rank("99.9", 100)],
            [1, 5, 6, 99, 100]
        );
        assert_eq!(rank("100", u64::MAX), u64::MAX);
        assert_eq!(rank("50", 0), 1);
    }

    #[test]
    fn numbers_and_statistics_of_kernel_words_answer_what_they_know() {
        let stats = Value::Stats { count: 4, average: 2, total: 10 };
        assert_eq!(stats.statistic(&Statistic::Count), Some(Number::Integer(4)));
        assert_eq!(stats.statistic(&Statistic::Sum), Some(Number::Integer(10)));
        assert_eq!(stats.statistic(&Statistic::Mean), Some(Number::Real(2.5)));
        assert_eq!(stats.statistic(&Statistic::Max), None);
        let average = Value::Average { average: 7 };
        assert_eq!(average.statistic(&Statistic::Mean), Some(Number::Integer(7)));
        assert_eq!(average.statistic(&Statistic::Count), None);
        assert_eq!(Value::Uint(u64::MAX).statistic(&Statistic::Sum), Some(Number::Integer(i128::from(u64::MAX))));
        assert_eq!(Value::Int(-3).statistic(&Statistic::Min), Some(Number::Integer(-3)));
        assert_eq!(Value::Int(-3).statistic(&p("50")), None);
        assert_eq!(Value::Str(b"x".to_vec()).statistic(&Statistic::Count), None);
    }

    #[test]
    fn percentiles_of_histograms_are_bounds() {
        let mut counts = [0u64; 65];
        (counts[0], counts[3], counts[4]) = (1, 8, 1);
        let hist = Value::Histogram(log2_histogram(&counts, 0));
        assert_eq!(hist.statistic(&Statistic::Count), Some(Number::Integer(10)));
        assert_eq!(hist.statistic(&p("10")), Some(Number::Below(0)));
        assert_eq!(hist.statistic(&p("50")), Some(Number::Below(4)));
        assert_eq!(hist.statistic(&p("99")), Some(Number::Below(8)));
        assert_eq!(hist.statistic(&Statistic::Max), Some(Number::Below(8)));
        assert_eq!(hist.statistic(&Statistic::Mean), None);
        let lhist = Value::Histogram(linear_histogram(&[0, 9, 1], 0, 10, 10));
        assert_eq!(lhist.statistic(&p("90")), Some(Number::Below(10)));
        assert_eq!(lhist.statistic(&p("91")), None, "the last bucket has no end");
        assert_eq!(Value::Histogram(Histogram::default()).statistic(&p("50")), None);
    }

    #[test]
    fn numbers_order_by_value() {
        assert_eq!(Number::Integer(2).compare(Number::Real(2.5)), Ordering::Less);
        assert_eq!(Number::Below(3).compare(Number::Integer(3)), Ordering::Less);
        assert_eq!(Number::Integer(3).compare(Number::Below(3)), Ordering::Greater);
        assert_eq!(Number::Real(1.0).compare(Number::Integer(-1)), Ordering::Greater);
    }
}
