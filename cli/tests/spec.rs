//! The pages of `spec/`: every script in them is compiled, and run if the kernel allows it.
//!
//! In: fenced blocks. A block "```prof OPTIONS" is a script with options of `profiler run`. The
//! next block states the expected result: "```output" is the exact standard output except for blank
//! lines at both ends; "```output-like" is the same, with `*` for any characters and a line `...`
//! for any lines; every line of "```error" is in the script's diagnostics. Without one of these,
//! the script is only compiled.
//! A script whose probes this kernel lacks (E0410) is left out, unless it expects that diagnostic;
//! then the test prints `PARTLY SKIPPED: reason`.
//! `PROFILER_BLESS=1` rewrites the exact outputs. `PROFILER_ONLY=functions` leaves out the scripts
//! that probe no function of the kernel: a VM runs only what the host's kernel lacks.

#[path = "pages/mod.rs"]
mod pages;
#[path = "patience/mod.rs"]
mod patience;
#[path = "selection/mod.rs"]
mod selection;
#[path = "workload/mod.rs"]
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use profiler_compiler::CATALOGUE;
use profiler_compiler::catalogue::Doc;

use pages::{blocks, pages, spec};
use selection::{has_functions_only, probes_functions};

/// Exit code, standard output and standard error of a profiler command on a script.
fn profiler(command: &str, script: &str, options: &str) -> (i32, String, String) {
    // The shell splits the options, whose arguments may be quoted.
    let line = format!("exec \"$0\" {command} -e \"$1\" {options}");
    let mut shell = Command::new("sh");
    let directory = Path::new(workload::workload()).parent().expect("a directory");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").expect("PATH"));
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_profiler"), script]).env("PATH", path).stdin(Stdio::null());
    let output = shell.output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn line_like(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == line };
    let Some(line) = line.strip_prefix(start) else { return false };
    (0..=line.len()).any(|skip| line.is_char_boundary(skip) && line_like(rest, &line[skip..]))
}

fn like(pattern: &[&str], lines: &[&str]) -> bool {
    match (pattern, lines) {
        ([], lines) => lines.is_empty(),
        (["...", rest @ ..], lines) => (0..=lines.len()).any(|skip| like(rest, &lines[skip..])),
        ([first, pattern @ ..], [line, lines @ ..]) => line_like(first, line) && like(pattern, lines),
        (_, []) => false,
    }
}

/// The failure of a script, as text; `output` receives what it printed.
fn problem(
    script: &str,
    options: &str,
    kind: &str,
    expected: &str,
    output: &mut String,
    can_run: bool,
) -> Option<String> {
    if kind == "error" {
        let (code, _, errors) = profiler("check", script, options);
        let missing = expected.lines().find(|line| !errors.contains(line.trim()));
        return (code == 0 || missing.is_some()).then(|| format!("expected the error\n{expected}found\n{errors}"));
    }
    if kind.is_empty() || !can_run {
        let options = options.split("-c").next().unwrap_or_default();
        let (code, _, errors) = profiler("check", script, options);
        let known = errors.contains("E0331") && options.is_empty();
        return (code != 0 && !known).then_some(errors);
    }
    // Some of the scripts run until they are stopped.
    let run = format!("run -q --duration {:.0}s", 20.0 * patience::slowness() * f64::from(patience::patience()));
    let (_, found, errors) = profiler(&run, script, options);
    let (wanted, got) = (expected.trim_matches('\n'), found.trim_matches('\n'));
    let lines = |text| str::lines(text).collect::<Vec<_>>();
    let fits = if kind == "output" { wanted == got } else { like(&lines(wanted), &lines(got)) };
    *output = format!("{got}\n");
    (!fits || errors.contains("error")).then(|| format!("expected\n{expected}found\n{found}{errors}"))
}

/// What the kernel lacks for a script that is valid elsewhere: the message of E0410.
fn lacking(script: &str, options: &str, expected: &str) -> Option<String> {
    if expected.contains("E0410") || !probes_functions(script) {
        return None;
    }
    let options = options.split("-c").next().unwrap_or_default();
    let (_, _, errors) = profiler("check", script, options);
    errors.lines().find_map(|line| line.strip_prefix("error[E0410]: ")).map(str::to_owned)
}

/// Whether a script iterates over threads or looks one up, and fails because this kernel's BPF
/// programs cannot. Since 6.7 and 6.2 they can.
fn needs_a_walk(script: &str, options: &str) -> bool {
    let looks_up = script.contains("iter:") && script.contains("(comm(");
    if looks_up && profiler("check", script, options).2.contains("error[E0391]: the kernel does not look up names") {
        return true;
    }
    let goes = script.contains("state ") && ["for (", "len("].iter().any(|word| script.contains(word));
    goes && profiler("check", script, options).2.contains("error[E0453]: on this kernel, ")
}

/// The parts of the manual, each a separate test: under emulation every script takes seconds.
const PARTS: [&str; 9] = [
    "errors/E01",
    "errors/E02",
    "errors/E03",
    "errors/",
    "words/aggregations",
    "words/builtins",
    "words/functions",
    "words/probes",
    "",
];

