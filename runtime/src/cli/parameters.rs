//! The parameters of a script on the command line, and in words.
//!
//! In: what stands behind the script, and what the script takes. Out: values by number and by name, tables for people.
//! Guarantee: an option that neither the command nor the script has is refused with the nearest that one of them has.

use std::path::Path;

use profiler_compiler::check::parameters::{Parameter, Value};
use profiler_compiler::params::{self, Param, Type};
use profiler_compiler::similar;
use profiler_compiler::source::Source;

use super::args::{ScriptArguments, long_options};
use super::built;
use super::engine::{self, Taken};
use super::exit::{Failure, USAGE};
use super::script::{Origin, modules};

/// Tells the values behind a script apart, now that it is known what the script takes.
pub fn settle(arguments: &ScriptArguments, source: &Source) -> Result<ScriptArguments, Failure> {
    let mut settled = arguments.clone();
    // bpftrace's command line has told them apart already.
    if arguments.behind.is_empty() {
        return Ok(settled);
    }
    // What is wrong with the script itself is said when it is compiled.
    let Ok(taken) = engine::taken(source) else { return Ok(settled) };
    (settled.parameters, settled.named) = (Vec::new(), Vec::new());
    let mut words = arguments.behind.iter().peekable();
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
        let is_option = taken.options.iter().any(|option| option.name == name);
        let value = match param {
            Some(param) if value.is_none() && param.ty != Type::Bool => {
                words.next_if(|next| !next.text.starts_with("--")).map(|next| next.text.clone())
            }
            _ => value,
        };
        if param.is_none() && !is_option && name != "help" && !word.is_after_dashes {
            return Err(unknown(name, &taken));
        }
        settled.named.push((name.to_owned(), value));
    }
    Ok(settled)
}

fn unknown(name: &str, taken: &Taken) -> Failure {
    let mut known: Vec<String> =
        taken.params.iter().filter(|param| param.is_public).map(|param| option(&param.name)).collect();
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

/// A parameter's name as an option.
fn option(name: &str) -> String {
    name.replace('_', "-")
}

/// What a script is for and what it takes.
pub fn describe(source: &Source) -> Result<String, Failure> {
    Ok(describe_taken(source, &engine::taken(source)?))
}

/// The same, where it is known what it takes.
pub fn describe_taken(source: &Source, taken: &Taken) -> String {
    let own = source.files().next().map_or("", |(_, range)| &source.text[range.start as usize..range.end as usize]);
    let words = modules::description(own);
    let head = if words.is_empty() { source.name.clone() } else { format!("{}: {words}", source.name) };
    let mut text = String::new();
    if taken.params.iter().any(|param| param.is_public) {
        text.extend([&head, "\n\n", &table(&taken.params)]);
    } else if taken.options.is_empty() {
        let gap = if words.is_empty() { " " } else { "\n\nIt " };
        text.extend([&head, gap, "takes no parameters by name\n"]);
    }
    if !taken.options.is_empty() {
        text.extend([&source.name, ": parameters, to be given behind `--`\n", &options(&taken.options)]);
    }
    text
}

/// The same of a file, or of a module of the standard library; nothing when there is neither.
pub fn describe_topic(topic: &str) -> Result<Option<String>, Failure> {
    if let Some(text) = modules::text(topic) {
        let mut source = Source::new(topic, text);
        modules::resolve(&mut source, Path::new(""))?;
        return Ok(Some(describe(&source)? + &public_names(text)));
    }
    if !Path::new(topic).is_file() {
        return Ok(None);
    }
    let origin = Origin::File(topic.into());
    if let Some(built) = built::open(&origin)? {
        return built.describe().map(Some);
    }
    describe(&origin.load()?).map(Some)
}

/// What a module gives to those who use it.
fn public_names(text: &str) -> String {
    let names = engine::public_names(text);
    if names.is_empty() { String::new() } else { format!("\nIt gives {}\n", names.join(", ")) }
}

/// The modules of the standard library with what they are for.
pub fn list_modules() -> String {
    let width = modules::standard().iter().map(|(path, _)| path.len()).max().unwrap_or(0);
    let line = |(path, text): &(&str, &str)| format!("{path:<width$}  {}\n", modules::description(text));
    modules::standard().iter().map(line).collect()
}

/// Parameters that are declared, one a line.
fn table(params: &[Param]) -> String {
    let row = |param: &Param| {
        let default = param.default.as_ref().map_or_else(|| "required".into(), |value| param.shown(value));
        let repeatable = if param.ty.is_set() && !param.help.contains("repeatable") { " (repeatable)" } else { "" };
        let help = format!("{}{repeatable}", param.help);
        [format!("--{}", option(&param.name)), param.ty.name().into(), default, param.shown_range(), help]
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

/// Parameters that are read with `getopt`, one a line.
fn options(parameters: &[Parameter]) -> String {
    let usage = |parameter: &Parameter| match &parameter.default {
        Value::Bool(_) => format!("--{}", parameter.name),
        Value::Int(_) => format!("--{}=NUMBER", parameter.name),
        Value::Str(_) => format!("--{}=TEXT", parameter.name),
    };
    let default = |parameter: &Parameter| match &parameter.default {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
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
