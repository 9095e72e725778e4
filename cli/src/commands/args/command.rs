//! Commands and their arguments as plain data.
//!
//! In: nothing. Out: the commands and their arguments, filled in by our command line or by the
//! drop-in's.
//! Guarantee: every field holds parsed input; whether files and processes exist is checked by the
//! command.

use std::collections::HashSet;
use std::time::Duration;

use clap_complete::Shell;

use crate::commands::args::choices::{Format, Stage};
use crate::commands::exit::{Failure, MISTAKE, words_of};
use crate::commands::processes::Processes;
use crate::commands::run_as::RunAs;
use crate::commands::script::{Headers, Origin};
use profiler_compiler::source::Source;
use profiler_runtime::session::Mode;

/// The command to execute.
#[derive(Debug)]
pub(crate) enum Command {
    /// Compile, load, attach, collect, print.
    Run(Box<RunArguments>),
    /// Compile only and print diagnostics.
    Check(CheckArguments),
    /// List what can be probed.
    List(ListArguments),
    /// Write an object file.
    Build(BuildArguments),
    /// Report what this kernel and this user's privileges allow.
    Doctor(DoctorArguments),
    /// The interactive prompt.
    Repl,
    /// Format scripts.
    Format(FormatArguments),
    /// Draw folded lines.
    Flame(FlameArguments),
    /// Run the language server.
    LanguageServer,
    /// Print a recipe.
    Cat(String),
    /// Explain a diagnostic.
    Explain(String),
    /// Print the completions for a shell.
    Completions(Shell),
    /// Print the manual page, or that of a command.
    Man(Option<String>),
    /// Print the licences of linked components.
    Licenses,
    /// Explain a command or a word of the language.
    Help(Option<String>),
}

/// A script and the options that affect its compilation and run.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct ScriptArguments {
    /// Where to read the script.
    pub origin: Origin,
    /// Headers besides those that the script includes.
    pub headers: Headers,
    /// `$1`, `$2`, ….
    pub parameters: Vec<String>,
    /// `--name=value`, `--name value`.
    pub named: Vec<(String, Option<String>)>,
    /// The words after the script. Which of them are values and which are options is known once the
    /// script is parsed ([`crate::commands::parameters::settle`]).
    pub script_words: Vec<ScriptWord>,
    /// The processes of `-p`.
    pub processes: Processes,
    pub allow_unsafe: bool,
    /// `-k`: report reads that fail.
    pub report_failures: bool,
    /// Suppress warnings of the compiler and of the script.
    pub no_warnings: bool,
    pub probe_filter: Option<String>,
    /// The file with the kernel's functions that may be traced, in the form of the kernel's
    /// `available_filter_functions`.
    pub traceable: Option<String>,
    /// `-v`.
    pub verbose: bool,
    /// Whether the command was called as bpftrace.
    pub is_bpftrace: bool,
    /// Whether a program that replaces it may take over the contents of its maps.
    pub hands_over: bool,
}

/// The functions in a file of the form of the kernel's `available_filter_functions`: lines
/// `FUNCTION [MODULE]`.
pub(crate) fn traceable_functions(path: &str) -> Result<HashSet<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let words = words_of(&error);
        Failure::new(MISTAKE, format!("cannot read the functions that may be traced from `{path}`: {words}"))
    })?;
    let functions = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(functions.map(str::to_owned).collect())
}

impl ScriptArguments {
    /// A script with default options.
    pub(crate) fn new(origin: Origin) -> ScriptArguments {
        ScriptArguments {
            origin,
            headers: Headers::default(),
            parameters: Vec::new(),
            named: Vec::new(),
            script_words: Vec::new(),
            processes: Processes::default(),
            allow_unsafe: false,
            report_failures: false,
            no_warnings: false,
            probe_filter: None,
            traceable: None,
            verbose: false,
            is_bpftrace: false,
            hands_over: false,
        }
    }

    /// Reads the script with all its files.
    pub(crate) fn load(&self) -> Result<Source, Failure> {
        self.origin.load_with(&self.headers)
    }

