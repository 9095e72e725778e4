//! What bpftrace's documents describe, line by line: whether it works here under the name
//! `bpftrace`.
//!
//! In: `tests/bpftrace/features`, whose head describes its format. Out: every command has the
//! outcome that its row claims, and `spec/bpftrace.md` is made from the rows (`PROFILER_BLESS=1`
//! writes it).
//! Guarantee: each command runs in an empty directory of its own, which is removed. A row that
//! claims a refusal fails as soon as the feature works.

#[path = "patience/mod.rs"]
mod patience;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const FEATURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/bpftrace/features");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/bpftrace.md");
/// How long a command may take on an idle machine, in seconds.
const LIMIT_S: f64 = 30.0;
/// Sections whose commands need probes of kernel functions have it after their title.
const FUNCTIONS: &str = " [functions]";

const HEAD: &str = "# bpftrace's documents, line by line

What bpftrace's three documents describe (the language, the standard library and the man page), and
whether it works with a script that runs under the name `bpftrace`. Each row has a command in
`tests/bpftrace/features`, which a test runs; this page is made from that file.

- **works**: the command prints what the document says.
- **loads**: the script is accepted, and its probes are attached where the machine has them; a test
  cannot produce the events (hardware counters, signals to other programs).
- **differs**: it works, with the difference that the row names.
- **refused**: there is a diagnostic; the row has the reason, or what to use instead.
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Works,
    Loads,
    Differs,
    Refused,
}

