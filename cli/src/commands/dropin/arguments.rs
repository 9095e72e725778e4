//! Parses bpftrace's command line.
//!
//! In: the arguments of the process. Out: an [`Action`], or text with an exit code.
//! Guarantee: options of 0.17 (`-d` and `-dd` without a stage, `-b`, `-kk`) and of today are both
//! accepted. Usage and error messages are worded as in bpftrace.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches};

use crate::commands::args::choices::{Format, Stage};
use crate::commands::args::{Notice, RunArguments, ScriptArguments, StackFiles, parameters};
use crate::commands::processes::Processes;
use crate::commands::run_as::RunAs;
use crate::commands::script::{Headers, Origin};
use profiler_runtime::session::Mode;

/// The requested action.
#[derive(Debug)]
pub(super) enum Action {
    /// Print this text.
    Print(String),
    /// Print the version.
    Version,
    /// Print the features of the kernel.
    Info,
    /// List probes.
    List(Listing),
    /// Print a script in canonical form.
    Format(Origin),
    /// Run a script.
    Run(Box<Arguments>),
}

/// Which probes to list.
#[derive(Debug)]
pub(super) enum Listing {
    /// Matching probes, of a process if one is given.
    Patterns {
        /// Patterns of probe names.
        patterns: Vec<String>,
        /// The process whose files are searched if the pattern names none.
        pid: Option<u32>,
        /// Print their arguments.
        verbose: bool,
        /// The file of `--traceable-functions`.
        traceable: Option<String>,
    },
    /// The probes of a script.
    Script(Box<ScriptArguments>),
}

/// How to run a script.
#[derive(Debug)]
pub(super) struct Arguments {
    /// The arguments of `run`.
    pub run: RunArguments,
    /// The file of `--emit-elf`.
    pub object: Option<String>,
    /// `-d` as in 0.17: print the stage and exit.
    pub dry_dump: bool,
}

/// The highest process id that Linux can be configured for.
const PID_LIMIT: u64 = 0x40_0000;

const USAGE: &str = include_str!("usage.txt");

/// Parses the command line; the first argument is the program's own name.
pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Action, Notice> {
    let (words, dry_dump) = with_stages(arguments.collect());
    if words.len() == 1 {
        return Err(Notice::mistake(USAGE));
    }
    let mut matches = command().try_get_matches_from(words).map_err(|error| {
        let words = error.to_string();
        let first = words.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Notice::mistake(format!("ERROR: {first}\n{USAGE}"))
    })?;
    if matches.get_flag("help") {
        return Ok(Action::Print(USAGE.into()));
    }
    if matches.get_flag("version") {
        return Ok(Action::Version);
    }
    if matches.get_flag("info") {
        return Ok(Action::Info);
    }
    refuse_the_impossible(&matches)?;
    known_buffering(matches.get_one::<String>("buffering").map(String::as_str))?;
    known_features(matches.get_many::<String>("no-feature").into_iter().flatten())?;
    if matches.get_flag("list") {
        return list(&mut matches).map(Action::List);
    }
    let wants_form = matches.get_one::<String>("mode").is_some_and(|mode| mode == "format");
    if matches.get_flag("fmt") || wants_form {
        let program = matches.remove_one::<String>("program");
        let file = matches.remove_many::<String>("words").into_iter().flatten().next();
        return script(&mut matches, program, file, std::iter::empty()).map(|script| Action::Format(script.origin));
    }
    run(&mut matches, dry_dump).map(|arguments| Action::Run(Box::new(arguments)))
}