    /// The kernel's functions that may be traced; `None` if all may.
    pub(crate) fn traceable_functions(&self) -> Result<Option<HashSet<String>>, Failure> {
        self.traceable.as_deref().map(traceable_functions).transpose()
    }
}

/// A word after the script that is not an option of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptWord {
    /// The word.
    pub text: String,
    /// Whether it follows `--`.
    pub is_after_dashes: bool,
}

/// Files that get the stacks of maps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StackFiles {
    /// An SVG file.
    pub flame: Option<String>,
    /// Whether to draw them as text, after the results.
    pub icicle: bool,
    /// A file of lines.
    pub folded: Option<String>,
    /// A compressed profile of pprof.
    pub pprof: Option<String>,
    /// A JSON file of speedscope.
    pub speedscope: Option<String>,
    /// A JSON file of the Firefox Profiler.
    pub firefox: Option<String>,
    /// A directory for the files of each thread.
    pub per_thread: Option<String>,
    /// Whether idle threads are left out of all of these.
    pub busy: bool,
}

/// Arguments of `run`.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct RunArguments {
    pub script: ScriptArguments,
    /// Files for the stacks of maps.
    pub stacks: StackFiles,
    /// The command of `-c`.
    pub command: Option<String>,
    /// The user to run the command as.
    pub run_as: RunAs,
    /// The file of `-o`.
    pub output: Option<String>,
    /// Output format.
    pub format: Format,
    /// Print no line about attached probes.
    pub quiet: bool,
    /// Stages to print instead of running.
    pub dump: Vec<Stage>,
    /// Stop once all probes are attached.
    pub dry_run: bool,
    /// Which probes to run.
    pub mode: Mode,
    /// Whether test results are coloured.
    pub coloured: bool,
    /// Treat any loss as an error.
    pub strict: bool,
    /// Report the cost of the probes.
    pub stats: bool,
    /// Stop after this long.
    pub duration: Option<Duration>,
    /// Keep rows of several processes separate even if they print alike.
    pub rows_apart: bool,
    /// Print no progress line.
    pub no_progress: bool,
    /// A line to print to standard output once all probes are attached.
    pub handshake: Option<&'static str>,
}

/// Arguments of `flame`.
#[derive(Debug)]
pub(crate) struct FlameArguments {
    /// A file of folded lines, or two: before and after.
    pub files: Vec<String>,
    /// Whether the picture of a difference is that of the first file.
    pub is_reversed: bool,
    /// Whether to draw text for the terminal.
    pub is_icicle: bool,
    /// Whether idle threads are left out.
    pub is_busy: bool,
    /// The SVG file.
    pub output: Option<String>,
}

/// Arguments of `list`.
#[derive(Debug)]
pub(crate) struct ListArguments {
    /// A probe, possibly with `*`, or `None` for all.
    pub pattern: Option<String>,
    /// The process whose files are searched if the pattern names none.
    pub pid: Option<u32>,
    /// Print names and types of arguments.
    pub verbose: bool,
}

/// Arguments of `build`.
#[derive(Debug)]
pub(crate) struct BuildArguments {
    pub script: ScriptArguments,
    /// The object file.
    pub output: Option<String>,
}

/// Arguments of `check`.
#[derive(Debug)]
pub(crate) struct CheckArguments {
    pub script: ScriptArguments,
    /// Print a JSON document.
    pub json: bool,
}

/// Arguments of `doctor`.
#[derive(Debug)]
pub(crate) struct DoctorArguments {
    /// The script to examine; `None` to examine the machine.
    pub script: Option<ScriptArguments>,
    /// The command of `-c`.
    pub command: Option<String>,
    /// The user to run the command as.
    pub run_as: RunAs,
    /// How long the script is watched.
    pub duration: Option<Duration>,
    /// Print a JSON document.
    pub json: bool,
}

/// Arguments of `fmt`.
#[derive(Debug)]
pub(crate) struct FormatArguments {
    /// The scripts; `-` is standard input.
    pub files: Vec<String>,
    /// Only report which ones would change.
    pub check: bool,
}
