//! Distributions: log-linear histograms whose percentiles have a bounded relative error.
//!
//! In: values, or counts by bucket number. Out: bucket numbers and bounds, percentiles, merged
//! distributions.
//! Guarantee: the code generator and the decoder use the same numbering. Every `u64` has a bucket.
//! The middle of a bucket differs from each of its values by less than one part in
//! `2^(sub_bits + 1)`; values below `2^(sub_bits + 1)` are exact. Merging adds counts and is exact.
//!
//! Numbering: a value below `2^k` (`k` is `sub_bits`) is its own bucket. Above, with
//! `e = floor(log2 v) - k`, the bucket is `(e << k) + (v >> e)`, which is `(e + 1) << k` plus the
//! `k` bits after the leading one. Bucket `b` of at least `2^k` begins at
//! `(2^k + b mod 2^k) << (b / 2^k - 1)` and is `1 << (b / 2^k - 1)` wide. `2^k` consecutive buckets
//! are a page: page 0 contains the values below `2^k`, each other page the values of one power of
//! two.

use std::collections::BTreeMap;

use crate::statistics::{Number, Percentile, Statistic};
use crate::units::Unit;

/// Maximum sub-bucket bits: an error of 0.1 %.
pub const MAX_SUB_BITS: u8 = 9;

/// A set of values, stored as bucket counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distribution {
    /// Each power of two has `1 << sub_bits` buckets.
    pub sub_bits: u8,
    /// Unit of the values.
    pub unit: Unit,
    /// The sum of all values, including negative ones.
    pub sum: i128,
    /// The smallest and the largest value; `None` if there are no values.
    pub range: Option<(i128, i128)>,
    /// Number of negative values, which have no bucket.
    pub negative: u64,
    /// Counts of the non-empty buckets, by bucket number.
    pub buckets: BTreeMap<u32, u64>,
}

/// The sub-bucket bits that keep the error within `error_thousandths` thousandths of a percent (1 %
/// is 1000); `None` below 0.1 %.
pub const fn sub_bits_for(error_thousandths: u32) -> Option<u8> {
    let mut bits = 1;
    while bits <= MAX_SUB_BITS {
        if (1u64 << (bits + 1)) * error_thousandths as u64 >= 100_000 {
            return Some(bits);
        }
        bits += 1;
    }
    None
}

/// Number of pages of all buckets for non-negative values.
pub const fn pages(sub_bits: u8) -> u32 {
    65 - sub_bits as u32
}

/// The bucket of a value.
pub const fn index(value: u64, sub_bits: u8) -> u32 {
    if value >> sub_bits == 0 {
        return value as u32;
    }
    let shift = value.ilog2() - sub_bits as u32;
    (shift << sub_bits) + (value >> shift) as u32
}

/// The first and the last value of a bucket; `None` if there is no such bucket.
pub fn bounds(index: u32, sub_bits: u8) -> Option<(u64, u64)> {
    let per_page = 1u32 << sub_bits;
    if index < per_page {
        return Some((u64::from(index), u64::from(index)));
    }
    let shift = index / per_page - 1;
    let mantissa = u64::from(per_page + index % per_page);
    let low = mantissa.checked_shl(shift).filter(|low| low >> shift == mantissa)?;
    Some((low, low + ((1 << shift) - 1)))
}

/// The value that represents a bucket: its middle.
fn middle((low, high): (u64, u64)) -> i128 {
    i128::from(low + (high - low) / 2)
}

