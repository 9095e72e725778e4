//! The command line as clap knows it.
//!
//! In: nothing. Out: commands with their options and words, for reading it, for help, pages and completions.
//! Guarantee: every command that takes a script takes it, and what is said of it, in the same way.

use std::time::Duration;

use clap::{Arg, ArgAction, ValueHint, value_parser};
use clap_complete::Shell;

use crate::cli::engine::Stage;
use crate::cli::help;

/// All of it.
pub(super) fn profiler() -> clap::Command {
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
        .subcommand(run_command())
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

fn run_command() -> clap::Command {
    with_script(clap::Command::new("run").about("Runs a script").after_help(help::RUN))
        .arg(option("command", 'c', "CMD", "Start CMD with the probes attached, and end with it").conflicts_with("pid"))
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
        .arg(flag("no-progress", "No line on the terminal about how far the run is").long("no-progress"))
        .arg(flag("stats", "Say what the probes cost, and what is missing").long("stats"))
        .arg(Arg::new("probe-filter").long("probe-filter").value_name("REGEX").help("Only probes whose names match"))
        .arg(time("duration", "End after TIME: 500ms, 30s, 5m, 1h"))
}

fn doctor_command() -> clap::Command {
    with_script(
        clap::Command::new("doctor")
            .about("Says what this kernel and your rights allow, or why a script shows nothing, by trying it")
            .after_help(help::DOCTOR),
    )
    .override_usage("profiler doctor [OPTIONS] [FILE | - | -e 'PROGRAM' [PARAMETER | --NAME VALUE]...]")
    .arg(
        option("command", 'c', "CMD", "Start CMD with the script's probes attached, and end with it")
            .conflicts_with("pid"),
    )
    // It always says all.
    .mut_arg("verbose", |verbose| verbose.hide(true))
    .arg(time("duration", "Watch the script for TIME [default: 1500ms]"))
    .arg(flag("json", "As a JSON document").long("json"))
}

fn time(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name("TIME").help(help).value_parser(duration)
}

/// The commands that take no script.
fn without_script(profiler: clap::Command) -> clap::Command {
    profiler
        .subcommand(
            clap::Command::new("repl")
                .about("Prompts for probes; what `profiler` alone does on a terminal")
                .after_help(help::REPL),
        )
        .subcommand(doctor_command())
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

fn pid(help: &'static str) -> Arg {
    option("pid", 'p', "PID", help).value_parser(value_parser!(u32).range(1..=i64::from(i32::MAX)))
}

/// A number with a unit, as the language writes durations.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
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
