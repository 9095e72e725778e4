//! Text rendering of distributions.
//!
//! In: a [`Distribution`], the number of columns. Out: a line of statistics and the histogram rows,
//! each line ended.
//! Guarantee: no line exceeds the columns, except a line whose numbers alone exceed them.

use super::put;
use crate::distribution::{Distribution, Row};
use crate::statistics::{Number, Percentile, Statistic};

/// The percentiles on the first line, in thousandths of a percent.
const PERCENTILES: [u32; 4] = [50_000, 90_000, 99_000, 99_900];

/// Number of columns if no terminal reports it.
pub const COLUMNS: usize = 80;

/// Maximum width of a bar, the same as for histograms.
const MAX_BAR: usize = 52;

/// The statistics on the first line, in order.
pub fn shown() -> impl Iterator<Item = Statistic> {
    let percentiles = PERCENTILES.into_iter().filter_map(Percentile::thousandths).map(Statistic::Percentile);
    [Statistic::Count, Statistic::Mean, Statistic::Min].into_iter().chain(percentiles).chain([Statistic::Max])
}

/// Appends the text of a distribution.
pub fn write_distribution(distribution: &Distribution, columns: usize, out: &mut Vec<u8>) {
    let mut parts: Vec<String> = shown().filter_map(|statistic| part(distribution, statistic)).collect();
    if distribution.negative > 0 {
        parts.push(format!("negative {}", distribution.negative));
    }
    let mut line = String::new();
    for part in parts {
        if !line.is_empty() && line.chars().count() + 2 + part.chars().count() > columns {
            put(out, format_args!("{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push_str("  ");
        }
        line.push_str(&part);
    }
    put(out, format_args!("{line}\n"));
    write_rows(distribution, columns, out);
}

/// `p99 12.3 ms`; `None` if the distribution does not have the statistic.
fn part(distribution: &Distribution, statistic: Statistic) -> Option<String> {
    let value = distribution.statistic(statistic)?;
    Some(match (statistic, value) {
        (Statistic::Count, Number::Integer(count)) => format!("count {count}"),
        (_, value) => format!("{statistic} {}", distribution.unit.text(value.as_f64())),
    })
}

fn write_rows(distribution: &Distribution, columns: usize, out: &mut Vec<u8>) {
    let rows = distribution.rows();
    let label = |row: &Row| bounds(distribution, row);
    let labels: Vec<String> = rows.iter().map(label).collect();
    let label_width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let highest = rows.iter().map(|row| row.count).max().unwrap_or(0);
    let count_width = highest.to_string().len().max(8);
    let bar_width = columns.saturating_sub(label_width + count_width + 4).clamp(1, MAX_BAR);
    for (row, label) in rows.iter().zip(labels) {
        let bar = "@".repeat(bar_len(row.count, highest, bar_width));
        put(out, format_args!("{label:<label_width$} {:>count_width$} |{bar:<bar_width$}|\n", row.count));
    }
}

fn bounds(distribution: &Distribution, row: &Row) -> String {
    // Bounds are powers of two, which a double represents exactly.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let text = |bound: u64| match distribution.unit {
        crate::units::Unit::None => super::bound_label(bound, false, crate::value::Labels::Powers { sub_bits: 0 }),
        unit => unit.text(bound as f64),
    };
    match row.end {
        Some(end) => format!("[{}, {})", text(row.low), text(end)),
        None => format!("[{}, ...)", text(row.low)),
    }
}

/// Bar length, truncated.
fn bar_len(count: u64, highest: u64, width: usize) -> usize {
    let len = u128::from(count) * width as u128 / u128::from(highest.max(1));
    usize::try_from(len).unwrap_or(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::index;
    use crate::units::Unit;

    fn of(values: &[u64], unit: Unit) -> Distribution {
        let mut all = Distribution { sub_bits: 6, unit, ..Distribution::default() };
        for &value in values {
            let exact = i128::from(value);
            let mut one = Distribution { sub_bits: 6, sum: exact, range: Some((exact, exact)), ..all.clone() };
            one.negative = 0;
            one.buckets.clear();
            one.add(index(value, 6), 1);
            all.merge(&one);
        }
        all
    }

    fn text(distribution: &Distribution, columns: usize) -> String {
        let mut out = Vec::new();
        write_distribution(distribution, columns, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn durations_are_written_for_people() {
        let values: Vec<u64> = (1..=100).map(|n| n * 100_000).collect();
        assert_eq!(
            text(&of(&values, Unit::Duration), 100),
            "\
count 100  mean 5.05 ms  min 100 µs  p50 5.01 ms  p90 8.98 ms  p99 9.9 ms  p99.9 10 ms  max 10 ms
[65.5 µs, 131 µs)         1 |@                                                   |
[131 µs, 262 µs)          1 |@                                                   |
[262 µs, 524 µs)          3 |@@@                                                 |
[524 µs, 1.05 ms)         5 |@@@@@@                                              |
[1.05 ms, 2.1 ms)        10 |@@@@@@@@@@@@                                        |
[2.1 ms, 4.19 ms)        21 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[4.19 ms, 8.39 ms)       42 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[8.39 ms, 16.8 ms)       17 |@@@@@@@@@@@@@@@@@@@@@                               |
"
        );
    }

    #[test]
    fn bare_numbers_are_written_in_full_and_lines_keep_to_the_columns() {
        let narrow = text(&of(&[3, 3, 70_000], Unit::None), 40);
        assert_eq!(
            narrow.lines().take(4).collect::<Vec<_>>(),
            [
                "count 3  mean 23335.33  min 3  p50 3",
                "p90 70000  p99 70000  p99.9 70000",
                "max 70000",
                "[2, 4)             2 |@@@@@@@@@@@@@@@@@|"
            ]
        );
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    }

    #[test]
    fn what_is_not_there_is_not_shown() {
        assert_eq!(text(&Distribution::default(), 80), "count 0\n");
        let negative = Distribution { negative: 2, sum: -3, range: Some((-2, -1)), ..Distribution::default() };
        assert_eq!(text(&negative, 80), "count 2  mean -1.5  min -2  p50 -2  max -1  negative 2\n");
    }
}
