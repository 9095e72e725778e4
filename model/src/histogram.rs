//! Bucket numbering of histograms.
//!
//! In: values, or counts by bucket number. Out: bucket numbers, their bounds, and [`Histogram`]s.
//! Guarantee: the code generator and the decoder use the same numbering, which is bpftrace's; the
//! buckets partition all `i64`.

use crate::value::{Bucket, Histogram, Labels};

/// Maximum sub-bucket bits of `hist(n, k)`.
pub const MAX_SUB_BITS: u8 = 5;

/// The bounds of a bucket: lowest value, inclusive, and end, exclusive; `None` means unbounded.
pub type Bounds = (Option<i64>, Option<i64>);

/// Number of buckets of `hist(n, k)`: one for negative values, `2^k` for the values below `2^k`,
/// then `2^k` for each power of two up to `2^62`.
pub const fn log2_buckets(k: u8) -> usize {
    ((64 - k as usize) << k) + 1
}

/// The bucket of a value.
///
/// Negative values are in bucket 0. A value below `2^k` has its own bucket, `n + 1`. Above, the
/// number encodes the position of the leading one and the `k` bits that follow it.
pub const fn log2_index(n: i64, k: u8) -> usize {
    if n < 0 {
        return 0;
    }
    let n = n as u64;
    let sub_mask = (1u64 << k) - 1;
    if n <= sub_mask {
        return n as usize + 1;
    }
    let shift = n.ilog2() - k as u32;
    (((shift as usize + 1) << k) | ((n >> shift) & sub_mask) as usize) + 1
}

/// The bounds of bucket `index`. The last bucket ends at `2^63`, which is reported as unbounded.
pub fn log2_bounds(index: usize, k: u8) -> Bounds {
    if index == 0 {
        return (None, Some(0));
    }
    let bound = |index| log2_start(index, k).and_then(|start| i64::try_from(start).ok());
    (bound(index - 1), bound(index))
}

/// Where the `slot`-th non-negative bucket starts, counted from 0.
fn log2_start(slot: usize, k: u8) -> Option<u64> {
    let per_power = 1usize << k;
    if slot < per_power {
        return Some(slot as u64);
    }
    let mantissa = (per_power + slot % per_power) as u64;
    let exponent = u32::try_from(slot / per_power - 1).ok()?;
    mantissa.checked_shl(exponent).filter(|start| start >> exponent == mantissa)
}

/// Number of buckets of `lhist(n, min, max, step)`, including those below and above the range. A
/// step below 1 counts as 1.
pub fn linear_buckets(min: i64, max: i64, step: i64) -> usize {
    usize::try_from(linear_steps(min, max, step)).unwrap_or(usize::MAX).saturating_add(2)
}

/// Number of whole steps from `min` to `max`.
fn linear_steps(min: i64, max: i64, step: i64) -> u64 {
    if max <= min { 0 } else { max.abs_diff(min) / step.max(1).unsigned_abs() }
}

/// The bucket of a value: 0 below `min`, then one per step; the last bucket contains everything
/// from the last whole step on.
pub fn linear_index(n: i64, min: i64, max: i64, step: i64) -> usize {
    if n < min {
        return 0;
    }
    let steps = n.abs_diff(min) / step.max(1).unsigned_abs();
    usize::try_from(steps.min(linear_steps(min, max, step))).unwrap_or(usize::MAX).saturating_add(1)
}

/// The bounds of bucket `index`.
pub fn linear_bounds(index: usize, min: i64, max: i64, step: i64) -> Bounds {
    if index == 0 {
        return (None, Some(min));
    }
    let bound = |slot: usize| i64::try_from(i128::from(min) + slot as i128 * i128::from(step.max(1))).ok();
    let last = index as u64 > linear_steps(min, max, step);
    (bound(index - 1), if last { None } else { bound(index) })
}

/// A histogram from counts in the numbering of [`log2_index`].
pub fn log2_histogram(counts: &[u64], k: u8) -> Histogram {
    Histogram { buckets: trimmed(counts, |index| log2_bounds(index, k)), labels: Labels::Powers { sub_bits: k } }
}

/// A histogram from counts in the numbering of [`linear_index`].
pub fn linear_histogram(counts: &[u64], min: i64, max: i64, step: i64) -> Histogram {
    let labels = if step % 1024 == 0 { Labels::Binary } else { Labels::Plain };
    Histogram { buckets: trimmed(counts, |index| linear_bounds(index, min, max, step)), labels }
}

/// Divides every count, as for `print(@h, top, div)`. Buckets stay even if their count becomes 0.
pub fn divide(mut histogram: Histogram, by: i64) -> Histogram {
    for bucket in &mut histogram.buckets {
        bucket.count /= by.max(1).unsigned_abs();
    }
    histogram
}

