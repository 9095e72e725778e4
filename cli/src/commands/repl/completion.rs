//! Tab completion at the prompt.
//!
//! In: a line, a cursor, the shell with its programs. Out: candidates, and where they start.
//! Guarantee: every input has an answer; a candidate is never identical to the text already there.

use std::fs;
use std::ops::Range;

use crate::complete::declared::{self, first_line};
use crate::complete::{Candidate, Completion, Known, complete};
use crate::repl::input::COMMANDS;
use profiler_compiler::CATALOGUE;
use profiler_runtime::host::Host;

use super::super::args::run_options;
use super::super::script::modules;
use super::program;
use super::recipe;
use super::shell::Shell;
use crate::commands::args::choices::Stage;

/// Clauses of a view that can follow a map.
const OF_VIEWS: [(&str, &str); 4] = [
    ("show", "columns: show comm, count, p99"),
    ("sort", "order of rows: sort p99 desc"),
    ("top", "number of rows: top 5"),
    ("where", "filter of rows: where count > 10"),
];

/// Candidates at a cursor.
pub(super) fn at(shell: &Shell, host: &Host, line: &str, cursor: usize) -> Completion {
    let Some(typed) = line.get(..cursor) else { return Completion::default() };
    let mut found =
        if typed.starts_with(':') { command(shell, host, line, typed) } else { script(shell, host, line, cursor) };
    let there = typed.get(found.start..).unwrap_or_default();
    found.candidates.retain(|candidate| candidate.text != there);
    found
}

/// Completes a program, an expression, a map with view clauses, or a recipe.
fn script(shell: &Shell, host: &Host, line: &str, cursor: usize) -> Completion {
    let typed = &line[..cursor];
    let recipes = match typed.split_once(char::is_whitespace) {
        Some((name, rest)) if recipe::is_meant(name) => return of_recipe(name, rest, cursor - rest.len()),
        None if !typed.is_empty() => beginning(0, typed, recipes()),
        _ => Completion::default(),
    };
    if typed.contains('/') && !recipes.candidates.is_empty() {
        return recipes;
    }
    let mut found = program_or_map(shell, host, line, cursor);
    if !recipes.candidates.is_empty() {
        found.candidates.extend(recipes.candidates);
        return beginning(0, typed, found.candidates);
    }
    found
}

fn program_or_map(shell: &Shell, host: &Host, line: &str, cursor: usize) -> Completion {
    let typed = &line[..cursor];
    let maps = shell.maps();
    let is_map = |text: &str| maps.iter().any(|map| map == text);
    match typed.rsplit_once(' ') {
        None if typed.starts_with('@') && !typed.contains('[') => return beginning(0, typed, plain(maps)),
        Some((ahead, word)) if ahead.split(' ').next().is_some_and(is_map) && !ahead.contains('=') => {
            let words = OF_VIEWS.iter().map(|(word, about)| candidate(format!("{word} "), *about));
            return beginning(cursor - word.len(), word, words.collect());
        }
        _ => {}
    }
    let found = of_language(shell, host, line, cursor);
    // Text after a probe kind is not an expression.
    let is_probe = typed.split_once(':').is_some_and(|(kind, _)| kind.chars().all(char::is_alphanumeric));
    if !found.candidates.is_empty() || is_probe || typed.contains('{') {
        return found;
    }
    complete_after(shell, host, "BEGIN { ", line, 0..cursor)
}

fn of_language(shell: &Shell, host: &Host, line: &str, cursor: usize) -> Completion {
    let (maps, modules) = (shell.maps(), modules::standard());
    let of_texts = Known { modules, ..Known::default() };
    let params: Vec<Candidate> =
        shell.programs().iter().flat_map(|(_, text)| declared::params(text, of_texts)).collect();
    complete(line, cursor, host, Known { maps: &maps, params: &params, modules })
}

/// Completes the part of the line from the start of `typed` as if it followed `ahead`; `typed` ends
/// at the cursor.
fn complete_after(shell: &Shell, host: &Host, ahead: &str, line: &str, typed: Range<usize>) -> Completion {
    let text = format!("{ahead}{}", &line[typed.start..]);
    let mut found = of_language(shell, host, &text, typed.len() + ahead.len());
    found.start = (found.start + typed.start).saturating_sub(ahead.len());
    found
}

