//! Results of tests and benchmarks as text, as bpftrace writes them.
//!
//! In: a trial's result. Out: its lines, with the headings before the first and the totals after
//! the last.
//! Guarantee: without colours the lines contain no escape sequences.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use profiler_model::output::{Flush as _, Printed, Trial};
use profiler_model::text::controls::escape_controls;
use profiler_model::value::Symbols;

use super::text::Text;

const GREEN: &str = "32";
const RED: &str = "31";

/// The smallest width of the name column, and the width of the time column.
const NAME_COLUMNS: usize = 40;
const TIME_COLUMNS: usize = 15;

/// The lines of a trial; `escapes` escapes control characters in its output.
pub(super) fn lines(trial: &Trial<'_>, symbols: &dyn Symbols, coloured: bool, escapes: bool) -> Vec<u8> {
    match trial {
        Trial::Test { names, passed, duration, printed } => {
            let mut output = text_of(printed, symbols);
            if escapes {
                escape_controls(&mut output, 0);
            }
            test(names, passed, *duration, &output, coloured)
        }
        Trial::Benchmark { names, index, average_ns, runs } => {
            benchmark(names, *index, *average_ns, *runs).into_bytes()
        }
    }
}

/// What a test printed, results and notes together, as text.
pub(super) fn text_of(printed: &[Printed], symbols: &dyn Symbols) -> Vec<u8> {
    let bytes = Bytes::default();
    let mut text = Text::new(Box::new(bytes.clone()), Box::new(bytes.clone()), true);
    for it in printed {
        it.pass_on(&mut text, symbols);
    }
    // Writing to memory cannot fail.
    let _ = text.flush();
    bytes.0.take()
}

/// Bytes that several writers append to.
#[derive(Debug, Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn test(names: &[String], passed: &[bool], duration: Duration, output: &[u8], coloured: bool) -> Vec<u8> {
    let mark = |colour: &str, words: &str| {
        if coloured { format!("\x1b[{colour}m[{words}]\x1b[0m") } else { format!("[{words}]") }
    };
    let frame = mark(GREEN, "==========");
    let mut text = Vec::new();
    let mut line = |words: String| text.extend_from_slice(format!("{words}\n").as_bytes());
    let Some((name, verdict)) = passed.len().checked_sub(1).and_then(|at| Some((names.get(at)?, passed.get(at)?)))
    else {
        return text;
    };
    if passed.len() == 1 {
        line(format!("{frame} Running {} tests.", names.len()));
    }
    line(format!("{} {name}", mark(GREEN, " RUN      ")));
    if !verdict {
        for printed in output.split(|byte| *byte == b'\n').filter(|printed| !printed.is_empty()) {
            line(String::from_utf8_lossy(printed).into_owned());
        }
    }
    let failed_mark = mark(RED, "  FAILED  ");
    let verdict_mark = if *verdict { mark(GREEN, "       OK ") } else { failed_mark.clone() };
    line(format!("{verdict_mark} {name} ({})", short(duration)));
    if passed.len() == names.len() {
        let count = |wanted: bool| match passed.iter().filter(|passed| **passed == wanted).count() {
            1 => "1 test".to_owned(),
            count => format!("{count} tests"),
        };
        let all = if names.len() == 1 { "test" } else { "tests" };
        line(format!("{frame} {} {all} ran.", names.len()));
        line(format!("{} {}.", mark(GREEN, "  PASSED  "), count(true)));
        if passed.contains(&false) {
            line(format!("{failed_mark} {}, listed below:", count(false)));
            for (name, _) in names.iter().zip(passed).filter(|(_, passed)| !**passed) {
                line(format!("{failed_mark} {name}"));
            }
        }
    }
    text
}

/// A duration in its largest whole unit.
fn short(duration: Duration) -> String {
    match duration.as_nanos() {
        ns @ 0..1_000 => format!("{ns} ns"),
        ns @ 1_000..1_000_000 => format!("{} us", ns / 1_000),
        ns @ 1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        ns => format!("{} s", ns / 1_000_000_000),
    }
}