/// The buckets from the first to the last non-empty one.
fn trimmed(counts: &[u64], bounds: impl Fn(usize) -> Bounds) -> Vec<Bucket> {
    let Some(first) = counts.iter().position(|&count| count > 0) else { return Vec::new() };
    let last = counts.iter().rposition(|&count| count > 0).unwrap_or(first);
    (first..=last)
        .map(|index| {
            let (low, high) = bounds(index);
            Bucket { low, high, count: counts[index] }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values at and around every power of two, and a pseudo-random walk over all bit lengths.
    fn samples() -> impl Iterator<Item = i64> {
        let edges = (0..63).flat_map(|bit| {
            let power = 1i64 << bit;
            [power - 1, power, power + 1, -power, power + power / 2, power + power / 3]
        });
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let random = (0..20_000).map(move |round| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> (round % 64)) as i64
        });
        edges.chain([i64::MIN, i64::MAX, -1, 0]).chain(random)
    }

    fn contains((low, high): Bounds, n: i64) -> bool {
        low.is_none_or(|low| low <= n) && high.is_none_or(|high| n < high)
    }

    #[test]
    fn every_value_lies_in_the_bounds_of_its_log2_bucket() {
        for k in 0..=MAX_SUB_BITS {
            for n in samples() {
                let index = log2_index(n, k);
                assert!(index < log2_buckets(k), "{n} k={k}: {index}");
                assert!(contains(log2_bounds(index, k), n), "{n} k={k}: {index} {:?}", log2_bounds(index, k));
            }
            assert_eq!(log2_index(i64::MAX, k), log2_buckets(k) - 1, "no bucket is unreachable, k={k}");
        }
    }

    #[test]
    fn neighbouring_buckets_meet() {
        for k in 0..=MAX_SUB_BITS {
            for index in 1..log2_buckets(k) {
                assert_eq!(log2_bounds(index - 1, k).1, log2_bounds(index, k).0, "k={k} index={index}");
                assert!(log2_bounds(index, k).0.is_some());
            }
            assert_eq!(log2_bounds(log2_buckets(k) - 1, k).1, None);
        }
    }

    #[test]
    fn log2_buckets_are_those_of_bpftrace() {
        let firsts: Vec<usize> = [-5, 0, 1, 2, 3, 4, 7, 8, 1023, 1024].map(|n| log2_index(n, 0)).to_vec();
        assert_eq!(firsts, [0, 1, 2, 3, 3, 4, 4, 5, 11, 12]);
        // The example in bpftrace's source: 225 with k = 2 is bucket 28, and bucket 27 starts at
        // 224.
        assert_eq!(log2_index(225, 2), 28);
        assert_eq!(log2_bounds(28, 2), (Some(224), Some(256)));
        assert_eq!(log2_bounds(log2_index(1000, 3), 3), (Some(960), Some(1024)));
        assert_eq!(log2_index(i64::MAX, 0), 64);
    }

    #[test]
    fn every_value_lies_in_the_bounds_of_its_linear_bucket() {
        for (min, max, step) in [(0, 100, 10), (0, 105, 10), (7, 8, 1), (0, 1 << 20, 1024), (-50, 50, 7), (5, 5, 3)] {
            for n in samples().chain(min - 3..min + 200) {
                let index = linear_index(n, min, max, step);
                assert!(index < linear_buckets(min, max, step), "{n} in {min}..{max} by {step}");
                assert!(contains(linear_bounds(index, min, max, step), n), "{n} in {min}..{max} by {step}: {index}");
            }
            assert_eq!(linear_index(i64::MAX, min, max, step), linear_buckets(min, max, step) - 1);
        }
    }

    #[test]
    fn the_linear_maximum_opens_the_last_bucket() {
        assert_eq!(linear_index(100, 0, 100, 10), 11);
        assert_eq!(linear_bounds(11, 0, 100, 10), (Some(100), None));
        assert_eq!(linear_bounds(10, 0, 100, 10), (Some(90), Some(100)));
        assert_eq!(linear_bounds(11, 0, 105, 10), (Some(100), None), "a part of a step joins the last bucket");
    }

    #[test]
    fn hostile_parameters_stay_in_range() {
        assert_eq!(linear_index(5, 0, 10, 0), 6);
        assert_eq!(linear_buckets(10, 0, 1), 2);
        assert!(linear_index(i64::MAX, i64::MIN, i64::MAX, 1) > 0);
        assert_eq!(linear_bounds(usize::MAX, i64::MAX - 1, i64::MAX, i64::MAX), (None, None));
    }

    #[test]
    fn histograms_run_from_the_first_to_the_last_count() {
        let histogram = log2_histogram(&[0, 0, 0, 2, 0, 1, 0], 0);
        let bucket = |low, high, count| Bucket { low: Some(low), high: Some(high), count };
        assert_eq!(histogram.buckets, [bucket(2, 4, 2), bucket(4, 8, 0), bucket(8, 16, 1)]);
        assert_eq!(divide(histogram, 2).buckets, [bucket(2, 4, 1), bucket(4, 8, 0), bucket(8, 16, 0)]);
        assert_eq!(log2_histogram(&[0; 65], 0).buckets, []);
        assert_eq!(linear_histogram(&[1], 0, 4096, 2048).labels, Labels::Binary);
    }
}
