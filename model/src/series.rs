//! Time series: one value for each of the latest intervals.
//!
//! In: points, by interval number since 1970. Out: the plot that bpftrace prints, and the
//! timestamps for JSON.
//! Guarantee: any points can be plotted; points of the same interval share a line.

use crate::strftime::{Dialect, strftime};
use crate::text::put;
use crate::value::Symbols;

/// A time series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Series {
    /// Length of an interval.
    pub interval_ns: u64,
    /// Number of intervals shown.
    pub intervals: u64,
    /// Points in ascending order: interval number since 1970, and value. Intervals without a value
    /// are absent.
    pub points: Vec<(u64, i128)>,
    /// Number of the last interval shown.
    pub latest: u64,
}

/// Width of a plot in columns.
const WIDTH: usize = 53;
/// Columns for the label of the lowest value; the highest value has the rest.
const LOWEST_WIDTH: usize = 21;

/// Units of time, and the number of decimals that a timestamp has in each.
const UNITS: [(u64, &str, usize); 4] =
    [(1_000_000_000, "", 0), (1_000_000, ".ms", 3), (1_000, ".us", 6), (0, ".ns", 9)];

impl Series {
    /// The series of the latest of these points.
    pub fn new(interval_ns: u64, intervals: u64, points: Vec<(u64, i128)>) -> Series {
        let latest = points.last().map_or(0, |(number, _)| *number);
        Series { interval_ns, intervals, points, latest }.up_to(latest)
    }

    /// The same series, ending at interval `latest`, which all series of a map share.
    #[must_use]
    pub fn up_to(mut self, latest: u64) -> Series {
        let first = latest.saturating_add(1).saturating_sub(self.intervals);
        self.points.retain(|(number, _)| (first..=latest).contains(number));
        self.latest = latest;
        self
    }

    /// The start of an interval in ns since 1970.
    pub fn start_ns(&self, number: u64) -> u64 {
        number.saturating_mul(self.interval_ns)
    }

    /// Appends the plot, beginning at the interval of the first point.
    pub fn write(&self, symbols: &dyn Symbols, out: &mut Vec<u8>) {
        let latest = self.latest;
        let Some((first, _)) = self.points.first() else {
            out.extend_from_slice(b"<no data>");
            return;
        };
        let scale = Scale::of(&self.points);
        // As in bpftrace, a single interval is shown in nanoseconds.
        let length_ns = if latest > *first { self.interval_ns } else { 0 };
        let (_, unit, decimals) =
            UNITS.iter().find(|(at_least, ..)| length_ns >= *at_least).copied().unwrap_or(UNITS[3]);
        let time_width = "hh:mm:ss".len() + if decimals == 0 { 0 } else { 1 + decimals };
        let highest_width = WIDTH - LOWEST_WIDTH;
        let bounds = format!("{:<LOWEST_WIDTH$}{:>highest_width$}", scale.lowest, scale.highest);
        let rule = "_".repeat(WIDTH - 2);
        let heading = format!("hh:mm:ss{unit}");
        put(out, format_args!("{:time_width$} {bounds}\n{heading:<time_width$} |{rule}|\n", ""));
        let mut points = self.points.iter().peekable();
        for number in *first..=latest {
            let value = points.next_if(|(at, _)| *at == number).map(|(_, value)| *value);
            let moment = moment(self.start_ns(number), "%H:%M:%S", decimals, symbols);
            let shown = value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            put(out, format_args!("{moment} {} {shown}\n", scale.line(value)));
        }
        put(out, format_args!("{:time_width$} v{rule}v\n{:time_width$} {bounds}\n", "", ""));
    }
}

/// A timestamp in local time, with the given number of decimals of the second.
pub fn moment(unix_ns: u64, format: &str, decimals: usize, symbols: &dyn Symbols) -> String {
    let text = strftime(format, unix_ns, &symbols.zone(unix_ns), Dialect::Time);
    if decimals == 0 {
        return text;
    }
    let nanosecond = format!("{:09}", unix_ns % 1_000_000_000);
    format!("{text}.{}", nanosecond.get(..decimals).unwrap_or(&nanosecond))
}

/// The value axis of a plot.
struct Scale {
    lowest: i128,
    highest: i128,
    /// The column of 0, if 0 is not at either end.
    zero: usize,
}

impl Scale {
    fn of(points: &[(u64, i128)]) -> Scale {
        let values = || points.iter().map(|(_, value)| *value);
        let (mut lowest, mut highest) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
        if lowest == highest {
            // All values are equal: put the line in the middle.
            (lowest, highest) = (lowest - 1, highest + 1);
        }
        let zero = if lowest < 0 && highest > 0 { share(WIDTH, -lowest, highest - lowest) } else { 0 };
        Scale { lowest, highest, zero }
    }

    fn line(&self, value: Option<i128>) -> String {
        let mut columns = vec![' '; WIDTH];
        columns[0] = '|';
        columns[WIDTH - 1] = '|';
        if self.zero > 0 {
            columns[self.zero.min(WIDTH - 1)] = '.';
        }
        if let Some(value) = value {
            columns[share(WIDTH - 1, value - self.lowest, self.highest - self.lowest).min(WIDTH - 1)] = '*';
        }
        columns.into_iter().collect()
    }
}

/// `part` of `whole` in columns, computed in single precision and truncated, as bpftrace does.
#[expect(clippy::cast_precision_loss, reason = "53 columns need no more")]
fn share(columns: usize, part: i128, whole: i128) -> usize {
    (columns as f32 * part as f32 / whole as f32) as usize
}

#[cfg(test)]
mod tests {
    use super::Series;
    use crate::value::NoSymbols;

    fn text(series: &Series) -> String {
        let mut out = Vec::new();
        series.write(&NoSymbols, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn values_on_both_sides_of_zero_have_a_line_at_zero() {
        let points = vec![(10, -5), (11, 0), (13, 5)];
        let series = Series::new(100_000_000, 4, points);
        let expected = "             \
                        -5                                                  5\n\
            hh:mm:ss.ms  |___________________________________________________|\n\
            00:00:01.000 *                         .                         | -5\n\
            00:00:01.100 |                         *                         | 0\n\
            00:00:01.200 |                         .                         | -\n\
            00:00:01.300 |                         .                         * 5\n             \
                         v___________________________________________________v\n             \
                         -5                                                  5\n";
        assert_eq!(text(&series), expected);
    }

    #[test]
    fn one_value_stands_in_the_middle() {
        let plot = text(&Series::new(1_000_000_000, 2, vec![(3661, 9), (3662, 9)]));
        let lines: Vec<&str> = plot.lines().collect();
        assert_eq!(lines[1], format!("hh:mm:ss |{}|", "_".repeat(51)));
        assert_eq!(lines[2], format!("01:01:01 |{}*{}| 9", " ".repeat(25), " ".repeat(25)));
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["8", "10"]);
    }

    #[test]
    fn only_the_latest_intervals_of_the_map_are_shown() {
        let series = Series::new(1, 3, vec![(5, 1), (6, 2), (8, 3)]);
        assert_eq!(series.points, [(6, 2), (8, 3)]);
        assert_eq!(text(&series.clone().up_to(9)).lines().count(), 6, "8 and 9");
        assert_eq!(series.clone().up_to(20).points, []);
        assert_eq!(text(&series.up_to(20)), "<no data>");
    }
}
