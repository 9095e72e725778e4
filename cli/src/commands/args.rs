//! Command-line parsing.
//!
//! In: the arguments of the process. Out: a [`Command`], or text to print with an exit code.
//! Guarantee: a file in place of a subcommand is run (`#!/usr/bin/env profiler`); options are
//! accepted anywhere before `--`.

pub(super) mod choices;
mod command;
mod described;
mod notice;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;

use clap::ArgMatches;
use clap_complete::Shell;

use super::exit::USAGE;
use super::run_as::RunAs;
use super::script::{Headers, Origin, modules};
use crate::commands::args::choices::{Format, Stage};
use described::profiler;
use profiler_compiler::similar;
use profiler_runtime::session::Mode;

pub(super) use command::{
    BuildArguments, CheckArguments, Command, DoctorArguments, FlameArguments, FormatArguments, ListArguments,
    RunArguments, ScriptArguments, ScriptWord, StackFiles, traceable_functions,
};
pub(super) use notice::Notice;

/// Parses the command line; the first argument is the program's own name.
pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, Notice> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if let Some(strange) = arguments.iter().skip(1).find(|argument| argument.to_str().is_none()) {
        return Err(not_text(strange));
    }
    if arguments.get(1).is_some_and(names_a_script) {
        arguments.insert(1, "run".into());
    }
    if let Some(mistyped) = arguments.get(1).and_then(|first| first.to_str()).and_then(mistyped_recipe) {
        return Err(mistyped);
    }
    let (arguments, script_words) = super::script_arguments::split(&profiler(), arguments);
    let mut matches = profiler().try_get_matches_from(arguments)?;
    if matches.get_flag("licenses") {
        return Ok(Command::Licenses);
    }
    let Some((name, mut matches)) = matches.remove_subcommand() else {
        // Without a terminal there is no user to type.
        let on_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        return Ok(if on_terminal { Command::Repl } else { Command::Help(None) });
    };
    Ok(match name.as_str() {
        "run" => Command::Run(Box::new(run_arguments(&mut matches, script_words)?)),
        "check" => {
            let json = matches.get_flag("json");
            Command::Check(CheckArguments { script: script_arguments(&mut matches, script_words)?, json })
        }
        "list" => Command::List(ListArguments {
            pattern: matches.remove_one("pattern"),
            pid: matches.remove_one("pid"),
            verbose: matches.get_flag("verbose"),
        }),
        "build" => {
            let output = matches.remove_one("output");
            Command::Build(BuildArguments { script: script_arguments(&mut matches, script_words)?, output })
        }
        "doctor" => Command::Doctor(doctor_arguments(&mut matches, script_words)?),
        "repl" => Command::Repl,
        "fmt" => Command::Format(FormatArguments {
            files: matches.remove_many("files").into_iter().flatten().collect(),
            check: matches.get_flag("check"),
        }),
        "flame" => Command::Flame(flame_arguments(&mut matches)),
        "lsp" => Command::LanguageServer,
        "cat" => Command::Cat(matches.remove_one("recipe").unwrap_or_default()),
        "explain" => Command::Explain(matches.remove_one("code").unwrap_or_default()),
        "completions" => Command::Completions(matches.remove_one("shell").unwrap_or(Shell::Bash)),
        "man" => Command::Man(matches.remove_one("command")),
        _ => Command::Help(matches.remove_one("topic")),
    })
}

/// The error for an argument that is not UTF-8: names and programs are text everywhere after the
/// command line.
fn not_text(argument: &OsString) -> Notice {
    let shown = argument.as_encoded_bytes().escape_ascii();
    let text = format!(
        "error: an argument is not UTF-8: `{shown}`\n  \
         = help: a file of that name can be read from standard input: `profiler run - < FILE`\n"
    );
    Notice { text, code: USAGE }
}

/// Whether the first argument starts an implicit `run`: a script's path, as a `#!` line passes it,
/// a recipe, or an option that the command itself does not have, as users of bpftrace write it (`-q
/// -e …`).
fn names_a_script(first: &OsString) -> bool {
    let Some(text) = first.to_str() else { return false };
    let own_options = ["-h", "--help", "-V", "--version", "--licenses", "--"];
    let is_option_of_run = text.len() > 1 && text.starts_with('-') && !own_options.contains(&text);
    let has_suffix = Path::new(text).extension().is_some_and(|suffix| suffix == "prof" || suffix == "bt");
    let is_recipe = || modules::named(text).is_some() && profiler().find_subcommand(text).is_none();
    // A program without `-e`: the error about the missing file says so.
    let is_program = text.contains('{');
    is_program
        || text == "-"
        || is_option_of_run
        || has_suffix
        || (text.contains('/') && !text.starts_with('-'))
        || is_recipe()
}

/// The error for a first argument that is no command and resembles a recipe, but no command.
fn mistyped_recipe(first: &str) -> Option<Notice> {
    let profiler = profiler();
    let commands: Vec<&str> = profiler.get_subcommands().map(clap::Command::get_name).collect();
    let is_other = first.starts_with('-') || commands.contains(&first);
    if is_other || !similar::nearest(first, commands, 1).is_empty() {
        return None;
    }
    modules::nearest(first)?;
    let failure = modules::missing("command and no recipe", first);
    Some(Notice { text: failure.render(super::colours::look()), code: failure.code() })
}