/// Gives a `-d` without a stage the stage `ast` (`-dd`: all stages); returns whether there was one.
/// What follows it is a stage, unless it is an option or a script.
fn with_stages(arguments: Vec<OsString>) -> (Vec<OsString>, bool) {
    let (mut words, mut bare) = (Vec::with_capacity(arguments.len() + 1), false);
    let is_script = |word: &str| {
        let path = Path::new(word);
        word.starts_with('-') || path.extension().is_some_and(|extension| extension == "bt") || path.is_file()
    };
    let mut rest = arguments.into_iter().peekable();
    let mut options = true;
    while let Some(word) = rest.next() {
        options &= word != "--";
        let names_stages = rest.peek().and_then(|next| next.to_str()).is_some_and(|next| !is_script(next));
        match word.to_str() {
            Some("-d") if options && !names_stages => {
                bare = true;
                words.push("-dast".into());
            }
            Some("-dd") if options => {
                bare = true;
                words.push("-dall".into());
            }
            _ => words.push(word),
        }
    }
    (words, bare)
}

/// Maps bpftrace's names of compiler stages to ours.
fn stages(names: &str) -> Option<Vec<Stage>> {
    let mut all = Vec::new();
    for name in names.split(',') {
        match name {
            "parse" | "ast" => all.push(Stage::Ast),
            "types" => all.push(Stage::Typed),
            "codegen" | "codegen-opt" => all.push(Stage::Ir),
            "dis" => all.push(Stage::Bpf),
            "libbpf" => all.push(Stage::Elf),
            "verifier" => all.push(Stage::Verifier),
            "all" => {
                all.extend([Stage::Ast, Stage::Typed, Stage::Ir, Stage::Bpf, Stage::Elf, Stage::Verifier]);
            }
            _ => return None,
        }
    }
    all.dedup();
    Some(all)
}

/// Rejects options that request something that does not exist here.
fn refuse_the_impossible(matches: &ArgMatches) -> Result<(), Notice> {
    let refused = [
        ("emit-llvm", "--emit-llvm: there is no LLVM in here; `-d codegen` prints the intermediate representation"),
        ("aot", "--aot: write the object with --emit-elf, or with `profiler build`"),
    ];
    for (option, words) in refused {
        if matches.contains_id(option) && matches.value_source(option) == Some(clap::parser::ValueSource::CommandLine) {
            return Err(Notice::mistake(format!("ERROR: {words}\n")));
        }
    }
    if matches.contains_id("cmd") && matches.contains_id("pid") {
        return Err(Notice::mistake(format!("ERROR: USAGE: Cannot use both -c and -p.\n{USAGE}")));
    }
    if matches.get_count("warnings") > 0 && matches.get_flag("no-warnings") {
        return Err(Notice::mistake("ERROR: USAGE: -k, --warnings conflicts with --no-warnings\n"));
    }
    Ok(())
}

fn list(matches: &mut ArgMatches) -> Result<Listing, Notice> {
    let mut words = matches.remove_many::<String>("words").into_iter().flatten();
    let (first, more) = (words.next(), words.next());
    if more.is_some() {
        return Err(Notice::mistake(USAGE));
    }
    let verbose = matches.get_flag("verbose");
    let program = matches.remove_one::<String>("program");
    let is_file = first.as_ref().is_some_and(|word| Path::new(word).is_file());
    if program.is_some() || is_file {
        let script = script(matches, program, first, std::iter::empty())?;
        return Ok(Listing::Script(Box::new(script)));
    }
    let pattern = first.unwrap_or_else(|| "*".into());
    if pattern.contains('.') && !pattern.contains([':', '*']) {
        eprintln!(
            "WARNING: It appears that '{pattern}' is a filename but the file does not exist. Treating '{pattern}' as a search pattern."
        );
    }
    let patterns = pattern.split(',').map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let pid = matches.remove_one::<String>("pid").map(|text| pid(&text)).transpose()?;
    Ok(Listing::Patterns { patterns, pid, verbose, traceable: matches.remove_one("traceable-functions") })
}

