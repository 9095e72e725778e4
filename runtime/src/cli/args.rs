//! The command line: what may be written, and what it means.
//!
//! In: the process's arguments. Out: a [`Command`], or text to print with an exit code.
//! Guarantee: a file in the place of a command is run (`#!/usr/bin/env profiler`); options stand anywhere before `--`.

mod command;
mod described;
mod notice;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;

use clap::ArgMatches;
use clap_complete::Shell;

use super::engine::{Format, Mode, Stage};
use super::exit::USAGE;
use super::script::Origin;
use described::profiler;

pub use command::{
    Behind, BuildArguments, CheckArguments, Command, DoctorArguments, FormatArguments, ListArguments, RunArguments,
    ScriptArguments,
};
pub use notice::Notice;

/// Reads the command line; the first argument is the program's own name.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, Notice> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if let Some(strange) = arguments.iter().skip(1).find(|argument| argument.to_str().is_none()) {
        return Err(not_text(strange));
    }
    if arguments.get(1).is_some_and(names_a_script) {
        arguments.insert(1, "run".into());
    }
    let (arguments, behind) = super::behind::split(&profiler(), arguments);
    let mut matches = profiler().try_get_matches_from(arguments)?;
    let Some((name, mut matches)) = matches.remove_subcommand() else {
        // Without a terminal nobody is there to type.
        let on_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        return Ok(if on_terminal { Command::Repl } else { Command::Help(None) });
    };
    Ok(match name.as_str() {
        "run" => Command::Run(run_arguments(&mut matches, behind)?),
        "check" => {
            let json = matches.get_flag("json");
            Command::Check(CheckArguments { script: script_arguments(&mut matches, behind)?, json })
        }
        "list" => Command::List(ListArguments {
            pattern: matches.remove_one("pattern"),
            pid: matches.remove_one("pid"),
            verbose: matches.get_flag("verbose"),
        }),
        "build" => {
            let output = matches.remove_one("output");
            Command::Build(BuildArguments { script: script_arguments(&mut matches, behind)?, output })
        }
        "doctor" => Command::Doctor(doctor_arguments(&mut matches, behind)?),
        "repl" => Command::Repl,
        "fmt" => Command::Format(FormatArguments {
            files: matches.remove_many("files").into_iter().flatten().collect(),
            check: matches.get_flag("check"),
        }),
        "lsp" => Command::LanguageServer,
        "explain" => Command::Explain(matches.remove_one("code").unwrap_or_default()),
        "completions" => Command::Completions(matches.remove_one("shell").unwrap_or(Shell::Bash)),
        "man" => Command::Man(matches.remove_one("command")),
        _ => Command::Help(matches.remove_one("topic")),
    })
}

/// Names and programs are text everywhere behind the command line.
fn not_text(argument: &OsString) -> Notice {
    let shown = argument.as_encoded_bytes().escape_ascii();
    let text = format!(
        "error: an argument is not UTF-8: `{shown}`\n  \
         = help: a file of that name can be read from standard input: `profiler run - < FILE`\n"
    );
    Notice { text, code: USAGE }
}

/// Whether the first argument starts a `run` whose word was left out: a script's path, as a `#!` line passes it, or an
/// option of `run`, as bpftrace has it.
fn names_a_script(first: &OsString) -> bool {
    let Some(text) = first.to_str() else { return false };
    let is_option_of_run = ["-e", "-p", "-c"].iter().any(|option| text.starts_with(option));
    let has_suffix = Path::new(text).extension().is_some_and(|suffix| suffix == "prof" || suffix == "bt");
    text == "-" || is_option_of_run || has_suffix || (text.contains('/') && !text.starts_with('-'))
}

/// The whole command line, for those who describe it.
pub fn described() -> clap::Command {
    let mut profiler = profiler();
    profiler.build();
    profiler
}

