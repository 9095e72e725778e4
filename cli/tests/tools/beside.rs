//! bpftrace's own scripts under bpftrace and under our drop-in at once, on the same events.
//!
//! In: the scripts that bpftrace attaches on a kernel without kprobes: those of 0.17 under 0.17,
//! those of 0.23 and of the current version under the current version; and the acts of
//! tests/tools/table. (threadsnoop of 0.17 looks in libpthread for a function that is in libc by
//! now.)
//! Out: what both print of the act, compared.
//! Guarantee: the act begins after both have attached their probes, and both end after it. Left out
//! are columns with times that each of them measures, and what samples and clocks decide.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::differential::{Ours, current, theirs};
use super::started::Started;
use super::table::{self, Tool, fill};
use super::{are_shown, remove, script, triggered};

/// What is compared of a script besides what it prints at its start.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The lines with a value of the act, without these columns, counted from 0.
    Lines(&'static [usize]),
    /// The entry of a map, with its histogram.
    Entry(&'static str),
    /// Nothing: samples or clocks decide what it prints.
    Start,
}

const SCRIPTS: [(&str, Part); 16] = [
    ("bashreadline", Part::Lines(&[0])),
    ("bitesize", Part::Entry("@[workload]:")),
    ("cpuwalk", Part::Start),
    ("execsnoop", Part::Lines(&[0])),
    ("gethostlatency", Part::Lines(&[0, 3])),
    ("killsnoop", Part::Lines(&[0])),
    ("naptime", Part::Lines(&[0])),
    ("opensnoop", Part::Lines(&[])),
    ("pidpersec", Part::Start),
    ("setuids", Part::Lines(&[0])),
    ("ssllatency", Part::Start),
    ("sslsnoop", Part::Lines(&[0, 3])),
    ("statsnoop", Part::Lines(&[])),
    ("syncsnoop", Part::Lines(&[0])),
    ("syscount", Part::Entry("@process[ping]:")),
    ("writeback", Part::Start),
];

/// What differs for the current version: scripts that need no kprobes there, and a parent's number,
/// which is that of the thread that called fork.
const LATER: [(&str, Part); 6] = [
    ("naptime", Part::Lines(&[0, 1])),
    ("execsnoop", Part::Lines(&[0, 2])),
    ("biolatency", Part::Start),
    ("biosnoop", Part::Start),
    ("runqlat", Part::Start),
    ("runqlen", Part::Start),
];

/// Attempts: workloads of tests that run at the same time have the same name, and what they do
/// while only one of the two traces is counted once. On a busy machine, 0.17 may exit without a
/// message.
const TRIES: u32 = 5;

/// What a tracer printed.
struct Printed {
    shown: String,
    said: String,
}

impl Printed {
    /// The lines before the first event: what `BEGIN` prints.
    fn start(&self, values: &BTreeMap<String, String>) -> Vec<&str> {
        let is_event = |line: &str| line.starts_with(|c: char| c == '@' || c.is_ascii_digit());
        let is_start = |line: &&str| !is_event(line) && !names_a_value(line, values);
        let lines = self.shown.lines().filter(|line| !line.starts_with("Attaching ")).take_while(is_start);
        lines.filter(|line| !line.trim().is_empty()).collect()
    }

    fn part(&self, part: Part, values: &BTreeMap<String, String>) -> Vec<String> {
        match part {
            Part::Lines(times) => {
                let of_act = self.shown.lines().filter(|line| names_a_value(line, values));
                let mut lines: Vec<String> = of_act.map(|line| without(line, times)).collect();
                // Events of several CPUs are printed in any order.
                lines.sort_unstable();
                lines
            }
            Part::Entry(key) => {
                let from = self.shown.lines().skip_while(|line| !line.starts_with(key));
                let rows = from.clone().skip(1).take_while(|line| line.starts_with(['[', '(']));
                from.take(1).chain(rows).map(|line| line.trim_end().to_owned()).collect()
            }
            Part::Start => Vec::new(),
        }
    }
}

/// Whether a line has the id of a process of the act, or a name that only the act has.
fn names_a_value(line: &str, values: &BTreeMap<String, String>) -> bool {
    let known = ["pid", "child", "file"].into_iter().filter_map(|name| values.get(name));
    known.into_iter().any(|value| line.split(|c: char| c.is_whitespace() || c == ',').any(|word| word == value))
}

/// A line with its blanks, but for some columns and the blanks that fill them up.
fn without(line: &str, columns: &[usize]) -> String {
    let mut kept = String::new();
    let mut rest = line.trim_end();
    for column in 0.. {
        let word = rest.trim_start();
        if word.is_empty() {
            break;
        }
        let blanks = &rest[..rest.len() - word.len()];
        let end = word.find(char::is_whitespace).unwrap_or(word.len());
        let is_kept = |column| !columns.contains(&column);
        if is_kept(column) && (column == 0 || is_kept(column - 1)) {
            kept.push_str(blanks);
        }
        kept.push_str(if is_kept(column) { &word[..end] } else { " … " });
        rest = &word[end..];
    }
    kept
}

/// Runs both on one act. `None` if one of them did not start or did not report, or bpftrace did not
/// end.
fn beside(tool: &Tool, commands: [&Path; 2], script: &Path) -> Option<(BTreeMap<String, String>, [Printed; 2])> {
    // Strings have at most 64 bytes in 0.17 by default, and 200 by this variable.
    let start = |tracer| Started::from(Command::new(tracer).arg(script).env("BPFTRACE_STRLEN", "200"));
    let mut started = commands.map(start);
    if !started.iter_mut().all(Started::is_attached) {
        return None;
    }
    let values = triggered(tool);
    let patterns: Vec<String> = tool.shows.iter().map(|pattern| fill(pattern, &values)).collect();
    // Maps are printed at the end.
    if patterns.iter().all(|pattern| !pattern.contains('@')) {
        // 0.17 prints the address of a function if the process ends before it has looked.
        if !started.iter_mut().all(|tracer| tracer.shows(|shown| are_shown(&patterns, shown))) {
            return None;
        }
    }
    // On a busy machine, 0.17 may not end either.
    if !started[0].ends() {
        return None;
    }
    let printed = started.map(|tracer| {
        let (shown, said) = tracer.end();
        Printed { shown, said }
    });
    remove(&values);
    Some((values, printed))
}

#[test]
fn scripts_print_what_they_print_under_bpftrace() {
    let Some(theirs) = theirs() else { return };
    for (name, part) in SCRIPTS {
        expect_the_same(&theirs, table::FIRST, name, part);
    }
}

#[test]
fn later_scripts_print_what_they_print_under_the_current_version() {
    let Some(theirs) = current() else { return };
    let unchanged = SCRIPTS.into_iter().filter(|(name, _)| LATER.iter().all(|(later, _)| later != name));
    for (name, part) in unchanged.chain(LATER) {
        // The kernel's field that runqlen of 0.23 reads has another name since 6.14.
        for version in ["0.23", "0.27"].into_iter().filter(|version| (name, *version) != ("runqlen", "0.23")) {
            expect_the_same(&theirs, version, name, part);
        }
    }
}

fn expect_the_same(theirs: &Path, version: &str, name: &str, part: Part) {
    let (ours, tools) = (Ours::new(), table::tools());
    let path = script(name, version).expect("it is installed with bpftrace");
    let tool = table::of_version(&tools, name, version).expect("it is in the table");
    let mut seen = None;
    let same = (0..TRIES).any(|_| {
        let Some((values, [expected, found])) = beside(tool, [theirs, &ours.path()], &path) else {
            return false;
        };
        let answers = [&expected, &found].map(|it| (it.start(&values).join("\n"), it.part(part, &values)));
        let is_same = answers[0] == answers[1] && (matches!(part, Part::Start) || !answers[0].1.is_empty());
        println!("{name}: {} lines of the act", answers[0].1.len());
        seen = Some(format!("{answers:#?}\n{}", found.said));
        is_same
    });
    assert!(same, "{name}: bpftrace, ours: {}", seen.unwrap_or_else(|| "one of them does not start or report".into()));
}