fn script(
    matches: &mut ArgMatches,
    program: Option<String>,
    file: Option<String>,
    words: impl Iterator<Item = String>,
) -> Result<ScriptArguments, Notice> {
    let (parameters, named) = parameters(words);
    let origin = super::origin(program, file)
        .ok_or_else(|| Notice::mistake("ERROR: USAGE: filename or -e 'program' required.\n"))?;
    Ok(ScriptArguments {
        origin,
        headers: Headers {
            directories: matches.remove_many("include-directory").into_iter().flatten().collect(),
            files: matches.remove_many("include").into_iter().flatten().collect(),
        },
        parameters,
        named,
        script_words: Vec::new(),
        processes: matches
            .remove_one::<String>("pid")
            .map(|text| pid(&text).map(Processes::one))
            .transpose()?
            .unwrap_or_default(),
        allow_unsafe: matches.get_flag("unsafe"),
        report_failures: matches.get_count("warnings") > 0,
        no_warnings: matches.get_flag("no-warnings"),
        probe_filter: matches.remove_one("probe-filter"),
        traceable: matches.remove_one("traceable-functions"),
        verbose: matches.get_flag("verbose"),
        is_bpftrace: true,
        hands_over: false,
    })
}

/// Parses a process id; errors are worded as in bpftrace.
fn pid(text: &str) -> Result<u32, Notice> {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let refused = |words: String| Notice::mistake(format!("ERROR: {words}\n"));
    if digits == 0 {
        return Err(refused(format!("Failed to parse pid: invalid integer: {text}")));
    }
    if digits != text.len() {
        return Err(refused(format!("Failed to parse pid: invalid trailing bytes: {text}")));
    }
    match text.parse::<u64>() {
        Ok(number) if number <= PID_LIMIT => Ok(number as u32),
        _ => Err(refused(format!("Pid out of range: {text}"))),
    }
}

fn run(matches: &mut ArgMatches, dry_dump: bool) -> Result<Arguments, Notice> {
    let (mode, compile_only) = mode(matches)?;
    let program = matches.remove_one::<String>("program");
    let words: Vec<String> = matches.remove_many::<String>("words").into_iter().flatten().collect();
    let mut words = words.into_iter();
    let file = if program.is_some() { None } else { words.next() };
    let script = script(matches, program, file, words)?;
    let mut dump = Vec::new();
    for names in matches.remove_many::<String>("debug").into_iter().flatten() {
        let named = stages(&names);
        dump.extend(named.ok_or_else(|| Notice::mistake(format!("ERROR: USAGE: invalid option for -d: {names}\n")))?);
    }
    Ok(Arguments {
        run: RunArguments {
            run_as: RunAs::Unchanged,
            stats: false,
            stacks: StackFiles::default(),
            script,
            // An empty one is none.
            command: matches.remove_one::<String>("cmd").filter(|command| !command.is_empty()),
            output: matches.remove_one("output"),
            format: format(matches.remove_one::<String>("format").as_deref())?,
            quiet: matches.get_flag("quiet") || matches.get_flag("dry-run"),
            dump,
            dry_run: matches.get_flag("dry-run"),
            strict: false,
            mode,
            // As in bpftrace, whatever the output is.
            coloured: true,
            duration: None,
            rows_apart: true,
            no_progress: true,
            handshake: None,
        },
        object: matches.remove_one("emit-elf").or_else(|| compile_only.then(|| "/dev/null".into())),
        dry_dump,
    })
}

/// Which probes to run, and whether to compile only.
fn mode(matches: &ArgMatches) -> Result<(Mode, bool), Notice> {
    let named = matches.get_one::<String>("mode").map(String::as_str);
    let (test, bench) = (matches.get_flag("test"), matches.get_flag("bench"));
    for (flag, name) in [(test, "test"), (bench, "bench")] {
        if flag && (named.is_some() || test && bench) {
            return Err(Notice::mistake(format!("ERROR: USAGE: --{name} conflicts with existing --mode\n")));
        }
    }
    match named {
        _ if test => Ok((Mode::Test, false)),
        _ if bench => Ok((Mode::Bench, false)),
        None => Ok((Mode::Trace, false)),
        Some("test") => Ok((Mode::Test, false)),
        Some("bench") => Ok((Mode::Bench, false)),
        Some("codegen") => Ok((Mode::Trace, true)),
        Some("compiler-bench") => {
            Err(Notice::mistake("ERROR: --mode compiler-bench: `profiler check` is timed from outside\n"))
        }
        Some(_) => Err(Notice::mistake(
            "ERROR: USAGE: --mode can only be 'codegen', 'compiler-bench', 'bench', 'test' or 'format'.\n",
        )),
    }
}

