//! The command line: what may be written, and what it means.
//!
//! In: the process's arguments. Out: a [`Command`], or text to print with an exit code.
//! Guarantee: a file in the place of a command is run (`#!/usr/bin/env profiler`); options stand anywhere before `--`.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write};
use std::path::Path;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, ValueHint, value_parser};
use clap_complete::Shell;

use super::engine::{Format, Mode, Stage};
use super::exit::{MISTAKE, OK, USAGE};
use super::help;
use super::script::Origin;

/// What to do.
#[derive(Debug)]
pub enum Command {
    /// Compile, load, attach, collect, print.
    Run(RunArguments),
    /// Compile only, and say what is wrong.
    Check(CheckArguments),
    /// Show what can be probed.
    List(ListArguments),
    /// Write the object file.
    Build(BuildArguments),
    /// Say what this kernel and this user's rights allow.
    Doctor {
        /// As a JSON document.
        json: bool,
    },
    /// The prompt.
    Repl,
    /// Give scripts their canonical form.
    Format(FormatArguments),
    /// Serve an editor.
    LanguageServer,
    /// Explain a diagnostic.
    Explain(String),
    /// Write a shell's completions.
    Completions(Shell),
    /// Write the manual page, or that of a command.
    Man(Option<String>),
    /// Explain a command or a word.
    Help(Option<String>),
}

/// A script and what it depends on.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct ScriptArguments {
    /// Where it is.
    pub origin: Origin,
    /// `$1`, `$2`, ….
    pub parameters: Vec<String>,
    /// `--name=value`, `--name value`.
    pub named: Vec<(String, Option<String>)>,
    /// What stands behind the script, from which both are told once the script is known ([`super::parameters::settle`]).
    pub behind: Vec<Behind>,
    /// The process of `-p`.
    pub pid: Option<u32>,
    /// `--unsafe`.
    pub allow_unsafe: bool,
    /// `-k`: report reads that fail.
    pub report_failures: bool,
    /// No warnings, neither the compiler's nor the script's.
    pub no_warnings: bool,
    /// `--probe-filter`.
    pub probe_filter: Option<String>,
    /// `-v`.
    pub verbose: bool,
}

impl ScriptArguments {
    /// A script, and nothing else said of it.
    pub fn new(origin: Origin) -> ScriptArguments {
        ScriptArguments {
            origin,
            parameters: Vec::new(),
            named: Vec::new(),
            behind: Vec::new(),
            pid: None,
            allow_unsafe: false,
            report_failures: false,
            no_warnings: false,
            probe_filter: None,
            verbose: false,
        }
    }
}

/// A word behind the script that is no option of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    /// The word.
    pub text: String,
    /// Whether `--` stands before it.
    pub is_after_dashes: bool,
}

/// Arguments of `run`.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct RunArguments {
    /// The script.
    pub script: ScriptArguments,
    /// The command of `-c`.
    pub command: Option<String>,
    /// The file of `-o`.
    pub output: Option<String>,
    /// Text or JSON.
    pub format: Format,
    /// No line about attached probes.
    pub quiet: bool,
    /// The stages to print instead of running.
    pub dump: Vec<Stage>,
    /// Stop when all probes are attached.
    pub dry_run: bool,
    /// Which probes run.
    pub mode: Mode,
    /// Whether results of tests are coloured.
    pub coloured: bool,
    /// Any loss is an error.
    pub strict: bool,
    /// Say what the probes cost.
    pub stats: bool,
    /// End after this long.
    pub duration: Option<Duration>,
    /// A line for standard output that says that all probes are attached.
    pub handshake: Option<&'static str>,
}

/// Arguments of `list`.
#[derive(Debug)]
pub struct ListArguments {
    /// A probe with `*`, or nothing for all.
    pub pattern: Option<String>,
    /// Whose files are meant where the pattern names none.
    pub pid: Option<u32>,
    /// With the names and types of arguments.
    pub verbose: bool,
}

/// Arguments of `build`.
#[derive(Debug)]
pub struct BuildArguments {
    /// The script.
    pub script: ScriptArguments,
    /// The object file.
    pub output: Option<String>,
}

/// Arguments of `check`.
#[derive(Debug)]
pub struct CheckArguments {
    /// The script.
    pub script: ScriptArguments,
    /// As a JSON document.
    pub json: bool,
}

