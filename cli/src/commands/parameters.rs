//! Script parameters: parsing them from the command line, and describing them.
//!
//! In: the words after the script, and the parameters that the script declares. Out: positional and
//! named values, tables for display.
//! Guarantee: an option unknown to both command and script is rejected with the most similar known
//! one.

use std::fmt::Write as _;
use std::path::Path;

use profiler_compiler::check::getopt::{Parameter, Value};
use profiler_compiler::params::{self, Param, Type};
use profiler_compiler::similar;
use profiler_compiler::source::Source;

use super::args::{ScriptArguments, ScriptWord, long_options};
use super::built;
use super::costs;
use super::engine::{self, Taken};
use super::exit::{Failure, USAGE};
use super::processes::Processes;
use super::script::{Origin, modules};

/// The value of a parameter of type `pid` that passes all processes.
const ANY: &str = "any";

/// Sorts the words after a script into values and options, using the script's declared parameters.
pub(super) fn settle(arguments: &ScriptArguments, source: &Source) -> Result<ScriptArguments, Failure> {
    // Errors in the script itself are reported when it is compiled.
    settle_with(arguments, || engine::taken(source).ok())
}

/// Like `settle`, with known parameters; without any, the words are left as they are.
pub(super) fn settle_with(
    arguments: &ScriptArguments,
    taken: impl FnOnce() -> Option<Taken>,
) -> Result<ScriptArguments, Failure> {
    let mut settled = arguments.clone();
    // The drop-in's command line has already separated them.
    if arguments.script_words.is_empty() {
        return Ok(settled);
    }
    let Some(taken) = taken() else { return Ok(settled) };
    (settled.parameters, settled.named) = (Vec::new(), Vec::new());
    let mut words = arguments.script_words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.text.strip_prefix("--").filter(|name| !name.is_empty()) else {
            settled.parameters.push(word.text.clone());
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        let param = params::find(&taken.params, name);
        let option = taken.options.iter().find(|option| option.name == name);
        let is_option = option.is_some();
        let is_switch = match (param, option) {
            (Some(param), _) => Some(param.ty == Type::Bool),
            (None, option) => option.map(|option| matches!(option.default, Value::Bool(_))),
        };
        let value = value.or_else(|| {
            // A switch needs no value, so it takes the next word only if that can be nothing else.
            let is_value = |next: &&ScriptWord| match is_switch {
                Some(true) => is_truth(&next.text),
                Some(false) => !next.text.starts_with("--"),
                None => false,
            };
            words.next_if(is_value).map(|next| next.text.clone())
        });
        if param.is_none() && !is_option && name != "help" && !word.is_after_dashes {
            return Err(unknown(name, &taken));
        }
        let value = match (param, value) {
            (Some(param), Some(text)) if param.ty == Type::Pid => Some(pids(name, text, &mut settled.processes)?),
            (_, value) => value,
        };
        settled.named.push((name.to_owned(), value));
    }
    Ok(settled)
}

/// The numbers of processes that are given by number or by name, as for `-p`. What the names stand
/// for is noted.
fn pids(option: &str, text: String, processes: &mut Processes) -> Result<String, Failure> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte.is_ascii_whitespace());
    if is_plain || text == ANY {
        return Ok(text);
    }
    let found = Processes::read(&text)
        .map_err(|words| Failure::new(USAGE, format!("`--{option}` cannot be `{text}`: {words}")))?;
    processes.named.extend(found.named);
    Ok(found.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

/// Whether a word is a boolean value.
fn is_truth(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "true" | "false" | "yes" | "no" | "on" | "off")
}

fn unknown(name: &str, taken: &Taken) -> Failure {
    let mut known: Vec<String> = taken
        .params
        .iter()
        .filter(|param| param.is_public)
        .map(|param| option(shortest(&taken.params, &param.name)))
        .collect();
    known.extend(taken.options.iter().map(|option| option.name.clone()));
    let own = known.len();
    known.extend(long_options());
    let failure = Failure::new(USAGE, format!("neither the command nor the script has an option `--{name}`"));
    match similar::nearest(name, known.iter().map(String::as_str), 1).first() {
        Some(near) => failure.help(format!("did you mean `--{near}`?")),
        None if own == 0 => failure.help("the script takes no parameters by name: `param` declares one"),
        None => failure.help(format!("the script takes `--{}`", known[..own].join("`, `--"))),
    }
}

/// A parameter's name as a command-line option.
fn option(name: &str) -> String {
    name.replace('_', "-")
}

/// Describes a script and its parameters.
pub(super) fn describe(source: &Source) -> Result<String, Failure> {
    Ok(describe_taken(source, &engine::taken(source)?))
}

/// Like `describe`, with known parameters.
pub(super) fn describe_taken(source: &Source, taken: &Taken) -> String {
    let own = source.files().next().map_or("", |(_, range)| &source.text[range.start as usize..range.end as usize]);
    let words = modules::header(own).collect::<Vec<_>>().join("\n");
    let head = if words.is_empty() { source.name.clone() } else { format!("{}: {words}", source.name) };
    let mut text = String::new();
    if taken.params.iter().any(|param| param.is_public) {
        text.extend([&head, "\n\n", &table(&taken.params)]);
    } else if taken.options.is_empty() {
        let gap = if words.is_empty() { " " } else { "\n\nIt " };
        text.extend([&head, gap, "takes no parameters by name\n"]);
    }
    if !taken.options.is_empty() {
        text.extend([&source.name, ": parameters, given after `--`\n", &options(&taken.options)]);
    }
    text
}