fn format(name: Option<&str>) -> Result<Format, Notice> {
    match name {
        None | Some("text" | "") => Ok(Format::Text),
        Some("json") => Ok(Format::BpftraceJson),
        Some(other) => {
            Err(Notice::mistake(format!("ERROR: Invalid output format \"{other}\"\nValid formats: 'text', 'json'\n")))
        }
    }
}

/// Checks the value of `-B`. Results are flushed after every batch of events, so nothing is held
/// back in any mode.
fn known_buffering(mode: Option<&str>) -> Result<(), Notice> {
    match mode {
        None | Some("line" | "none" | "full") => Ok(()),
        Some(_) => Err(Notice::mistake("ERROR: USAGE: -B must be either 'line', 'full', or 'none'.\n")),
    }
}

/// Checks the values of `--no-feature`. What they turn off is not used where a kernel lacks it, and
/// otherwise makes no difference to the results.
fn known_features<'a>(lists: impl Iterator<Item = &'a String>) -> Result<(), Notice> {
    let known = ["kprobe_multi", "kprobe_session", "uprobe_multi"];
    if lists.flat_map(|list| list.split(',')).all(|feature| known.contains(&feature)) {
        return Ok(());
    }
    Err(Notice::mistake(format!("ERROR: USAGE: --no-feature can only have values '{}'.\n", known.join(","))))
}

fn command() -> clap::Command {
    let value = |id: &'static str| Arg::new(id).long(id).num_args(1).allow_hyphen_values(true);
    let several = |id: &'static str| value(id).action(ArgAction::Append);
    let flag = |id: &'static str| Arg::new(id).long(id).action(ArgAction::SetTrue);
    clap::Command::new("bpftrace")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .args([
            Arg::new("program").short('e').num_args(1).allow_hyphen_values(true),
            flag("list").short('l'),
            flag("verbose").short('v'),
            flag("help").short('h'),
            flag("version").short('V'),
            flag("info"),
            value("pid").short('p'),
            value("cmd").short('c'),
            value("output").short('o'),
            Arg::new("format").short('f').num_args(1),
            Arg::new("buffering").short('B').num_args(1),
            flag("quiet").short('q'),
            Arg::new("warnings").short('k').long("warnings").action(ArgAction::Count),
            flag("no-warnings"),
            several("debug").short('d'),
            flag("dry-run"),
            flag("unsafe"),
            value("emit-elf"),
            value("emit-llvm"),
            value("aot"),
            flag("fmt"),
            flag("test"),
            flag("bench"),
            value("mode"),
            value("probe-filter"),
            several("dwarf-pid"),
        ])
        .args([several("include-directory").short('I').hide(true), several("include")])
        .arg(value("traceable-functions"))
        // Types come from BTF and there is no LLVM, so these have no effect.
        .args([
            several("debuginfo"),
            several("no-feature"),
            flag("btf").short('b'),
            flag("usdt-file-activation"),
            flag("verify-llvm-ir"),
        ])
        .arg(Arg::new("words").num_args(0..).allow_negative_numbers(true))
}

#[cfg(test)]
mod tests {
    use super::{Action, Arguments, Listing, parse};
    use crate::commands::args::choices::{Format, Stage};
    use crate::commands::processes::Processes;
    use crate::commands::script::Origin;

