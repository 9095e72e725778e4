//! Definition of the command line for clap.
//!
//! In: nothing. Out: commands with their options and arguments, for parsing, help, manual pages and
//! completions.
//! Guarantee: every command that takes a script has the same arguments and descriptions for it.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgGroup, ValueHint, value_parser};
use clap_complete::Shell;
use profiler_model::params::duration_ns;

use crate::commands::args::choices::Stage;
use crate::commands::help;
use crate::commands::processes::Processes;

/// The whole command line.
pub(super) fn profiler() -> clap::Command {
    let profiler = clap::Command::new("profiler")
        .version(env!("CARGO_PKG_VERSION"))
        .about(help::ABOUT)
        .after_help(help::OVERVIEW)
        .disable_help_subcommand(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(Arg::new("help").short('h').long("help").help("Prints help").action(ArgAction::HelpShort).global(true))
        .arg(Arg::new("version").short('V').long("version").help("Prints the version").action(ArgAction::Version))
        .arg(flag("licenses", "Prints the licences of profiler and its dependencies").long("licenses").exclusive(true))
        .arg_required_else_help(false)
        .subcommand(run_command())
        .subcommand(
            with_script(
                clap::Command::new("check").about("Checks a script without running it").after_help(help::CHECK),
            )
            .arg(flag("json", "Prints diagnostics as JSON on standard output").long("json")),
        )
        .subcommand(
            clap::Command::new("list")
                .about("Lists available probes and recipes")
                .after_help(help::LIST)
                .arg(
                    Arg::new("pattern").value_name("PATTERN").help(
                        "Probe or recipe, with * as a wildcard; `recipes`\nand `modules` list the standard library",
                    ),
                )
                .arg(pid(
                    "Includes functions (uprobe) and static probes (usdt)\nof the files that this process has mapped",
                ))
                .arg(flag("verbose", "Prints the names and types of arguments").short('v').long("verbose")),
        )
        .subcommand(
            with_script(
                clap::Command::new("build").about("Compiles a script to a BPF object file").after_help(help::BUILD),
            )
            .arg(
                option("output", 'o', "FILE", "Writes the object to FILE\n[default: the script's name with .bpf.o]")
                    .long("output"),
            ),
        );
    without_script(profiler)
}

/// A file for the stacks of a run.
fn stack_file(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help).conflicts_with_all(["test", "bench"])
}

fn busy(help: &'static str) -> Arg {
    flag("busy", help).long("busy")
}

fn run_command() -> clap::Command {
    with_script(clap::Command::new("run").about("Runs a script").after_help(help::RUN))
        .arg(option("command", 'c', "CMD", "Runs CMD once all probes are attached;\nends when CMD exits").conflicts_with("pid"))
        .arg(run_as())
        .arg(option("output", 'o', "FILE", "Writes results to FILE instead of standard output").long("output"))
        .arg(stack_file("flame", "FILE.svg", "Also draws the stacks of all maps as a flame graph:\nan SVG file for a browser"))
        .arg(flag("icicle", "Also draws the stacks of all maps in the terminal:\nfunctions below their callers").long("icicle").conflicts_with_all(["test", "bench", "output", "format"]))
        .arg(stack_file("folded", "FILE", "Also writes the stacks of all maps as folded lines,\nwhich tools for flame graphs read"))
        .arg(stack_file("pprof", "FILE.pb.gz", "Also writes the stacks of all maps as a profile for\n`go tool pprof`, Pyroscope and Parca"))
        .arg(stack_file("speedscope", "FILE.json", "Also writes the stacks of all maps for speedscope"))
        .arg(stack_file("firefox", "FILE.json", "Also writes the stacks of all maps for the Firefox\nProfiler"))
        .arg(stack_file("per-thread", "DIR", "Also writes the stacks of each thread to files in\nDIR, with a summary of all threads").value_hint(ValueHint::DirPath))
        .arg(busy("Leaves idle threads out of these files: those in the\nstates poll, sleep, child and stopped, and those of\npools that wait for work").requires("stacks"))
        .group(ArgGroup::new("stacks").args(["flame", "icicle", "folded", "pprof", "speedscope", "firefox", "per-thread"]).multiple(true))
        .arg(
            option("format", 'f', "FORMAT", "Sets the output format: text, json or csv\n[default: text]")
                .long("format")
                .value_parser(["text", "json", "csv"])
                .default_value("text")
                .hide_default_value(true)
                .hide_possible_values(true),
        )
        .arg(flag("quiet", "Prints results only, not the number of probes").short('q').long("quiet").conflicts_with("verbose"))
        .arg(
            option("dump", 'd', "STAGE", "Prints the output of a compiler stage without\nrunning the script: ast, typed, ir, bpf, elf or\nverifier; separate several with commas")
                .value_parser(Stage::NAMES)
                .hide_possible_values(true)
                .value_delimiter(',')
                .action(ArgAction::Append),
        )
        .arg(flag("dry-run", "Attaches all probes, then exits").long("dry-run"))
        .arg(flag("test", "Runs only the script's `test:NAME` probes").long("test").conflicts_with("command"))
        .arg(
            flag("bench", "Runs only the script's `bench:NAME` probes")
                .long("bench")
                .conflicts_with_all(["command", "test"]),
        )
        .arg(flag("warnings", "Reports failed memory reads and missing map keys").short('k').long("warnings"))
        .arg(flag("no-warnings", "Suppresses warnings").long("no-warnings").conflicts_with("warnings"))
        .arg(flag("strict", "Exits with code 4 if any data was lost").long("strict"))
        .arg(flag("no-progress", "Hides the progress line").long("no-progress"))
        .arg(flag("stats", "Reports runs, mean time and CPU share of each\nprobe, and how many addresses have names").long("stats"))
        .arg(Arg::new("probe-filter").long("probe-filter").value_name("REGEX").help("Attaches only probes whose names match"))
        .arg(time("duration", "Ends after TIME: seconds, or a number with the\nunit ns, us, ms, s, m or h, as in 500ms or 5m"))
}

