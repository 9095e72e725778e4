//! Formatting of times.
//!
//! In: nanoseconds since 1970, a time zone, a `strftime` format. Out: text as in the C locale.
//! Guarantee: pure; every format and every time give text. Unknown conversions are copied.

use crate::text::put;

/// A time zone at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Seconds that local time is ahead of UTC.
    pub utc_offset_seconds: i32,
    /// Its short name, for `%Z`.
    pub name: String,
}

/// The set of conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `time(format)`: those of C.
    Time,
    /// `strftime(format, ns)`: `%f`, `%l` and `%k` are the micro-, milli- and nanoseconds of the
    /// second.
    Strftime,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone { utc_offset_seconds: 0, name: "UTC".into() }
    }
}

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SECONDS_PER_DAY: i64 = 86_400;

/// A broken-down local time.
struct Moment<'a> {
    unix_seconds: i64,
    nanosecond: u32,
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
    zone: &'a Zone,
}

/// Formats the time `unix_ns` after 1970 in `zone`.
pub fn strftime(format: &str, unix_ns: u64, zone: &Zone, dialect: Dialect) -> String {
    let mut out = Vec::with_capacity(format.len() * 2);
    Moment::new(unix_ns, zone).write(format, dialect, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

impl Moment<'_> {
    fn new(unix_ns: u64, zone: &Zone) -> Moment<'_> {
        let unix_seconds = (unix_ns / 1_000_000_000) as i64;
        let local = unix_seconds + i64::from(zone.utc_offset_seconds);
        let days = local.div_euclid(SECONDS_PER_DAY);
        let in_day = local.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil(days);
        Moment {
            unix_seconds,
            nanosecond: (unix_ns % 1_000_000_000) as u32,
            year,
            month,
            day,
            weekday: (days + 4).rem_euclid(7) as usize,
            day_of_year: days - days_before_year(year),
            hour: in_day / 3600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
            zone,
        }
    }

    fn write(&self, format: &str, dialect: Dialect, out: &mut Vec<u8>) {
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.extend_from_slice(&rest.as_bytes()[..at]);
            let mut after = rest[at + 1..].chars();
            let Some(letter) = after.next() else {
                out.push(b'%');
                return;
            };
            if !self.subsecond(letter, dialect, out) && !self.number(letter, out) && !self.words(letter, dialect, out) {
                out.push(b'%');
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
            rest = after.as_str();
        }
        out.extend_from_slice(rest.as_bytes());
    }

    /// The week of the year, with weeks beginning on weekday `first`; days before the first such
    /// day are in week 0.
    fn week_from(&self, first: i64) -> i64 {
        let since = (self.weekday as i64 - first).rem_euclid(7);
        (self.day_of_year + 7 - since) / 7
    }

    /// Year and week of ISO 8601: weeks begin on Monday and belong to the year that contains their
    /// Thursday.
    fn iso_week(&self) -> (i64, i64) {
        let days = days_before_year(self.year) + self.day_of_year;
        let thursday = days - (self.weekday as i64 + 6) % 7 + 3;
        let (year, ..) = civil(thursday);
        (year, (thursday - days_before_year(year)) / 7 + 1)
    }

    /// Fractions of a second, which only `strftime` supports.
    fn subsecond(&self, letter: char, dialect: Dialect, out: &mut Vec<u8>) -> bool {
        if dialect != Dialect::Strftime {
            return false;
        }
        match letter {
            'f' => put(out, format_args!("{:06}", self.nanosecond / 1000)),
            'l' => put(out, format_args!("{:03}", self.nanosecond / 1_000_000)),
            'k' => put(out, format_args!("{:09}", self.nanosecond)),
            _ => return false,
        }
        true
    }

    fn number(&self, letter: char, out: &mut Vec<u8>) -> bool {
        let hour12 = (self.hour + 11) % 12 + 1;
        match letter {
            'Y' => put(out, format_args!("{}", self.year)),
            'C' => put(out, format_args!("{:02}", self.year.div_euclid(100))),
            'y' => put(out, format_args!("{:02}", self.year.rem_euclid(100))),
            'm' => put(out, format_args!("{:02}", self.month + 1)),
            'd' => put(out, format_args!("{:02}", self.day)),
            'e' => put(out, format_args!("{:2}", self.day)),
            'j' => put(out, format_args!("{:03}", self.day_of_year + 1)),
            'H' => put(out, format_args!("{:02}", self.hour)),
            'I' => put(out, format_args!("{hour12:02}")),
            'k' => put(out, format_args!("{:2}", self.hour)),
            'l' => put(out, format_args!("{hour12:2}")),
            'M' => put(out, format_args!("{:02}", self.minute)),
            'S' => put(out, format_args!("{:02}", self.second)),
            's' => put(out, format_args!("{}", self.unix_seconds)),
            'u' => put(out, format_args!("{}", (self.weekday + 6) % 7 + 1)),
            'U' => put(out, format_args!("{:02}", self.week_from(0))),
            'W' => put(out, format_args!("{:02}", self.week_from(1))),
            'V' => put(out, format_args!("{:02}", self.iso_week().1)),
            'G' => put(out, format_args!("{}", self.iso_week().0)),
            'g' => put(out, format_args!("{:02}", self.iso_week().0.rem_euclid(100))),
            'w' => put(out, format_args!("{}", self.weekday)),
            'z' => {
                let minutes = self.zone.utc_offset_seconds / 60;
                let sign = if minutes < 0 { '-' } else { '+' };
                put(out, format_args!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60));
            }
            _ => return false,
        }
        true
    }

    fn words(&self, letter: char, dialect: Dialect, out: &mut Vec<u8>) -> bool {
        let weekday = WEEKDAYS[self.weekday];
        let month = MONTHS[self.month];
        match letter {
            'a' => out.extend_from_slice(&weekday.as_bytes()[..3]),
            'A' => out.extend_from_slice(weekday.as_bytes()),
            'b' | 'h' => out.extend_from_slice(&month.as_bytes()[..3]),
            'B' => out.extend_from_slice(month.as_bytes()),
            'p' => out.extend_from_slice(if self.hour < 12 { b"AM" } else { b"PM" }),
            'P' => out.extend_from_slice(if self.hour < 12 { b"am" } else { b"pm" }),
            'Z' => out.extend_from_slice(self.zone.name.as_bytes()),
            'n' => out.push(b'\n'),
            't' => out.push(b'\t'),
            '%' => out.push(b'%'),
            'F' => self.write("%Y-%m-%d", dialect, out),
            'D' | 'x' => self.write("%m/%d/%y", dialect, out),
            'T' | 'X' => self.write("%H:%M:%S", dialect, out),
            'R' => self.write("%H:%M", dialect, out),
            'r' => self.write("%I:%M:%S %p", dialect, out),
            'c' => self.write("%a %b %e %H:%M:%S %Y", dialect, out),
            _ => return false,
        }
        true
    }
}

