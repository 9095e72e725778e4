//! Where the command meets the compiler and the runtime: the only file of `cli` that calls them.
//!
//! In: arguments as the user gave them. Out: an object, a listing, or a run's exit code.
//! Guarantee: every refusal comes back as a [`Failure`] with the exit code that the command documents.

use std::io::Write;

use profiler_compiler::btf::BtfId;
use profiler_compiler::check::Options;
use profiler_compiler::object::Object;
use profiler_compiler::source::Source;
use profiler_compiler::target::Target;
use profiler_compiler::{CATALOGUE, ast_print, compile as pipeline, emit, ir};
use profiler_runtime::child::Child;
use profiler_runtime::elf;
use profiler_runtime::host::Host;
use profiler_runtime::list::{self, ListError};
use profiler_runtime::load::{self, LoadError};
use profiler_runtime::render::Render;
use profiler_runtime::render::json::Json;
use profiler_runtime::render::text::Text;
use profiler_runtime::session::{self, RunError, RunOptions};
use profiler_runtime::symbols::HostSymbols;

use super::args::{RunArguments, ScriptArguments};
use super::exit::{Failure, MISTAKE, REFUSED};

pub use profiler_compiler::Compiled;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON document a line.
    Json,
}

/// A noun of the pipeline that `-d` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The syntax tree.
    Ast,
    /// The program with all names resolved and all types known.
    Typed,
    /// The intermediate representation, optimised.
    Ir,
    /// The BPF instructions.
    Bpf,
    /// The object's sections, symbols and maps.
    Elf,
    /// What the kernel's verifier says of it.
    Verifier,
}

impl Stage {
    /// All names, in the order of the pipeline.
    pub const NAMES: [&'static str; 6] = ["ast", "typed", "ir", "bpf", "elf", "verifier"];

    /// The stage with this name.
    pub fn named(name: &str) -> Option<Stage> {
        let all = [Stage::Ast, Stage::Typed, Stage::Ir, Stage::Bpf, Stage::Elf, Stage::Verifier];
        Stage::NAMES.iter().position(|n| *n == name).and_then(|index| all.get(index).copied())
    }
}

/// Compiles for this machine. `child` is the process of `-c`.
pub fn compile(source: &Source, script: &ScriptArguments, child: Option<u32>) -> Result<Compiled, Failure> {
    let host = Host::new();
    let compiled = pipeline::compile(source, &CATALOGUE, &host, &options(script, child));
    compiled.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })
}

fn options(script: &ScriptArguments, child_pid: Option<u32>) -> Options {
    Options { pid: script.pid, child_pid, positional: script.parameters.clone(), allow_unsafe: script.allow_unsafe }
}

/// What `stage` makes of the script.
pub fn dump(stage: Stage, source: &Source, script: &ScriptArguments) -> Result<String, Failure> {
    let host = Host::new();
    let stages = pipeline::stages(source, &CATALOGUE, &host, &options(script, None));
    let stages = stages.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })?;
    Ok(match stage {
        Stage::Ast => ast_print::print(&stages.ast),
        Stage::Typed => format!("{:#?}\n", stages.typed),
        Stage::Ir => ir::print::print(&stages.ir),
        Stage::Bpf => emit::listing(&stages.emitted, &stages.ir, source),
        Stage::Elf => elf::describe(&stages.emitted.elf),
        Stage::Verifier => verifier_logs(&stages.emitted.elf)?,
    })
}

fn verifier_logs(elf: &[u8]) -> Result<String, Failure> {
    let loaded = load::load(elf, load::LoadOptions { verifier_log: true });
    let loaded = loaded.map_err(|error| refused(&RunError::Load(error)))?;
    let section = |(program, log): (&str, String)| format!("program {program}:\n{log}\n");
    Ok(loaded.verifier_logs().into_iter().map(section).collect())
}

/// The command of `-c`, started and stopped before its first instruction.
pub fn start(command: &str) -> Result<Child, Failure> {
    Child::spawn_stopped(command).map_err(|error| Failure::new(MISTAKE, error.to_string()))
}

/// Runs an object until it ends; results go to `out`. Returns the command's exit code: the script's own, or the one for
/// losses when it ended well, something was lost and `--strict` was given.
pub fn run(
    object: &Object,
    arguments: &RunArguments,
    child: Option<Child>,
    out: Box<dyn Write>,
) -> Result<u8, Failure> {
    let host = Host::new();
    let enumerator = |id: BtfId, number: i64| {
        let btf = host.btf()?;
        btf.enumerators(id).find(|(_, value)| *value == number).map(|(name, _)| name.to_string())
    };
    let options = RunOptions {
        pid: arguments.script.pid,
        child,
        quiet: arguments.quiet,
        dry_run: arguments.dry_run,
        duration: arguments.duration,
        strict: arguments.strict,
        allow_unsafe: arguments.script.allow_unsafe,
        enumerator: Some(&enumerator),
    };
    let mut render: Box<dyn Render> = match arguments.format {
        Format::Text => Box::new(Text::new(out, Box::new(std::io::stderr()), arguments.quiet)),
        Format::Json => Box::new(Json::new(out, arguments.quiet)),
    };
    let symbols = HostSymbols::new();
    let outcome = session::run(object, options, render.as_mut(), &symbols).map_err(|error| refused(&error))?;
    for note in symbols.take_notes() {
        eprintln!("note: {note}");
    }
    Ok(outcome.exit_code)
}

/// A refusal of the machine, in words; one of the verifier is our bug and keeps its log.
fn refused(error: &RunError) -> Failure {
    match error {
        RunError::Load(LoadError::Verifier(refusal)) => {
            let line = refusal.line.map_or(String::new(), |line| format!(" at line {line}: {}", refusal.text));
            let words = format!("the kernel refused program {}{line}", refusal.program);
            let help = format!(
                "the script is right; this is a bug in profiler. Please report it with this log:\n{}\n{}",
                refusal.reason, refusal.log
            );
            Failure::new(REFUSED, words).help(help)
        }
        RunError::NoProcess(_) | RunError::Child(_) => Failure::new(MISTAKE, error.to_string()),
        _ => Failure::new(REFUSED, error.to_string()),
    }
}

/// Writes the probes that match a pattern, one a line.
pub fn list(pattern: Option<&str>, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let host = Host::new();
    match list::list(&host, pattern, verbose, out) {
        Ok(0) => {
            let words = format!("nothing here matches `{}`", pattern.unwrap_or("*"));
            Err(Failure::new(MISTAKE, words)
                .help("`*` stands for any characters: `profiler list 'tracepoint:sched:*'`"))
        }
        Ok(_) => Ok(()),
        Err(ListError::Output(error)) => Err(Failure::output("standard output", &error)),
        Err(error) => Err(Failure::new(MISTAKE, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::Stage;

    #[test]
    fn every_stage_has_its_name() {
        for (name, stage) in Stage::NAMES.iter().zip(["Ast", "Typed", "Ir", "Bpf", "Elf", "Verifier"]) {
            assert_eq!(Stage::named(name).map(|s| format!("{s:?}")).as_deref(), Some(stage));
        }
        assert_eq!(Stage::named("llvm"), None);
    }
}
