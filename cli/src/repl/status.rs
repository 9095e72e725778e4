//! `:ps`: activity and cost of the prompt's programs, as a table.
//!
//! In: each program's number, text and [`Status`], and the terminal's width. Out: lines.
//! Guarantee: columns are aligned, and no line is wider than the terminal.

use std::fmt::Write as _;

use profiler_compiler::statistics::Number;
use profiler_compiler::units::Unit;
use profiler_runtime::control::Status;

/// Minimum columns for a program's text after its numbers; with fewer, the text goes above them.
const NARROWEST: usize = 16;

/// A program and its status; `None` if it is just ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub number: u32,
    /// The typed text, in one line.
    pub text: String,
    /// Its activity and cost.
    pub status: Option<Status>,
}

/// The table for a terminal of `width` columns, if there is one.
pub fn table(programs: &[Row], width: Option<usize>) -> String {
    let titles = ["", "probes", "runs", "records", "mean", "CPU", "lost"].map(str::to_owned);
    let cells: Vec<[String; 7]> = std::iter::once(titles).chain(programs.iter().map(cells)).collect();
    let texts = std::iter::once("program").chain(programs.iter().map(|row| row.text.as_str()));
    let widths: [usize; 7] =
        std::array::from_fn(|at| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let numbers: usize = widths.iter().map(|width| width + 2).sum();
    if width.is_some_and(|width| width < numbers + NARROWEST) {
        return blocks(programs, width);
    }
    let mut table = String::new();
    for (row, text) in cells.iter().zip(texts) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:>width$}  ");
        }
        line.push_str(text);
        table.push_str(&cut(&line, width));
        table.push('\n');
    }
    table
}

/// Each program in three lines, for terminals on which the numbers leave no space for the text.
fn blocks(programs: &[Row], width: Option<usize>) -> String {
    let mut text = String::new();
    for row in programs {
        let [number, probes, runs, records, mean, share, lost] = cells(row);
        let indent = " ".repeat(number.chars().count());
        let first = cut(&format!("{number} {}", row.text), width);
        let counts = cut(&format!("{indent} probes {probes}, runs {runs}, records {records}"), width);
        let costs = cut(&format!("{indent} mean {mean}, CPU {share}, lost {lost}"), width);
        let _ = writeln!(text, "{first}\n{counts}\n{costs}");
    }
    text
}

fn cells(row: &Row) -> [String; 7] {
    let number = format!("[{}]", row.number);
    let Some(status) = &row.status else {
        let unknown = || "-".to_owned();
        return [number, unknown(), unknown(), unknown(), unknown(), unknown(), unknown()];
    };
    let [runs, mean, share] = match status.cost {
        None => ["-", "-", "-"].map(str::to_owned),
        Some((0, _)) => ["0", "-", "0.000 %"].map(str::to_owned),
        Some((runs, time)) => {
            let elapsed = status.elapsed.as_secs_f64();
            let share = if elapsed == 0.0 { 0.0 } else { time.as_secs_f64() * 100.0 / elapsed };
            let mean = Number::quotient(i128::try_from(time.as_nanos()).unwrap_or(i128::MAX), runs);
            [runs.to_string(), Unit::Duration.text(mean.as_f64()), format!("{share:.3} %")]
        }
    };
    [number, status.probes.to_string(), runs, status.records.to_string(), mean, share, status.lost.to_string()]
}

/// Truncates a line that is too long, with a mark at its end.
fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rows() -> Vec<Row> {
        let status = Status {
            probes: 7,
            cost: Some((1000, Duration::from_micros(1500))),
            elapsed: Duration::from_secs(1),
            records: 3,
            lost: 0,
        };
        let row = |number, status| Row { number, text: "kprobe:a { @x = count(); }".into(), status };
        let unmeasured = Status { probes: 1, ..Status::default() };
        let idle = Status { cost: Some((0, Duration::ZERO)), ..unmeasured.clone() };
        vec![row(1, Some(status)), row(2, Some(idle)), row(12, Some(unmeasured)), row(13, None)]
    }

    #[test]
    fn programs_stand_below_each_other() {
        let expected = "      probes  runs  records    mean      CPU  lost  program\n \
                         [1]       7  1000        3  1.5 µs  0.150 %     0  kprobe:a { @x = count(); }\n \
                         [2]       1     0        0       -  0.000 %     0  kprobe:a { @x = count(); }\n\
                        [12]       1     -        0       -        -     0  kprobe:a { @x = count(); }\n\
                        [13]       -     -        -       -        -     -  kprobe:a { @x = count(); }\n";
        assert_eq!(table(&rows(), None), expected);
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        for width in [1, 20, 60, 70] {
            let table = table(&rows(), Some(width));
            assert!(table.lines().all(|line| line.chars().count() <= width), "{width}:\n{table}");
        }
        assert!(table(&rows(), Some(75)).contains("kprobe:a {") && table(&rows(), Some(75)).contains('…'));
        let narrow = "[1] kprobe:a { @x = count(); }\n    probes 7, runs 1000, records 3\n    mean 1.5 µs, CPU 0.150 %, lost 0\n";
        assert!(table(&rows(), Some(45)).starts_with(narrow), "{}", table(&rows(), Some(45)));
    }
}