/// Days from 1970-01-01 to the first day of a year.
fn days_before_year(year: i64) -> i64 {
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    before * 365 + leap_days - 719_162
}

/// Converts days since 1970-01-01 to year, zero-based month and day of the month.
fn civil(days: i64) -> (i64, usize, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    let leap = days_before_year(year + 1) - days_before_year(year) == 366;
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut day = days - days_before_year(year);
    for (month, length) in lengths.into_iter().enumerate() {
        if day < length {
            return (year, month, day + 1);
        }
        day -= length;
    }
    (year, 11, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(format: &str, unix_ns: u64) -> String {
        strftime(format, unix_ns, &Zone::default(), Dialect::Strftime)
    }

    #[test]
    fn conversions_follow_c() {
        // 2024-02-29 23:59:58.123456789 UTC, a Thursday.
        let at = 1_709_251_198_123_456_789;
        let table = [
            ("%H:%M:%S", "23:59:58"),
            ("%T.%f", "23:59:58.123456"),
            ("%l %k", "123 123456789"),
            ("%F %D %y", "2024-02-29 02/29/24 24"),
            ("%e|%j|%u|%w", "29|060|4|4"),
            ("%a %A %b %B %h", "Thu Thursday Feb February Feb"),
            ("%I %p %P %r", "11 PM pm 11:59:58 PM"),
            ("%s %z %Z %R", "1709251198 +0000 UTC 23:59"),
            ("%c|%x|%X|%C", "Thu Feb 29 23:59:58 2024|02/29/24|23:59:58|20"),
            ("%%H%n%t", "%H\n\t"),
            ("100% %q %é %", "100% %q %é %"),
            ("", ""),
        ];
        for (format, expected) in table {
            assert_eq!(utc(format, at), expected, "{format}");
        }
    }

    #[test]
    fn weeks_follow_c_and_iso_8601() {
        // Days around year ends, with the output of `date +FORMAT`.
        let table = [
            (1_609_372_800, "2020-12-31 53 2020 20 52 52"),
            (1_609_459_200, "2021-01-01 53 2020 20 00 00"),
            (1_609_632_000, "2021-01-03 53 2020 20 01 00"),
            (1_609_718_400, "2021-01-04 01 2021 21 01 01"),
            (1_735_516_800, "2024-12-30 01 2025 25 52 53"),
            (1_704_067_200, "2024-01-01 01 2024 24 00 01"),
            (1_672_531_200, "2023-01-01 52 2022 22 01 00"),
            (0, "1970-01-01 01 1970 70 00 00"),
        ];
        for (seconds, expected) in table {
            assert_eq!(utc("%F %V %G %g %U %W", seconds * 1_000_000_000), expected);
        }
    }

    #[test]
    fn time_has_no_parts_of_seconds() {
        assert_eq!(strftime("%k|%l|%f", 3_723_000_000_000, &Zone::default(), Dialect::Time), " 1| 1|%f");
    }

    #[test]
    fn offsets_move_across_days_and_years() {
        let zone = Zone { utc_offset_seconds: -5 * 3600 - 1800, name: "XST".into() };
        assert_eq!(strftime("%F %T %z %Z", 0, &zone, Dialect::Time), "1969-12-31 18:30:00 -0530 XST");
        let zone = Zone { utc_offset_seconds: 2 * 3600, name: "CEST".into() };
        assert_eq!(strftime("%F %T %z", 1_735_682_400_000_000_000, &zone, Dialect::Time), "2025-01-01 00:00:00 +0200");
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut previous = civil(-1);
        assert_eq!(previous, (1969, 11, 31));
        for days in 0..146_097 {
            let (year, month, day) = civil(days);
            let next_in_month = (year, month, day) == (previous.0, previous.1, previous.2 + 1);
            let first_of_month = day == 1 && (month == previous.1 + 1 && year == previous.0);
            let first_of_year = (month, day) == (0, 1) && previous == (year - 1, 11, 31);
            assert!(next_in_month || first_of_month || first_of_year, "{previous:?} {:?}", (year, month, day));
            previous = (year, month, day);
        }
        assert_eq!(previous, (2369, 11, 31));
        assert_eq!(utc("%Y", u64::MAX), "2554");
    }
}