impl Claim {
    fn of(mark: &str) -> Option<Claim> {
        Some(match mark {
            "+" => Claim::Works,
            "~" => Claim::Loads,
            "=" => Claim::Differs,
            "-" => Claim::Refused,
            _ => return None,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Claim::Works => "works",
            Claim::Loads => "loads",
            Claim::Differs => "differs",
            Claim::Refused => "refused",
        }
    }
}

#[derive(Debug)]
struct Row {
    line: usize,
    claim: Claim,
    feature: String,
    /// The reason of a refusal, or the difference.
    text: String,
    command: String,
    /// Patterns of lines, in order.
    output: Vec<String>,
}

#[derive(Debug)]
struct Section {
    title: String,
    needs_functions: bool,
    rows: Vec<Row>,
}

fn sections() -> Vec<Section> {
    let file = fs::read_to_string(FEATURES).expect("the rows");
    let mut sections: Vec<Section> = Vec::new();
    for (index, line) in file.lines().enumerate().skip_while(|(_, line)| line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("== ") {
            let needs_functions = title.ends_with(FUNCTIONS);
            let title = title.trim_end_matches(FUNCTIONS).to_owned();
            sections.push(Section { title, needs_functions, rows: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut().filter(|_| !line.is_empty()) else { continue };
        let started = line.split_once(' ').and_then(|(mark, rest)| Some((Claim::of(mark)?, rest)));
        match (started, line.strip_prefix("$ ")) {
            (Some((claim, rest)), None) => section.rows.push(row(index + 1, claim, rest)),
            (None, Some(command)) => command.clone_into(&mut last(section).command),
            // A script of several lines, or a line of the output.
            _ if quotes_are_open(&last(section).command) => {
                let row = last(section);
                row.command = format!("{}\n{line}", row.command);
            }
            _ => last(section).output.push(if line == "|" { String::new() } else { line.to_owned() }),
        }
    }
    sections
}

fn quotes_are_open(command: &str) -> bool {
    command.matches('\'').count() % 2 == 1
}

fn last(section: &mut Section) -> &mut Row {
    section.rows.last_mut().expect("a row before its command")
}

fn row(line: usize, claim: Claim, rest: &str) -> Row {
    let has_text = matches!(claim, Claim::Differs | Claim::Refused);
    let (feature, text) = if has_text { rest.split_once(": ").expect("a reason") } else { (rest, "") };
    Row { line, claim, feature: feature.into(), text: text.into(), command: String::new(), output: Vec::new() }
}

/// An empty directory with a link to the command under bpftrace's name in a second one.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = std::env::temp_dir().join(format!("profiler-features-{}-{number}", std::process::id()));
        fs::create_dir_all(place.join("bin")).expect("a directory");
        fs::create_dir_all(place.join("run")).expect("a directory");
        symlink(env!("CARGO_BIN_EXE_profiler"), place.join("bin/bpftrace")).expect("a link");
        Place(place)
    }

    /// Whether a command succeeds, and what it prints to both streams. Exit code 124: it did not
    /// end.
    fn run(&self, command: &str) -> (bool, String) {
        let path = format!("{}:{}", self.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let limit_s = LIMIT_S * f64::from(patience::patience()) * patience::slowness();
        let mut shell = Command::new("timeout");
        shell.args(["-s", "INT", "-k", "60", &format!("{limit_s:.0}"), "sh", "-c", &format!("({command}) 2>&1")]);
        shell.env("PATH", path).env_remove("PROFILER_BLESS").current_dir(self.0.join("run")).stdin(Stdio::null());
        let output = shell.output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn line_like(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == line };
    let Some(line) = line.strip_prefix(start) else { return false };
    (0..=line.len()).any(|skip| line.is_char_boundary(skip) && line_like(rest, &line[skip..]))
}

/// The first expected line that the output does not have.
fn missing_line<'a>(patterns: &'a [String], output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    patterns.iter().map(String::as_str).find(|pattern| !lines.any(|line| line_like(pattern, line)))
}

/// What is wrong with a row.
fn problem(row: &Row) -> Option<String> {
    let place = Place::new();
    let (succeeds, output) = place.run(&row.command);
    let missing = missing_line(&row.output, &output);
    let fits = succeeds == (row.claim != Claim::Refused) && missing.is_none();
    (!fits).then(|| {
        let missing = missing.map_or_else(String::new, |line| format!("without the line: {line}\n"));
        let Row { line, feature, command, .. } = row;
        let end = if succeeds { "succeeded" } else { "failed" };
        format!("features:{line}: {feature}\n$ {command}\nit {end}\n{missing}{output}")
    })
}

/// Whether scripts with this probe cannot run; prints the reason.
fn skip(probe: &str) -> bool {
    let (can_run, output) = Place::new().run(&format!("bpftrace -q -e '{probe} {{ }} begin {{ exit(); }}'"));
    if !can_run {
        println!("SKIPPED: {}", output.lines().next().unwrap_or_default());
    }
    !can_run
}

/// Runs the rows of the sections that `picks` accepts, of which there must be at least `at_least`.
fn check(at_least: usize, picks: impl Fn(usize, &Section) -> bool) {
    let sections = sections();
    let picked = sections.iter().enumerate().filter(|(index, section)| picks(*index, section));
    let rows: Vec<&Row> = picked.flat_map(|(_, section)| &section.rows).collect();
    assert!(rows.len() >= at_least, "{} rows", rows.len());
    let wrong: Vec<String> = rows.iter().filter_map(|row| problem(row)).collect();
    assert!(wrong.is_empty(), "{} of {} rows are wrong:\n{}", wrong.len(), rows.len(), wrong.join("\n\n"));
}

/// A third of the sections: a test for each, so that they run at the same time.
fn check_third(third: usize) {
    if !skip("interval:s:1") {
        check(20, |index, section| index % 3 == third && !section.needs_functions);
    }
}

#[test]
fn features_of_the_first_third() {
    check_third(0);
}

#[test]
fn features_of_the_second_third() {
    check_third(1);
}

#[test]
fn features_of_the_last_third() {
    check_third(2);
}

#[test]
fn features_of_functions() {
    if !skip("kprobe:vfs_read") {
        check(10, |_, section| section.needs_functions);
    }
}

/// The page that the rows make.
fn page(sections: &[Section]) -> String {
    let count = |claim| sections.iter().flat_map(|section| &section.rows).filter(|row| row.claim == claim).count();
    let total: usize = sections.iter().map(|section| section.rows.len()).sum();
    let [works, loads, differs, refused] = [Claim::Works, Claim::Loads, Claim::Differs, Claim::Refused].map(count);
    let mut page =
        format!("{HEAD}\nOf {total} rows, {works} work, {loads} load, {differs} differ and {refused} are refused.\n");
    for section in sections {
        let _ = write!(page, "\n## {}\n\n| feature | | |\n|---|---|---|\n", section.title);
        for Row { claim, feature, text, .. } in &section.rows {
            let cell = |text: &str| text.replace('|', "\\|");
            let _ = writeln!(page, "| {} | {} | {} |", cell(feature), claim.word(), cell(text));
        }
    }
    page
}

#[test]
fn the_page_is_made_from_the_rows() {
    let made = page(&sections());
    if std::env::var_os("PROFILER_BLESS").is_some() {
        fs::write(Path::new(PAGE), &made).expect("the page is written");
    }
    let found = fs::read_to_string(PAGE).unwrap_or_default();
    assert!(found == made, "spec/bpftrace.md differs from tests/bpftrace/features; PROFILER_BLESS=1 writes it");
}

/// A row without a command, or one whose output is not compared, would prove nothing.
#[test]
fn every_row_has_one_command() {
    for row in sections().iter().flat_map(|section| &section.rows) {
        let has_one = row.command.contains("bpftrace") && !quotes_are_open(&row.command);
        assert!(has_one, "features:{}: {}", row.line, row.command);
        assert!(row.claim != Claim::Works || !row.output.is_empty(), "features:{}: no output to compare", row.line);
    }
}
