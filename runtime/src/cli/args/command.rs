//! What to do, and with what.
//!
//! In: nothing. Out: the commands and their arguments, as the command line or a foreign one of them gives them.
//! Guarantee: what stands in a field was understood; whether it exists is for the command to find out.

use std::time::Duration;

use clap_complete::Shell;

use crate::cli::engine::{Format, Mode, Stage};
use crate::cli::script::Origin;

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
    Doctor(DoctorArguments),
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
    /// No line about how far the run is.
    pub no_progress: bool,
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

/// Arguments of `doctor`.
#[derive(Debug)]
pub struct DoctorArguments {
    /// The script that it is about; none for all that the machine can do.
    pub script: Option<ScriptArguments>,
    /// The command of `-c`.
    pub command: Option<String>,
    /// For how long the script is watched.
    pub duration: Option<Duration>,
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