/// Describes a file or a standard library module; `None` if there is neither.
pub(super) fn describe_topic(topic: &str) -> Result<Option<String>, Failure> {
    if let Some((path, text)) = modules::named(topic).filter(|_| !Path::new(topic).is_file()) {
        let mut source = if modules::is_recipe(path) {
            Source::new(path, text)
        } else {
            // A module without probes is no script, so it is described as a script that uses it.
            let header: String = modules::header(text).flat_map(|line| ["// ", line, "\n"]).collect();
            Source::new(path, format!("{header}use {path}\nBEGIN {{ }}"))
        };
        modules::resolve(&mut source, Path::new(""))?;
        return Ok(Some(describe(&source)? + &public_names(text)));
    }
    if !Path::new(topic).is_file() {
        return Ok(None);
    }
    let origin = Origin::File(topic.into());
    if let Some(built) = built::open(&origin)? {
        return Ok(Some(built.describe()));
    }
    describe(&origin.load()?).map(Some)
}

/// The public names of a module, for its description.
fn public_names(text: &str) -> String {
    let names = engine::public_names(text);
    if names.is_empty() { String::new() } else { format!("\nIt exports {}\n", names.join(", ")) }
}

/// Lists the standard library modules that match a pattern, with what they are for.
pub(super) fn list_modules(pattern: &str) -> String {
    let width = modules::matching(pattern).map(|(path, _)| path.len()).max().unwrap_or(0);
    modules::matching(pattern).map(|(path, text)| listed(path, text, width)).collect()
}

fn listed(path: &str, text: &str, width: usize) -> String {
    format!("{path:<width$}  {}\n", modules::summary(text))
}

/// Lists the recipes with the questions that they answer, a blank line between shelves. On request
/// with what they cost, and each followed by the examples of its description.
pub(super) fn list_recipes(verbose: bool) -> String {
    let shelf = |path: &'static str| path.split('/').next();
    let width = modules::recipes().map(|(path, _)| path.len()).max().unwrap_or(0);
    let cells = |cells: [String; 2]| format!("{:>12}  {:>9}", cells[0], cells[1]);
    let (mut text, mut previous) = (String::new(), None);
    if verbose {
        let _ = writeln!(text, "{:<width$}  {}  question", "recipe", cells(costs::HEAD.map(String::from)));
    }
    for (path, module) in modules::recipes() {
        if previous.is_some_and(|previous| shelf(previous) != shelf(path)) {
            text.push('\n');
        }
        previous = Some(path);
        if !verbose {
            text += &listed(path, module, width);
            continue;
        }
        let _ = writeln!(text, "{path:<width$}  {}  {}", cells(costs::cells(path)), modules::summary(module));
        let examples = modules::header(module).filter(|line| line.trim_start().starts_with("profiler "));
        text.extend(examples.map(|line| format!("    {}\n", line.trim_start())));
        let others = modules::other_names(path);
        if !others.is_empty() {
            let _ = writeln!(text, "    also called {}", others.join(", "));
        }
        text.extend(costs::places(path).into_iter().map(|place| format!("    {place}\n")));
    }
    text
}

/// The shortest name that selects a parameter: without its module if no other ends so.
fn shortest<'a>(params: &[Param], name: &'a str) -> &'a str {
    let last = name.rsplit('.').next().unwrap_or(name);
    if params::find(params, last).is_some_and(|found| found.name == name) { last } else { name }
}

/// Declared parameters, one per line.
fn table(params: &[Param]) -> String {
    let row = |param: &Param| {
        let default = param.default.as_ref().map_or_else(|| "required".into(), |value| param.shown(value));
        let repeatable = if param.ty.is_set() && !param.help.contains("repeatable") { " (repeatable)" } else { "" };
        let help = format!("{}{repeatable}", param.help);
        [
            format!("--{}", option(shortest(params, &param.name))),
            param.ty.name().into(),
            default,
            param.shown_range(),
            help,
        ]
    };
    let head = ["PARAMETER", "TYPE", "DEFAULT", "RANGE", ""].map(String::from);
    let public = params.iter().filter(|param| param.is_public);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(public.map(row)).collect();
    let is_empty = |column: usize| rows[1..].iter().all(|row| row[column].is_empty());
    let shown: Vec<usize> = (0..5).filter(|column| *column == 4 || !is_empty(*column)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; 5]| {
        let cells: Vec<String> = shown.iter().map(|column| format!("{:<1$}", row[*column], width(*column))).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Parameters read with `getopt`, one per line.
fn options(parameters: &[Parameter]) -> String {
    let usage = |parameter: &Parameter| match &parameter.default {
        Value::Bool(_) => format!("--{}", parameter.name),
        Value::Int(_) | Value::Uint(_) => format!("--{}=NUMBER", parameter.name),
        Value::Str(_) => format!("--{}=TEXT", parameter.name),
    };
    let default = |parameter: &Parameter| match &parameter.default {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Str(text) => format!("\"{}\"", String::from_utf8_lossy(text)),
    };
    let width = parameters.iter().map(|parameter| usage(parameter).len()).max().unwrap_or(0);
    let line = |parameter: &Parameter| {
        let gap = if parameter.description.is_empty() { "" } else { " " };
        let (usage, words, default) = (usage(parameter), &parameter.description, default(parameter));
        format!("{}\n", format!("  {usage:<width$}  {words}{gap}[default: {default}]").trim_end())
    };
    parameters.iter().map(line).collect()
}
