//! The pages of `spec/`: every script in them is compiled, and run where the machine allows it.
//!
//! In: fenced blocks. A block "```prof OPTIONS" is a script with options of `profiler run`; the next block says what it must do:
//! "```output" its exact standard output but for blank lines at both ends, "```output-like" the same with `*` for any characters and a line `...` for any lines,
//! "```error" text of which every line is in its diagnostics. With none of these the script is only compiled.
//! A script whose probes this kernel lacks (E0410) is skipped, unless that is what it must be told.
//! `PROFILER_BLESS=1` writes the exact outputs anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use profiler_compiler::CATALOGUE;
use profiler_compiler::words::Doc;

/// A fenced block: its info string and the bytes of its text in the page.
struct Block {
    info: String,
    text: std::ops::Range<usize>,
    line: usize,
}

fn spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec")
}

fn pages(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).expect("the folder of pages").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            pages(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            found.insert(entry.clone(), fs::read_to_string(&entry).expect("a page"));
        }
    }
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut found, mut at, mut open) = (Vec::new(), 0, None);
    for (number, line) in page.split_inclusive('\n').enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            open = match open.take() {
                None => Some((info.trim().to_string(), at + line.len(), number + 1)),
                Some((info, start, line)) => {
                    found.push(Block { info, text: start..at, line });
                    None
                }
            };
        }
        at += line.len();
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// Exit code, standard output and standard error of a command of profiler on a script.
fn profiler(command: &str, script: &str, options: &str) -> (i32, String, String) {
    // The shell splits the options, whose arguments may be quoted.
    let line = format!("exec \"$0\" {command} -e \"$1\" {options}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_profiler"), script]).stdin(Stdio::null());
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

/// What is wrong with a script, in words; `output` receives what it printed.
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
    let (_, found, errors) = profiler("run -q --duration 20s", script, options);
    let (wanted, got) = (expected.trim_matches('\n'), found.trim_matches('\n'));
    let lines = |text| str::lines(text).collect::<Vec<_>>();
    let fits = if kind == "output" { wanted == got } else { like(&lines(wanted), &lines(got)) };
    *output = format!("{got}\n");
    (!fits || errors.contains("error")).then(|| format!("expected\n{expected}found\n{found}{errors}"))
}

/// What the kernel lacks for a script that is right elsewhere: the message of E0410.
fn lacking(script: &str, options: &str, expected: &str) -> Option<String> {
    if expected.contains("E0410")
        || !["kprobe:", "kretprobe:", "fentry:", "fexit:", "fn:"].iter().any(|kind| script.contains(kind))
    {
        return None;
    }
    let options = options.split("-c").next().unwrap_or_default();
    let (_, _, errors) = profiler("check", script, options);
    errors.lines().find_map(|line| line.strip_prefix("error[E0410]: ")).map(str::to_owned)
}

/// Whether a script goes over threads and is told that this kernel's programs cannot. Since 6.7 they can.
fn needs_a_walk(script: &str, options: &str) -> bool {
    let goes = script.contains("state ") && ["for (", "len("].iter().any(|word| script.contains(word));
    goes && profiler("check", script, options).2.contains("error[E0453]: on this kernel, ")
}

#[test]
fn scripts_in_the_pages_do_what_the_pages_say() {
    let can_run = profiler("run", "BEGIN { exit(); }", "").0 == 0;
    if !can_run {
        eprintln!("SKIPPED: this machine lets nobody here run scripts, so those of the spec are only compiled");
    }
    let (mut all, mut wrong, mut count) = (BTreeMap::new(), Vec::new(), 0);
    pages(&spec(), &mut all);
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
            if needs_a_walk(&script, options.trim()) {
                continue;
            }
            if let Some(reason) = lacking(&script, options.trim(), &page[place.clone()]) {
                eprintln!("SKIPPED: {}:{}: {reason}", path.file_name().unwrap_or_default().display(), block.line);
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
    assert!(count > 60 && wrong.is_empty(), "{count} scripts\n{}", wrong.join("\n"));
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
        let mut summary: Vec<char> = doc.summary.chars().collect();
        summary[0] = summary[0].to_ascii_uppercase();
        let head = format!("# {}\n\n{}.\n", doc.signature, summary.iter().collect::<String>());
        assert!(doc.page.starts_with(&head), "the page of {kind}/{name} does not begin with\n{head}");
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
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