fn benchmark(names: &[String], index: usize, average_ns: u64, runs: u64) -> String {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let (width, time_width) = (longest.max(NAME_COLUMNS) + 1, TIME_COLUMNS);
    let last = "Iterations";
    let name = names.get(index).map_or("", String::as_str);
    let row = format!("{name:<width$}{average_ns:<time_width$}{runs}\n");
    if index > 0 {
        return row;
    }
    let rule = "-".repeat(width + time_width + last.len());
    format!("{:<width$}{:<time_width$}{last}\n{rule}\n{row}", "Benchmark", "Time(ns)")
}

#[cfg(test)]
mod tests {
    use profiler_model::output::{MapPrint, MapSnapshot, SourceLocation};
    use profiler_model::value::Value;

    use super::*;
    use crate::fixtures::{Names, string};

    fn text(trial: &Trial<'_>, coloured: bool) -> String {
        String::from_utf8(lines(trial, &Names, coloured, false)).expect("text")
    }

    fn printf(text: &str) -> Printed {
        Printed::Text { kind: "printf", bytes: text.into() }
    }

    #[test]
    fn headings_come_first_and_totals_last() {
        let names = ["a".to_owned(), "b".to_owned()];
        let duration = Duration::from_nanos(1500);
        let first = Trial::Test { names: &names, passed: &[true], duration, printed: &[printf("unseen\n")] };
        assert_eq!(text(&first, false), "[==========] Running 2 tests.\n[ RUN      ] a\n[       OK ] a (1 us)\n");
        let second = Trial::Test { names: &names, passed: &[true, false], duration, printed: &[printf("seen\n\n")] };
        assert_eq!(
            text(&second, false),
            "[ RUN      ] b\nseen\n[  FAILED  ] b (1 us)\n[==========] 2 tests ran.\n[  PASSED  ] 1 test.\n\
             [  FAILED  ] 1 test, listed below:\n[  FAILED  ] b\n"
        );
        assert!(text(&first, true).starts_with("\x1b[32m[==========]\x1b[0m Running 2 tests.\n"));
    }

    #[test]
    fn what_a_test_printed_reads_like_the_output_of_a_run() {
        let place = SourceLocation { file: "x.prof".into(), line: 2, column: 3, ..SourceLocation::default() };
        let entries = vec![(Some(string("key")), Value::Int(6))];
        let (name, aggregation, processes) = ("@x".to_owned(), None, Vec::new());
        let printed = [
            printf("a "),
            Printed::Text { kind: "join", bytes: b"b".to_vec() },
            Printed::Value(Value::Uint(5)),
            Printed::Note { kind: "warnf", text: b"c".to_vec(), place: place.clone() },
            Printed::Map {
                map: MapSnapshot { name, keyed: true, aggregation, entries, processes },
                print: MapPrint { top: 1, div: 2, flame: None },
            },
            Printed::HelperFailed { helper: "probe_read".into(), code: -14, words: "Bad address".into(), place },
        ];
        let expected = "a b\n5\nx.prof:2:3: WARNING: c\n@x[key]: 3\nx.prof:2:3: WARNING: Bad address\n\
                        Additional Info - helper: probe_read, retcode: -14\n\n  ~\n";
        assert_eq!(String::from_utf8_lossy(&text_of(&printed, &Names)), expected);
    }

    #[test]
    fn a_long_name_widens_its_column() {
        let names = ["x".repeat(45), "y".to_owned()];
        let row = |index| text(&Trial::Benchmark { names: &names, index, average_ns: 7, runs: 9 }, false);
        let first = row(0);
        let lines: Vec<&str> = first.lines().collect();
        assert_eq!(lines[0].len(), 46 + 15 + 10);
        assert_eq!(lines[1], "-".repeat(71));
        assert_eq!(lines[2], format!("{} 7              9", "x".repeat(45)));
        assert_eq!(row(1), format!("y{}7              9\n", " ".repeat(45)));
    }
}