impl Distribution {
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.values().fold(self.negative, |sum, count| sum.saturating_add(*count))
    }

    /// Adds the values of another distribution. The result has the error of the coarser one.
    pub fn merge(&mut self, other: &Distribution) {
        if other.sub_bits < self.sub_bits {
            self.coarsen(other.sub_bits);
        }
        self.sum += other.sum;
        self.negative = self.negative.saturating_add(other.negative);
        self.range = match (self.range, other.range) {
            (Some((low, high)), Some((min, max))) => Some((low.min(min), high.max(max))),
            (mine, others) => mine.or(others),
        };
        for (&bucket, &count) in &other.buckets {
            self.add(regrouped(bucket, other.sub_bits, self.sub_bits), count);
        }
    }

    /// Adds to the count of a bucket.
    pub fn add(&mut self, bucket: u32, count: u64) {
        if count > 0 {
            let sum = self.buckets.entry(bucket).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    fn coarsen(&mut self, sub_bits: u8) {
        for (bucket, count) in std::mem::take(&mut self.buckets) {
            self.add(regrouped(bucket, self.sub_bits, sub_bits), count);
        }
        self.sub_bits = sub_bits;
    }

    /// A statistic; `None` without values, and for percentiles that fall among negative values,
    /// which are only counted. Count, sum, mean, minimum and maximum are exact.
    pub fn statistic(&self, statistic: Statistic) -> Option<Number> {
        match statistic {
            Statistic::Count => Some(Number::Integer(i128::from(self.count()))),
            Statistic::Sum => Some(Number::Integer(self.sum)),
            Statistic::Mean => self.range.map(|_| Number::quotient(self.sum, self.count())),
            Statistic::Min => self.range.map(|(min, _)| Number::Integer(min)),
            Statistic::Max => self.range.map(|(_, max)| Number::Integer(max)),
            Statistic::Percentile(percentile) => self.percentile(percentile).map(Number::Integer),
        }
    }

    fn percentile(&self, percentile: Percentile) -> Option<i128> {
        let rank = percentile.rank(self.count());
        let (min, max) = self.range?;
        let mut seen = self.negative;
        if rank <= seen {
            return (rank == 1).then_some(min);
        }
        for (&bucket, &count) in &self.buckets {
            seen = seen.saturating_add(count);
            if seen >= rank {
                return Some(middle(bounds(bucket, self.sub_bits)?).clamp(min, max));
            }
        }
        None
    }

    /// The counts in at most 20 rows from the first to the last non-empty bucket. Each row covers
    /// the same number of powers of two. The first row begins at 0 if there are zeros.
    pub fn rows(&self) -> Vec<Row> {
        /// Maximum number of rows; more are merged.
        const MOST: u32 = 20;
        let power = |bucket: u32| bounds(bucket, self.sub_bits).map_or(0, |(low, _)| low.max(1).ilog2());
        let (Some(first), Some(last)) = (self.buckets.keys().next(), self.buckets.keys().next_back()) else {
            return Vec::new();
        };
        let (first, last) = (power(*first), power(*last));
        let step = (last - first + 1).div_ceil(MOST);
        let start = |row: u32| 1u64.checked_shl(first + row * step);
        let rows = (last - first) / step + 1;
        let mut rows: Vec<Row> =
            (0..rows).map(|row| Row { low: start(row).unwrap_or(u64::MAX), end: start(row + 1), count: 0 }).collect();
        for (&bucket, &count) in &self.buckets {
            if let Some(row) = rows.get_mut(((power(bucket) - first) / step) as usize) {
                row.count = row.count.saturating_add(count);
            }
        }
        // 0 belongs to the row of 1, which then begins at 0.
        if let Some(row) = rows.first_mut()
            && self.buckets.contains_key(&0)
        {
            row.low = 0;
        }
        rows
    }
}

/// A row of a printed distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its first value.
    pub low: u64,
    /// Its exclusive end; `None` if the row extends to the last `u64`.
    pub end: Option<u64>,
    /// Number of values in the row.
    pub count: u64,
}

/// Converts a bucket number to a coarser numbering.
fn regrouped(bucket: u32, from: u8, to: u8) -> u32 {
    bounds(bucket, from).map_or(bucket, |(low, _)| index(low, to))
}

#[cfg(test)]
#[path = "distribution_tests.rs"]
mod tests;
