//! Where the command meets the compiler and the runtime: the only file of `cli` that calls them.
//!
//! In: arguments as the user gave them. Out: an object, a listing, or a run's exit code.
//! Guarantee: every refusal comes back as a [`Failure`] with the exit code that the command documents.

use std::io::Write;

use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::object::Object;
use profiler_compiler::source::Source;
use profiler_compiler::words::Catalogue;

use super::args::{RunArguments, ScriptArguments};
use super::exit::{Failure, REFUSED};

/// The words of the language.
pub const CATALOGUE: Catalogue = Catalogue { builtins: &[], functions: &[], aggregations: &[] };

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

/// A script that compiled.
#[derive(Debug)]
pub struct Compiled {
    /// What the runtime loads.
    pub object: Object,
    /// What deserves attention.
    pub warnings: Vec<Diagnostic>,
}

/// Compiles for this machine.
pub fn compile(_source: &Source, script: &ScriptArguments) -> Result<Compiled, Failure> {
    let _ = (&script.parameters, script.pid, script.allow_unsafe);
    Err(unfinished())
}

/// What `stage` makes of the script.
pub fn dump(_stage: Stage, _source: &Source, _script: &ScriptArguments) -> Result<String, Failure> {
    Err(unfinished())
}

/// Runs an object until it ends; results go to `out`. Returns the script's exit code.
pub fn run(_object: &Object, arguments: &RunArguments, _out: Box<dyn Write>) -> Result<u8, Failure> {
    let _ = (&arguments.command, arguments.format, arguments.quiet, arguments.duration);
    let _ = (arguments.dry_run, arguments.strict);
    Err(unfinished())
}

/// Writes the probes that match a pattern, one a line.
pub fn list(_pattern: Option<&str>, _verbose: bool, _out: &mut dyn Write) -> Result<(), Failure> {
    Err(unfinished())
}

fn unfinished() -> Failure {
    Failure::new(REFUSED, "this build of profiler holds no compiler and no runtime")
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