/// The long options of all commands that take a script.
pub fn long_options() -> Vec<String> {
    let commands = profiler();
    let run = commands.find_subcommand("run").into_iter().flat_map(clap::Command::get_arguments);
    run.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

/// The help of a command, or of the whole; `None` when there is no such command.
pub fn help_text(command: Option<&str>) -> Option<String> {
    let mut profiler = profiler();
    profiler.build();
    let command = match command {
        Some(name) => profiler.find_subcommand_mut(name)?,
        None => &mut profiler,
    };
    Some(command.render_help().to_string())
}

fn script_arguments(matches: &mut ArgMatches, behind: Vec<Behind>) -> Result<ScriptArguments, Notice> {
    let mut words = matches.remove_many::<String>("words").into_iter().flatten();
    let origin = match matches.remove_one::<String>("program") {
        Some(program) => Origin::Inline(program),
        None => Origin::File(words.next().ok_or_else(|| {
            Notice {
                text: "error: no script: name a FILE, `-` for standard input, or give `-e 'PROGRAM'`\n  \
                   = help: profiler run -e 'BEGIN { printf(\"hello\\n\"); exit(); }'\n"
                    .into(),
                code: USAGE,
            }
        })?),
    };
    let (parameters, named) = parameters(behind.iter().map(|word| word.text.clone()));
    Ok(ScriptArguments {
        origin,
        parameters,
        named,
        behind,
        pid: matches.remove_one("pid"),
        allow_unsafe: matches.get_flag("unsafe"),
        report_failures: false,
        no_warnings: false,
        probe_filter: None,
        verbose: matches.get_flag("verbose"),
    })
}

fn doctor_arguments(matches: &mut ArgMatches, behind: Vec<Behind>) -> Result<DoctorArguments, Notice> {
    let names_a_script = matches.contains_id("words") || matches.contains_id("program");
    Ok(DoctorArguments {
        command: matches.remove_one("command"),
        duration: matches.remove_one("duration"),
        json: matches.get_flag("json"),
        script: names_a_script.then(|| script_arguments(matches, behind)).transpose()?,
    })
}

/// Words behind a script: its parameters by number and those by name.
pub fn parameters(words: impl Iterator<Item = String>) -> (Vec<String>, Vec<(String, Option<String>)>) {
    let (mut numbered, mut named) = (Vec::new(), Vec::new());
    for word in words {
        match word.strip_prefix("--").filter(|name| !name.is_empty()) {
            None => numbered.push(word),
            Some(name) => named.push(match name.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (name.to_owned(), None),
            }),
        }
    }
    (numbered, named)
}

fn run_arguments(matches: &mut ArgMatches, behind: Vec<Behind>) -> Result<RunArguments, Notice> {
    let stages = matches.remove_many::<String>("dump").into_iter().flatten();
    Ok(RunArguments {
        command: matches.remove_one("command"),
        output: matches.remove_one("output"),
        format: match matches.remove_one::<String>("format").as_deref() {
            Some("json") => Format::Json,
            Some("csv") => Format::Csv,
            _ => Format::Text,
        },
        quiet: matches.get_flag("quiet"),
        dump: stages.filter_map(|name| Stage::named(&name)).collect(),
        dry_run: matches.get_flag("dry-run"),
        strict: matches.get_flag("strict"),
        stats: matches.get_flag("stats"),
        mode: match (matches.get_flag("test"), matches.get_flag("bench")) {
            (true, _) => Mode::Test,
            (_, true) => Mode::Bench,
            _ => Mode::Trace,
        },
        coloured: super::results_are_coloured(matches.contains_id("output")),
        duration: matches.remove_one("duration"),
        no_progress: matches.get_flag("no-progress"),
        handshake: None,
        script: ScriptArguments {
            probe_filter: matches.remove_one("probe-filter"),
            report_failures: matches.get_flag("warnings"),
            no_warnings: matches.get_flag("no-warnings"),
            ..script_arguments(matches, behind)?
        },
    })
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