fn doctor_command() -> clap::Command {
    with_script(
        clap::Command::new("doctor")
            .about("Diagnoses kernel support and privileges, or a script")
            .after_help(help::DOCTOR),
    )
    .override_usage("profiler doctor [OPTIONS] [FILE | - | -e 'PROGRAM' [PARAMETER | --NAME VALUE]...]")
    .arg(
        option("command", 'c', "CMD", "Runs CMD once all probes are attached;\nends when CMD exits")
            .conflicts_with("pid"),
    )
    .arg(run_as())
    // `doctor` always prints everything.
    .mut_arg("verbose", |verbose| verbose.hide(true))
    .arg(time("duration", "Runs the script for TIME, as in 500ms, 30s or 5m\n[default: 1500ms]"))
    .arg(flag("json", "Prints the report as JSON").long("json"))
}

fn run_as() -> Arg {
    let help = "Runs CMD as this user, by name or number [default:\nthe user who called sudo, else the current user]";
    Arg::new("run-as").long("run-as").value_name("NAME").help(help).requires("command")
}

fn time(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name("TIME").help(help).value_parser(duration)
}

/// Adds the commands that take no script.
fn without_script(profiler: clap::Command) -> clap::Command {
    profiler
        .subcommand(
            clap::Command::new("repl")
                .about("Opens the interactive prompt; the default on a terminal")
                .after_help(help::REPL),
        )
        .subcommand(doctor_command())
        .subcommand(fmt_command())
        .subcommand(flame_command())
        .subcommand(
            clap::Command::new("lsp")
                .about("Runs the language server for editors")
                .after_help(help::LSP)
                // Editors pass it to every server.
                .arg(
                    flag("stdio", "Uses standard input and output; the default, and\nthe only transport").long("stdio"),
                ),
        )
        .subcommand(
            clap::Command::new("cat")
                .about("Prints the source of a standard library recipe")
                .after_help(help::CAT)
                .arg(
                    Arg::new("recipe")
                        .value_name("RECIPE")
                        .help("Recipe, by path or by the last part of it: lock/futex\nor futex")
                        .required(true),
                ),
        )
        .subcommand(
            clap::Command::new("explain")
                .about("Explains a diagnostic code")
                .after_help(help::EXPLAIN)
                .arg(Arg::new("code").value_name("CODE").help("Diagnostic code, as in E0203 or W0903").required(true)),
        )
        .subcommand(
            clap::Command::new("completions")
                .about("Prints completions for a shell")
                .after_help(help::COMPLETIONS)
                .arg(
                    Arg::new("shell")
                        .value_name("SHELL")
                        .help("bash, elvish, fish, powershell or zsh")
                        .required(true)
                        .value_parser(value_parser!(Shell))
                        .hide_possible_values(true),
                ),
        )
        .subcommand(
            clap::Command::new("man").about("Prints the manual page").after_help(help::MAN).arg(
                Arg::new("command").value_name("COMMAND").help("Command to document [default: the whole program]"),
            ),
        )
        .subcommand(
            clap::Command::new("help").about("Explains a command, a language word, a diagnostic or a script").arg(
                Arg::new("topic")
                    .value_name("TOPIC")
                    .help("Command, language word (hist), diagnostic code (E0203),\nrecipe or script file"),
            ),
        )
}