/// The part that a page belongs to: the first one that its path starts with.
fn part_of(page: &Path) -> &'static str {
    let inside = page.strip_prefix(spec()).unwrap_or(page).display().to_string();
    PARTS.into_iter().find(|part| inside.starts_with(part)).unwrap_or_default()
}

/// Runs the scripts of a part, of which there must be at least `at_least`.
fn check_scripts(part: &str, at_least: usize) {
    let can_run = profiler("run", "BEGIN { exit(); }", "").0 == 0;
    if !can_run {
        eprintln!("PARTLY SKIPPED: this machine runs no scripts, so those of the spec are only compiled");
    }
    let (mut all, mut wrong, mut count) = (BTreeMap::new(), Vec::new(), 0);
    pages(&spec(), &mut all);
    all.retain(|path, _| part_of(path) == part);
    for (path, mut page) in all {
        let found = blocks(&page);
        for (index, block) in found.iter().enumerate().rev() {
            let Some(options) = block.info.strip_prefix("prof") else { continue };
            let next =
                found.get(index + 1).filter(|next| ["output", "output-like", "error"].contains(&next.info.as_str()));
            let kind = next.map_or("", |next| next.info.as_str());
            let place = next.map_or(0..0, |next| next.text.clone());
            let mut output = String::new();
            let script = page[block.text.clone()].to_string();
            count += 1;
            if has_functions_only() && !probes_functions(&script) {
                continue;
            }
            if needs_a_walk(&script, options.trim()) {
                continue;
            }
            if let Some(reason) = lacking(&script, options.trim(), &page[place.clone()]) {
                eprintln!(
                    "PARTLY SKIPPED: {}:{}: {reason}",
                    path.file_name().unwrap_or_default().display(),
                    block.line
                );
                continue;
            }
            let problem = problem(&script, options.trim(), kind, &page[place.clone()], &mut output, can_run);
            if problem.is_some() && kind == "output" && std::env::var_os("PROFILER_BLESS").is_some() {
                page.replace_range(place, &output);
                fs::write(&path, &page).expect("the page is written");
            } else if let Some(words) = problem {
                wrong.push(format!("{}:{}: {words}", path.display(), block.line));
            }
        }
    }
    assert!(count >= at_least && wrong.is_empty(), "{count} scripts\n{}", wrong.join("\n"));
}

#[test]
fn scripts_of_aggregations_do_what_their_pages_say() {
    check_scripts("words/aggregations", 10);
}

#[test]
fn scripts_of_syntax_errors_say_what_their_pages_say() {
    check_scripts("errors/E01", 100);
}

#[test]
fn scripts_of_wrong_names_say_what_their_pages_say() {
    check_scripts("errors/E02", 80);
}

#[test]
fn scripts_of_wrong_types_say_what_their_pages_say() {
    check_scripts("errors/E03", 120);
}

#[test]
fn scripts_of_other_errors_say_what_their_pages_say() {
    check_scripts("errors/", 50);
}

#[test]
fn scripts_of_builtins_do_what_their_pages_say() {
    check_scripts("words/builtins", 20);
}

#[test]
fn scripts_of_functions_do_what_their_pages_say() {
    check_scripts("words/functions", 40);
}

#[test]
fn scripts_of_probes_do_what_their_pages_say() {
    check_scripts("words/probes", 10);
}

#[test]
fn scripts_of_the_manual_do_what_its_pages_say() {
    check_scripts("", 30);
}

#[test]
fn every_word_has_its_page_and_every_page_its_word() {
    let mut all = BTreeMap::new();
    pages(&spec().join("words"), &mut all);
    let builtins = CATALOGUE.builtins.iter().map(|word| ("builtins", word.name(), word.doc()));
    let functions = CATALOGUE.functions.iter().map(|word| ("functions", word.name(), word.doc()));
    let aggregations = CATALOGUE.aggregations.iter().map(|word| ("aggregations", word.name(), word.doc()));
    let probes = CATALOGUE.probes.iter().map(|word| ("probes", word.name(), word.doc()));
    let words: Vec<(&str, &str, Doc)> = builtins.chain(functions).chain(aggregations).chain(probes).collect();
    for (kind, name, doc) in &words {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let mut lines = doc.page.lines();
        let heading = lines.next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        assert!(heading.contains(stem), "the heading of {kind}/{name} does not name it: {heading:?}");
        let (empty, sentence) = (lines.next(), lines.next().unwrap_or_default());
        let is_sentence = sentence.ends_with('.') && !sentence.starts_with(char::is_lowercase);
        assert!(empty == Some("") && is_sentence, "{kind}/{name} is not explained in a sentence: {sentence:?}");
        let own = all
            .iter()
            .any(|(path, page)| path.file_stem().is_some_and(|s| s == stem || s == *name) && page == doc.page);
        assert!(own, "{kind}/{name} has another word's page");
    }
    for (path, page) in &all {
        assert!(words.iter().any(|(_, _, doc)| doc.page == page), "{} is the page of no word", path.display());
        assert!(page.contains("```prof"), "{} has no example", path.display());
    }
}