/// Completes a colon command and its argument.
fn command(shell: &Shell, host: &Host, line: &str, typed: &str) -> Completion {
    let Some((word, rest)) = typed.split_once(' ') else {
        let known = COMMANDS.iter().map(|(name, usage, about)| {
            let space = if usage.contains(' ') { " " } else { "" };
            candidate(format!(":{name}{space}"), *about)
        });
        return beginning(0, typed, known.collect());
    };
    let start = typed.len() - rest.len();
    let numbers = || shell.programs().into_iter().map(|(number, text)| candidate(number.to_string(), one_line(&text)));
    match word {
        ":load" => load(rest, start),
        ":save" => beginning(start, rest, files(rest)),
        ":probe" => complete_after(shell, host, "", line, start..typed.len()),
        ":type" => match program::probe_ahead(rest) {
            Some((probe, expression)) => {
                let start = typed.len() - expression.len();
                complete_after(shell, host, &format!("{probe} {{ "), line, start..typed.len())
            }
            None => {
                let mut found = complete_after(shell, host, "BEGIN { ", line, start..typed.len());
                let probes = complete_after(shell, host, "", line, start..typed.len());
                if found.candidates.is_empty() || found.start == probes.start {
                    found.start = probes.start;
                    found.candidates.extend(probes.candidates);
                }
                found
            }
        },
        ":edit" => match rest.split_once(' ') {
            Some((_, program)) => complete_after(shell, host, "", line, typed.len() - program.len()..typed.len()),
            None => beginning(start, rest, numbers().collect()),
        },
        ":stop" => beginning(start, rest, numbers().chain([candidate("all", "")]).collect()),
        ":clear" => beginning(start, rest, plain(shell.maps())),
        ":watch" => beginning(start, rest, plain(shell.maps().into_iter().chain(["off".to_owned()]))),
        ":dump" => match rest.split_once(' ') {
            Some((_, number)) => beginning(typed.len() - number.len(), number, numbers().collect()),
            None => beginning(start, rest, Stage::NAMES.iter().map(|name| candidate(*name, "")).collect()),
        },
        ":help" => beginning(start, rest, topics()),
        _ => Completion::default(),
    }
}

/// Completes a script or a recipe, and then its options.
fn load(rest: &str, start: usize) -> Completion {
    if let Some((path, _)) = rest.split_once(" --") {
        let at = rest.rfind(' ').map_or(0, |at| at + 1);
        if !rest[at..].starts_with('-') {
            return Completion::default();
        }
        return beginning(start + at, &rest[at..], parameters(path.trim()));
    }
    beginning(start, rest, recipes().into_iter().chain(files(rest)).collect())
}

/// Completes the options of a recipe: its own, and those of `run`.
fn of_recipe(name: &str, rest: &str, start: usize) -> Completion {
    let at = rest.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, word) = rest.split_at(at);
    let is_value = before.split_whitespace().next_back().is_some_and(|last| last.starts_with('-'));
    if !word.starts_with('-') && (is_value || !word.is_empty()) {
        return Completion::default();
    }
    let of_run = run_options().into_iter().map(|(option, about)| candidate(option, about));
    beginning(start + at, word, parameters(name).into_iter().chain(of_run).collect())
}

/// Recipes, by their paths and by the names of other tools.
fn recipes() -> Vec<Candidate> {
    let names = |path| [path].into_iter().chain(modules::other_names(path));
    let each = |(path, text): &(&'static str, &'static str)| {
        let about = first_line(text);
        names(*path).map(move |name| candidate(name, about)).collect::<Vec<_>>()
    };
    modules::recipes().flat_map(each).collect()
}

/// The parameters of a script or a recipe, as options.
fn parameters(path: &str) -> Vec<Candidate> {
    let text = program::read(path).unwrap_or_default();
    let known = Known { modules: modules::standard(), ..Known::default() };
    options(&declared::params(&text, known))
}

/// Parameters as options; a module's has its short name if no other ends so.
fn options(params: &[Candidate]) -> Vec<Candidate> {
    let full = |param: &Candidate| param.text.trim_start_matches('$').replace('_', "-");
    let last = |param: &Candidate| full(param).rsplit('.').next().map(str::to_owned);
    let option = |param: &Candidate| {
        let is_unique = params.iter().filter(|other| last(other) == last(param)).count() == 1;
        let name = last(param).filter(|_| is_unique).unwrap_or_else(|| full(param));
        candidate(format!("--{name} "), param.about.clone())
    };
    params.iter().map(option).collect()
}

/// Files and directories that begin with the typed text.
fn files(typed: &str) -> Vec<Candidate> {
    let (directory, name) =
        typed.rsplit_once('/').map_or(("", typed), |(directory, name)| (&typed[..=directory.len()], name));
    let entries = fs::read_dir(if directory.is_empty() { "." } else { directory }).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path().is_dir())));
    let shown = names.filter(|(file, _)| name.starts_with('.') || !file.starts_with('.'));
    shown
        .map(|(file, is_directory)| candidate(format!("{directory}{file}{}", if is_directory { "/" } else { "" }), ""))
        .collect()
}

/// Words that `:help` explains.
fn topics() -> Vec<Candidate> {
    let builtins = CATALOGUE.builtins.iter().map(|word| (word.name(), word.doc()));
    let functions = CATALOGUE.functions.iter().map(|word| (word.name(), word.doc()));
    let aggregations = CATALOGUE.aggregations.iter().map(|word| (word.name(), word.doc()));
    let probes = CATALOGUE.probes.iter().map(|word| (word.name(), word.doc()));
    let words = builtins.chain(functions).chain(aggregations).chain(probes);
    words.map(|(name, doc)| candidate(name, doc.summary())).collect()
}

fn beginning(start: usize, typed: &str, mut candidates: Vec<Candidate>) -> Completion {
    candidates.retain(|found| found.text.starts_with(typed));
    candidates.sort();
    candidates.dedup_by(|a, b| a.text == b.text);
    Completion { start, candidates }
}

fn plain(texts: impl IntoIterator<Item = String>) -> Vec<Candidate> {
    texts.into_iter().map(|text| candidate(text, "")).collect()
}

fn candidate(text: impl Into<String>, about: impl Into<String>) -> Candidate {
    Candidate { text: text.into(), about: about.into() }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
