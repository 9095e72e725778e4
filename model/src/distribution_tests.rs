use super::*;

fn percentile(text: &str) -> Percentile {
    Percentile::parse(text).unwrap()
}

fn of(values: &[u64], sub_bits: u8) -> Distribution {
    let mut all = Distribution { sub_bits, ..Distribution::default() };
    for &value in values {
        let exact = i128::from(value);
        let mut one = Distribution { sub_bits, sum: exact, range: Some((exact, exact)), ..Distribution::default() };
        one.add(index(value, sub_bits), 1);
        all.merge(&one);
    }
    all
}

/// Every power of two, its neighbours, the bounds of its buckets ±1, and a walk over all bit
/// lengths.
fn samples(sub_bits: u8) -> Vec<u64> {
    let mut values = vec![0, 1, 2, 3, u64::MAX, u64::MAX - 1];
    for power in 0..64u32 {
        let step = (1u64 << power) >> sub_bits.min(power as u8);
        for sub in [0u64, 1, 2, (1 << sub_bits) / 2, (1 << sub_bits) - 1] {
            let border = (1u64 << power).wrapping_add(sub.wrapping_mul(step));
            values.extend([border.wrapping_sub(1), border, border.wrapping_add(1)]);
        }
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..20_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        values.push(state >> (round % 64));
    }
    values
}

#[test]
fn every_value_has_a_bucket_whose_middle_is_within_the_error() {
    for sub_bits in 1..=MAX_SUB_BITS {
        for value in samples(sub_bits) {
            let bucket = index(value, sub_bits);
            assert!(bucket < pages(sub_bits) << sub_bits, "{value} {sub_bits}");
            let (low, high) = bounds(bucket, sub_bits).unwrap();
            assert!(low <= value && value <= high, "{value} {sub_bits}: {low}..={high}");
            let apart = (middle((low, high)) - i128::from(value)).unsigned_abs();
            assert!(apart << (sub_bits + 1) <= u128::from(value), "{value} {sub_bits}: {apart}");
            if value < 2 << sub_bits {
                assert_eq!(apart, 0, "{value} is exact");
            }
        }
        assert_eq!(index(u64::MAX, sub_bits), (pages(sub_bits) << sub_bits) - 1, "no bucket is unreachable");
        assert_eq!(bounds(pages(sub_bits) << sub_bits, sub_bits), None);
    }
}

#[test]
fn neighbouring_buckets_meet() {
    for sub_bits in 1..=MAX_SUB_BITS {
        for bucket in 1..pages(sub_bits) << sub_bits {
            assert_eq!(bounds(bucket - 1, sub_bits).unwrap().1 + 1, bounds(bucket, sub_bits).unwrap().0);
        }
    }
}

#[test]
fn the_stated_error_decides_on_the_buckets() {
    let bits = [25_000, 10_000, 2_000, 1_000, 500, 100].map(|error| sub_bits_for(error).unwrap());
    assert_eq!(bits, [1, 3, 5, 6, 7, 9]);
    assert_eq!(sub_bits_for(97), None);
    for error in 100..=25_000 {
        let bits = sub_bits_for(error).unwrap();
        assert!(f64::from(error) / 100_000.0 >= 0.5 / f64::from(1 << bits), "{error}");
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "the error is far larger")]
fn percentiles_are_within_the_error_of_the_exact_ones() {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let day = 86_400_000_000_000u64;
    let unit = |bits: u64| bits as f64 / (1u64 << 53) as f64;
    let uniform: Vec<u64> = (0..5000).map(|_| random() % day).collect();
    let exponential: Vec<u64> = (0..5000).map(|_| (-(1.0 - unit(random())).ln() * 1e6) as u64).collect();
    let bimodal: Vec<u64> =
        (0..5000).map(|n| if n % 10 == 0 { 50_000_000 + random() % 1000 } else { 800 + random() % 100 }).collect();
    let constant = vec![1_234_567; 1000];
    let borders: Vec<u64> = (0..47)
        .flat_map(|power| [0, 1, 63].map(|sub| (1u64 << power) + sub * ((1u64 << power) >> 6)))
        .flat_map(|border| [border.saturating_sub(1), border, border + 1])
        .collect();
    for (values, name) in [
        (uniform, "uniform"),
        (exponential, "exponential"),
        (bimodal, "bimodal"),
        (constant, "constant"),
        (borders, "borders"),
    ] {
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for (sub_bits, error) in [(6u8, 0.01), (1, 0.25), (9, 0.001)] {
            let all = of(&values, sub_bits);
            for text in ["0", "1", "25", "50", "90", "99", "99.9", "99.999", "100"] {
                let exact = sorted[percentile(text).rank(sorted.len() as u64) as usize - 1];
                let found = all.percentile(percentile(text)).unwrap();
                let apart = (found - i128::from(exact)).unsigned_abs() as f64;
                assert!(apart <= exact as f64 * error, "{name} p{text}: {found} for {exact}");
            }
            assert_eq!(all.count(), sorted.len() as u64);
            assert_eq!(all.sum, values.iter().map(|value| i128::from(*value)).sum());
            assert_eq!(all.range, Some((sorted[0].into(), sorted[sorted.len() - 1].into())));
        }
    }
}

#[test]
fn merging_is_exact_in_any_order() {
    let values = samples(6);
    let (a, b) = values.split_at(values.len() / 3);
    let all = of(&values, 6);
    let (mut ab, mut ba) = (of(a, 6), of(b, 6));
    ab.merge(&of(b, 6));
    ba.merge(&of(a, 6));
    assert_eq!((&ab, &ba), (&all, &all));
    let (mut fine, mut coarse) = (of(a, 9), of(b, 3));
    fine.merge(&of(b, 3));
    coarse.merge(&of(a, 9));
    assert_eq!((&fine, &coarse), (&of(&values, 3), &of(&values, 3)), "the coarser error holds for both");
}

#[test]
fn negative_values_are_counted_and_have_no_percentile() {
    let mut all = of(&[5, 6], 6);
    all.merge(&Distribution { sub_bits: 6, sum: -9, range: Some((-7, -2)), negative: 2, ..Distribution::default() });
    assert_eq!((all.count(), all.sum, all.range), (4, 2, Some((-7, 6))));
    let found = ["0", "50", "75", "100"].map(|text| all.percentile(percentile(text)));
    assert_eq!(found, [Some(-7), None, Some(5), Some(6)]);
    let nothing = Distribution::default();
    assert_eq!(nothing.statistic(Statistic::Count), Some(Number::Integer(0)));
    assert_eq!(nothing.statistic(Statistic::Mean), None);
    assert_eq!(nothing.percentile(percentile("50")), None);
}

#[test]
fn rows_are_few_and_hold_every_value() {
    let all = of(&[0, 1, 2, 3, 1000], 6);
    let rows = all.rows();
    assert_eq!((rows[0], rows[1]), (Row { low: 0, end: Some(2), count: 2 }, Row { low: 2, end: Some(4), count: 2 }));
    assert_eq!(rows.last(), Some(&Row { low: 512, end: Some(1024), count: 1 }));
    let wide = of(&[1, u64::MAX], 6).rows();
    assert_eq!((wide.len(), wide[0].count, wide[wide.len() - 1].count), (16, 1, 1));
    assert_eq!((wide[0].end, wide[wide.len() - 1].end), (Some(16), None));
    assert_eq!(Distribution::default().rows(), []);
}