    fn parsed(line: &[&str]) -> Result<Action, String> {
        let words = std::iter::once("bpftrace").chain(line.iter().copied()).map(Into::into);
        parse(words).map_err(|notice| notice.text().to_owned())
    }

    fn run(line: &[&str]) -> Arguments {
        match parsed(line) {
            Ok(Action::Run(arguments)) => *arguments,
            other => panic!("{line:?} is {other:?}"),
        }
    }

    fn refusal(line: &[&str]) -> String {
        parsed(line).expect_err("a refusal")
    }

    #[test]
    fn a_clap_command_without_contradictions() {
        super::command().debug_assert();
    }

    #[test]
    fn options_of_a_run() {
        let line = [
            "-q",
            "-f",
            "json",
            "-B",
            "line",
            "-p",
            "7",
            "--unsafe",
            "-I",
            "/x",
            "--include",
            "a.h",
            "x.bt",
            "1",
            "-2",
        ];
        let arguments = run(&line);
        assert_eq!(arguments.run.script.origin, Origin::File("x.bt".into()));
        assert_eq!(arguments.run.script.parameters, ["1", "-2"]);
        assert_eq!((arguments.run.script.processes, arguments.run.format), (Processes::one(7), Format::BpftraceJson));
        assert!(arguments.run.quiet && arguments.run.script.allow_unsafe && !arguments.dry_dump);
        let inline = run(&["-e", "BEGIN { }", "a", "--", "--pid=3", "-x"]);
        assert_eq!(inline.run.script.origin, Origin::Foreign("BEGIN { }".into()));
        assert_eq!(inline.run.script.parameters, ["a", "-x"]);
        assert_eq!(inline.run.script.named, [("pid".to_owned(), Some("3".to_owned()))]);
    }

    #[test]
    fn stages_of_both_generations() {
        assert_eq!(run(&["-d", "types,dis", "x.bt"]).run.dump, [Stage::Typed, Stage::Bpf]);
        let bare = run(&["-d", "-e", "BEGIN { }"]);
        assert!(bare.dry_dump && bare.run.dump == [Stage::Ast]);
        assert_eq!(run(&["-dd", "x.bt"]).run.dump.len(), 6);
        assert!(!run(&["x.bt", "--", "-d"]).dry_dump);
    }

    #[test]
    fn listings() {
        let patterns = |line: &[&str]| match parsed(line) {
            Ok(Action::List(Listing::Patterns { patterns, verbose, .. })) => (patterns, verbose),
            other => panic!("{line:?} is {other:?}"),
        };
        assert_eq!(patterns(&["-l"]), (vec!["*".to_owned()], false));
        assert_eq!(patterns(&["-lv", "t:x:*, struct  y"]), (vec!["t:x:*".to_owned(), "struct y".to_owned()], true));
        assert!(matches!(parsed(&["-l", "-e", "BEGIN { }"]), Ok(Action::List(Listing::Script(_)))));
    }

    #[test]
    fn refusals_have_the_words_that_automation_knows() {
        assert!(refusal(&[]).contains("USAGE:"));
        assert!(refusal(&["-idonotexist"]).contains("USAGE:"));
        assert!(refusal(&["-v"]).contains("filename or -e 'program' required"));
        assert!(refusal(&["-p", "a1", "x.bt"]).contains("Failed to parse pid: invalid integer: a1"));
        assert!(refusal(&["-p", "1a", "x.bt"]).contains("Failed to parse pid: invalid trailing bytes: 1a"));
        assert!(refusal(&["-p", "5000000", "x.bt"]).contains("Pid out of range: 5000000"));
        assert!(refusal(&["-p", "1", "-c", "x", "x.bt"]).contains("Cannot use both -c and -p"));
        assert!(refusal(&["-f", "xml", "x.bt"]).contains("Invalid output format \"xml\""));
        assert!(refusal(&["-B", "some", "x.bt"]).contains("-B must be either"));
        assert!(refusal(&["--emit-llvm", "x", "x.bt"]).contains("no LLVM"));
    }
}