/// Arguments of `fmt`.
#[derive(Debug)]
pub struct FormatArguments {
    /// The scripts; `-` is standard input.
    pub files: Vec<String>,
    /// Only say which ones would change.
    pub check: bool,
}

/// What to print when there is nothing to run.
#[derive(Debug)]
pub struct Notice {
    text: String,
    code: u8,
}

impl Notice {
    /// What it says.
    #[cfg(test)]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A complaint about the command line, with bpftrace's exit code for one.
    pub fn mistake(text: impl Into<String>) -> Notice {
        Notice { text: text.into(), code: MISTAKE }
    }

    /// Prints it: help to standard output, complaints to standard error. Returns the exit code.
    pub fn print(&self) -> u8 {
        let written = match self.code {
            OK => std::io::stdout().write_all(self.text.as_bytes()),
            _ => std::io::stderr().write_all(self.text.as_bytes()),
        };
        match written {
            // A reader that went away has seen enough.
            Err(error) if self.code == OK && error.kind() != std::io::ErrorKind::BrokenPipe => MISTAKE,
            _ => self.code,
        }
    }
}

impl From<clap::Error> for Notice {
    fn from(error: clap::Error) -> Notice {
        Notice { text: error.to_string(), code: if error.use_stderr() { USAGE } else { OK } }
    }
}

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
        "doctor" => Command::Doctor { json: matches.get_flag("json") },
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

fn profiler() -> clap::Command {
    let profiler = clap::Command::new("profiler")
        .version(env!("CARGO_PKG_VERSION"))
        .about(help::ABOUT)
        .after_help(help::OVERVIEW)
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(Arg::new("help").short('h').long("help").help("Explain").action(ArgAction::HelpShort).global(true))
        .arg(Arg::new("version").short('V').long("version").help("Show the version").action(ArgAction::Version))
        .arg_required_else_help(false)
        .max_term_width(100)
        .subcommand(
            with_script(clap::Command::new("run").about("Runs a script").after_help(help::RUN))
                .arg(
                    option("command", 'c', "CMD", "Start CMD with the probes attached, and end with it")
                        .conflicts_with("pid"),
                )
                .arg(option("output", 'o', "FILE", "Write results to FILE").long("output"))
                .arg(
                    option("format", 'f', "FORMAT", "How results are written")
                        .long("format")
                        .value_parser(["text", "json", "csv"])
                        .default_value("text"),
                )
                .arg(flag("quiet", "Print results only").short('q').long("quiet").conflicts_with("verbose"))
                .arg(
                    option("dump", 'd', "STAGE", "Print what the compiler makes of it, and do not run")
                        .value_parser(Stage::NAMES)
                        .value_delimiter(',')
                        .action(ArgAction::Append),
                )
                .arg(flag("dry-run", "Attach all probes, then end").long("dry-run"))
                .arg(flag("test", "Run the script's `test:NAME` probes only").long("test").conflicts_with("command"))
                .arg(
                    flag("bench", "Run the script's `bench:NAME` probes only")
                        .long("bench")
                        .conflicts_with_all(["command", "test"]),
                )
                .arg(flag("warnings", "Report reads of memory that fail, and missing keys").short('k').long("warnings"))
                .arg(flag("no-warnings", "Print no warnings").long("no-warnings").conflicts_with("warnings"))
                .arg(flag("strict", "End with code 4 when anything was lost").long("strict"))
                .arg(flag("stats", "Say what the probes cost, and what is missing").long("stats"))
                .arg(
                    Arg::new("probe-filter")
                        .long("probe-filter")
                        .value_name("REGEX")
                        .help("Only probes whose names match"),
                )
                .arg(
                    Arg::new("duration")
                        .long("duration")
                        .value_name("TIME")
                        .help("End after TIME: 500ms, 30s, 5m, 1h")
                        .value_parser(duration),
                ),
        )
        .subcommand(
            with_script(clap::Command::new("check").about("Says what is wrong with a script").after_help(help::CHECK))
                .arg(flag("json", "As a JSON document on standard output, for editors").long("json")),
        )
        .subcommand(
            clap::Command::new("list")
                .about("Shows what can be probed here")
                .after_help(help::LIST)
                .arg(
                    Arg::new("pattern")
                        .value_name("PATTERN")
                        .help("A probe; `*` stands for anything; `modules`: the standard library"),
                )
                .arg(pid("Also what is in the files of this process; `uprobe:*` and `usdt:*` are those"))
                .arg(flag("verbose", "With names and types of arguments").short('v').long("verbose")),
        )
        .subcommand(
            with_script(clap::Command::new("build").about("Writes a script's BPF object file").after_help(help::BUILD))
                .arg(
                    option("output", 'o', "FILE", "Write the object to FILE [default: the script's name with .bpf.o]")
                        .long("output"),
                ),
        );
    without_script(profiler)
}