/// The whole command line as clap commands, for help, manual pages and completions.
pub(super) fn described() -> clap::Command {
    let mut profiler = profiler();
    profiler.build();
    profiler
}

/// The long options of all commands that take a script.
pub(super) fn long_options() -> Vec<String> {
    let commands = profiler();
    let run = commands.find_subcommand("run").into_iter().flat_map(clap::Command::get_arguments);
    run.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

/// The long options of `run`, as one types them, with what they are for.
pub(super) fn run_options() -> Vec<(String, String)> {
    let commands = profiler();
    let run = commands.find_subcommand("run").into_iter().flat_map(clap::Command::get_arguments);
    let option = |argument: &clap::Arg| {
        let gap = if argument.get_action().takes_values() { " " } else { "" };
        let about = argument.get_help().map_or_else(String::new, ToString::to_string);
        // It may have lines of its own.
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        Some((format!("--{}{gap}", argument.get_long()?), about))
    };
    run.filter_map(option).collect()
}

/// The help of a command, or of the whole program; `None` if there is no such command.
pub(super) fn help_text(command: Option<&str>) -> Option<String> {
    let mut profiler = profiler();
    profiler.build();
    let command = match command {
        Some(name) => profiler.find_subcommand_mut(name)?,
        None => &mut profiler,
    };
    Some(command.render_help().to_string())
}

fn script_arguments(matches: &mut ArgMatches, script_words: Vec<ScriptWord>) -> Result<ScriptArguments, Notice> {
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
    let (parameters, named) = parameters(script_words.iter().map(|word| word.text.clone()));
    Ok(ScriptArguments {
        origin,
        headers: Headers::default(),
        parameters,
        named,
        script_words,
        processes: matches.remove_one("pid").unwrap_or_default(),
        allow_unsafe: matches.get_flag("unsafe"),
        report_failures: false,
        no_warnings: false,
        probe_filter: None,
        traceable: None,
        verbose: matches.get_flag("verbose"),
        is_bpftrace: false,
        hands_over: false,
    })
}

fn doctor_arguments(matches: &mut ArgMatches, script_words: Vec<ScriptWord>) -> Result<DoctorArguments, Notice> {
    let names_a_script = matches.contains_id("words") || matches.contains_id("program");
    Ok(DoctorArguments {
        command: matches.remove_one("command"),
        run_as: RunAs::of_option(matches.remove_one("run-as")),
        duration: matches.remove_one("duration"),
        json: matches.get_flag("json"),
        script: names_a_script.then(|| script_arguments(matches, script_words)).transpose()?,
    })
}

/// Sorts the words after a script into positional and named parameters.
pub(super) fn parameters(words: impl Iterator<Item = String>) -> (Vec<String>, Vec<(String, Option<String>)>) {
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

fn flame_arguments(matches: &mut ArgMatches) -> FlameArguments {
    let difference = matches.remove_subcommand();
    let (is_difference, mut matches) = match difference {
        Some((_, matches)) => (true, matches),
        None => (false, std::mem::take(matches)),
    };
    let names: &[&str] = if is_difference { &["before", "after"] } else { &["file"] };
    FlameArguments {
        files: names.iter().filter_map(|name| matches.remove_one(name)).collect(),
        is_reversed: is_difference && matches.get_flag("reverse"),
        is_icicle: !is_difference && matches.get_flag("icicle"),
        is_busy: matches.get_flag("busy"),
        output: matches.remove_one("output"),
    }
}

fn stack_files(matches: &mut ArgMatches) -> StackFiles {
    StackFiles {
        flame: matches.remove_one("flame"),
        icicle: matches.get_flag("icicle"),
        folded: matches.remove_one("folded"),
        pprof: matches.remove_one("pprof"),
        speedscope: matches.remove_one("speedscope"),
        firefox: matches.remove_one("firefox"),
        per_thread: matches.remove_one("per-thread"),
        busy: matches.get_flag("busy"),
    }
}

fn run_arguments(matches: &mut ArgMatches, script_words: Vec<ScriptWord>) -> Result<RunArguments, Notice> {
    let stages = matches.remove_many::<String>("dump").into_iter().flatten();
    Ok(RunArguments {
        rows_apart: false,
        stacks: stack_files(matches),
        command: matches.remove_one("command"),
        run_as: RunAs::of_option(matches.remove_one("run-as")),
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
        coloured: super::colours::results_are_coloured(matches.contains_id("output")),
        duration: matches.remove_one("duration"),
        no_progress: matches.get_flag("no-progress"),
        handshake: None,
        script: ScriptArguments {
            probe_filter: matches.remove_one("probe-filter"),
            report_failures: matches.get_flag("warnings"),
            no_warnings: matches.get_flag("no-warnings"),
            ..script_arguments(matches, script_words)?
        },
    })
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