fn flame_command() -> clap::Command {
    let file = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).help(help).value_hint(ValueHint::FilePath).required(true)
    };
    let output = || {
        option("output", 'o', "FILE.svg", "Writes the picture to FILE.svg instead of standard\noutput").long("output")
    };
    clap::Command::new("flame")
        .about("Draws flame graphs of folded lines")
        .after_help(help::FLAME)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .arg(file("file", "FILE", "Folded lines, as `--folded` writes them"))
        .arg(output())
        .arg(busy("Leaves idle threads out, as `run --busy` does"))
        .arg(
            flag("icicle", "Draws text for the terminal instead: functions below\ntheir callers")
                .long("icicle")
                .conflicts_with("output"),
        )
        .subcommand(
            clap::Command::new("diff")
                .about("Draws the difference of two files")
                .arg(file("before", "BEFORE", "Folded lines to compare with"))
                .arg(file("after", "AFTER", "Folded lines to draw"))
                .arg(flag("reverse", "Draws BEFORE instead, so that stacks that are gone\nare visible").long("reverse"))
                .arg(busy("Leaves idle threads out of both"))
                .arg(output()),
        )
}

fn fmt_command() -> clap::Command {
    clap::Command::new("fmt")
        .about("Formats scripts")
        .after_help(help::FMT)
        .arg(flag("check", "Lists scripts that are not formatted, without\nchanging them").long("check"))
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .help("Scripts to format; - formats standard input to\nstandard output")
                .value_hint(ValueHint::FilePath)
                .num_args(1..)
                .required(true),
        )
}

/// Adds the arguments of every command that takes a script.
fn with_script(command: clap::Command) -> clap::Command {
    let usage =
        format!("profiler {} [OPTIONS] FILE | - | -e 'PROGRAM' [PARAMETER | --NAME VALUE]...", command.get_name());
    command
        .override_usage(usage)
        .arg(option("program", 'e', "PROGRAM", "Uses PROGRAM as the script").allow_hyphen_values(true))
        .arg(
            option(
                "pid",
                'p',
                "PID",
                "Traces only these processes: comma-separated PIDs\nor names, as in 12,13 or nginx",
            )
            .value_parser(Processes::read),
        )
        .arg(
            flag(
                "unsafe",
                "Allows functions that change the system: system(),\nsignal(), signal_thread(), write_user()",
            )
            .long("unsafe"),
        )
        .arg(
            flag("verbose", "Prints more details, such as the verifier log of a\nrefused program")
                .short('v')
                .long("verbose"),
        )
        .arg(
            Arg::new("words")
                .value_name("FILE")
                .help("Script, or - for standard input, followed by its\nparameters: $1, $2, … and --NAME VALUE")
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
    option("pid", 'p', "PID", help).value_parser(one_process)
}

fn one_process(text: &str) -> Result<u32, String> {
    let found = Processes::read(text)?;
    match found.pids.as_slice() {
        [only] => Ok(*only),
        _ => {
            Err(format!("one process is listed at a time; {}", found.notes().join("; ")).trim_end_matches("; ").into())
        }
    }
}

/// Parses a duration that is not zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match duration_ns(text).and_then(|ns| u64::try_from(ns).ok()) {
        Some(0) => Err("the time must be greater than zero".into()),
        Some(ns) => Ok(Duration::from_nanos(ns)),
        None => Err("write seconds, or a number with a unit: 500ms, 1.5s, 5m, 1h".into()),
    }
}