/// The commands that take no script.
fn without_script(profiler: clap::Command) -> clap::Command {
    profiler
        .subcommand(
            clap::Command::new("repl")
                .about("Prompts for probes; what `profiler` alone does on a terminal")
                .after_help(help::REPL),
        )
        .subcommand(
            clap::Command::new("doctor")
                .about("Says what this kernel and your rights allow, by trying it")
                .after_help(help::DOCTOR)
                .arg(flag("json", "As a JSON document").long("json")),
        )
        .subcommand(fmt_command())
        .subcommand(
            clap::Command::new("lsp")
                .about("Serves an editor: diagnostics, completion, explanations, the canonical form")
                .after_help(help::LSP)
                // Editors pass it to every server.
                .arg(flag("stdio", "On standard input and output, which is the only way").long("stdio")),
        )
        .subcommand(
            clap::Command::new("explain")
                .about("Explains the code of a diagnostic")
                .after_help(help::EXPLAIN)
                .arg(Arg::new("code").value_name("CODE").help("E0203, W0903").required(true)),
        )
        .subcommand(
            clap::Command::new("completions")
                .about("Writes a shell's completions")
                .after_help(help::COMPLETIONS)
                .arg(Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell))),
        )
        .subcommand(
            clap::Command::new("man")
                .about("Writes the manual page")
                .after_help(help::MAN)
                .arg(Arg::new("command").value_name("COMMAND").help("The page of this command: run, check, …")),
        )
        .subcommand(
            clap::Command::new("help").about("Explains a command or a word of the language").arg(
                Arg::new("topic")
                    .value_name("TOPIC")
                    .help("A command, a word such as hist, a code such as E0203, a script, or a module"),
            ),
        )
}

fn fmt_command() -> clap::Command {
    clap::Command::new("fmt")
        .about("Gives scripts their canonical form")
        .after_help(help::FMT)
        .arg(flag("check", "Change nothing; name the scripts that are not in this form").long("check"))
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .help("Scripts; `-`: from standard input to standard output")
                .value_hint(ValueHint::FilePath)
                .num_args(1..)
                .required(true),
        )
}

/// The arguments of every command that takes a script.
fn with_script(command: clap::Command) -> clap::Command {
    let usage =
        format!("profiler {} [OPTIONS] FILE | - | -e 'PROGRAM' [PARAMETER | --NAME VALUE]...", command.get_name());
    command
        .override_usage(usage)
        .arg(option("program", 'e', "PROGRAM", "The script itself").allow_hyphen_values(true))
        .arg(pid("Only this process"))
        .arg(flag("unsafe", "Allow what changes the system: system(), signal()").long("unsafe"))
        .arg(flag("verbose", "Say more").short('v').long("verbose"))
        .arg(
            Arg::new("words")
                .value_name("FILE")
                .help("The script (`-`: standard input), then its parameters: $1, $2, …, and those by name")
                .value_hint(ValueHint::FilePath)
                .num_args(0..)
                .allow_negative_numbers(true),
        )
}

fn option(id: &'static str, short: char, value: &'static str, words: &'static str) -> Arg {
    Arg::new(id).short(short).value_name(value).help(words)
}

fn flag(id: &'static str, words: &'static str) -> Arg {
    Arg::new(id).help(words).action(ArgAction::SetTrue)
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

fn pid(help: &'static str) -> Arg {
    option("pid", 'p', "PID", help).value_parser(value_parser!(u32).range(1..=i64::from(i32::MAX)))
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
        handshake: None,
        script: ScriptArguments {
            probe_filter: matches.remove_one("probe-filter"),
            report_failures: matches.get_flag("warnings"),
            no_warnings: matches.get_flag("no-warnings"),
            ..script_arguments(matches, behind)?
        },
    })
}

/// A number with a unit, as the language writes durations.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ns: u64 = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err("write a number and a unit: 500ms, 30s, 5m, 1h".into()),
    };
    let count: u64 = digits.parse().map_err(|_| "write a whole number and a unit: 500ms, 30s, 5m, 1h".to_string())?;
    match count.checked_mul(unit_ns) {
        Some(0) => Err("it must be longer than nothing".into()),
        Some(ns) => Ok(Duration::from_nanos(ns)),
        None => Err("that is longer than 500 years".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Notice, RunArguments, duration, parse};
    use crate::cli::engine::{Format, Stage};
    use crate::cli::script::Origin;
    use std::time::Duration;

    fn parsed(line: &[&str]) -> Result<Command, Notice> {
        parse(std::iter::once("profiler").chain(line.iter().copied()).map(Into::into))
    }

    fn run(line: &[&str]) -> RunArguments {
        match parsed(line) {
            Ok(Command::Run(arguments)) => arguments,
            other => panic!("{line:?} is {other:?}"),
        }
    }

    #[test]
    fn a_clap_command_without_contradictions() {
        super::profiler().debug_assert();
    }

    #[test]
    fn words_after_the_script_are_its_parameters() {
        let arguments = run(&["run", "x.prof", "1", "-2", "-q", "two words"]);
        assert_eq!(arguments.script.origin, Origin::File("x.prof".into()));
        assert_eq!(arguments.script.parameters, ["1", "-2", "two words"]);
        assert!(arguments.quiet);
        let arguments = run(&["run", "-e", "BEGIN { }", "1", "--", "-q"]);
        assert_eq!(arguments.script.origin, Origin::Inline("BEGIN { }".into()));
        assert_eq!(arguments.script.parameters, ["1", "-q"]);
        assert!(!arguments.quiet);
        let arguments = run(&["run", "x", "--slow", "5ms", "--duration", "2s", "--pid=7"]);
        assert_eq!(arguments.duration, Some(Duration::from_secs(2)));
        let behind: Vec<&str> = arguments.script.behind.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(behind, ["--slow", "5ms", "--pid=7"]);
    }

    #[test]
    fn the_word_run_may_be_left_out() {
        for line in [["./x"].as_slice(), &["x.bt"], &["/usr/bin/x.prof", "-v"], &["-"], &["-e", "BEGIN { }"]] {
            run(line);
        }
        assert!(parsed(&["chekc", "x"]).is_err());
    }

    #[test]
    fn options_of_run() {
        let arguments = run(&["run", "x", "-p", "7", "-f", "json", "-d", "ast,elf", "-d", "ir", "--duration", "2m"]);
        assert_eq!(arguments.script.pid, Some(7));
        assert_eq!(arguments.format, Format::Json);
        assert_eq!(arguments.dump, [Stage::Ast, Stage::Elf, Stage::Ir]);
        assert_eq!(arguments.duration, Some(Duration::from_secs(120)));
        assert_eq!(run(&["run", "x", "-c", "sleep 1"]).command.as_deref(), Some("sleep 1"));
    }

    #[test]
    fn mistakes_end_with_the_usage_code() {
        for line in [
            ["run"].as_slice(),
            &["run", "x", "-p", "0"],
            &["run", "x", "-p", "me"],
            &["run", "x", "-f", "xml"],
            &["run", "x", "-d", "llvm"],
            &["run", "x", "-c", "a", "-p", "1"],
            &["run", "x", "--duration", "30"],
            &["list", "a", "b"],
            &["frobnicate"],
        ] {
            assert_eq!(parsed(line).expect_err("a mistake").code, 2, "{line:?}");
        }
        for line in [["--help"].as_slice(), &["--version"], &["run", "--help"], &["run", "-h"]] {
            assert_eq!(parsed(line).expect_err("help").code, 0, "{line:?}");
        }
        assert!(matches!(parsed(&[]), Ok(Command::Help(None))));
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("1500us"), Ok(Duration::from_micros(1500)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for wrong in ["", "s", "0s", "-1s", "1.5s", "1d", "30", "99999999999999999999s", "9999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
