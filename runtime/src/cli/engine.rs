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
use super::exit::{Failure, LOSS, OK};

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
pub fn compile(source: &Source, script: &ScriptArguments) -> Result<Compiled, Failure> {
    seam::compile(source, script).map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })
}

/// What `stage` makes of the script.
pub fn dump(stage: Stage, source: &Source, script: &ScriptArguments) -> Result<String, Failure> {
    let Compiled { object, .. } = compile(source, script)?;
    Ok(format!("{stage:?} of {object:?}\n"))
}

/// Runs an object until it ends; results go to `out`. Returns the command's exit code: the script's own, or [`LOSS`] when it
/// ended well, something was lost and `--strict` was given.
pub fn run(object: &Object, arguments: &RunArguments, out: Box<dyn Write>) -> Result<u8, Failure> {
    let (code, has_loss) = seam::run(object, arguments, out)?;
    Ok(if code == OK && has_loss && arguments.strict { LOSS } else { code })
}

/// Writes the probes that match a pattern, one a line.
pub fn list(pattern: Option<&str>, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
    seam::list(pattern, verbose, out)
}

/// What stands here until the compiler and the runtime are joined.
mod seam {
    use profiler_compiler::diagnostic::{Code, Diagnostic};
    use profiler_compiler::object::Object;
    use profiler_compiler::source::{Source, Span};

    use super::{Compiled, Failure, RunArguments, ScriptArguments, Write};
    use crate::cli::exit::REFUSED;

    const WORDS: &str = "this build of profiler holds no compiler and no runtime";

    pub fn compile(source: &Source, script: &ScriptArguments) -> Result<Compiled, Vec<Diagnostic>> {
        let _ = (&script.parameters, script.pid, script.allow_unsafe);
        Err(vec![Diagnostic::error(Code(699), Span::new(0, source.text.len()), WORDS)])
    }

    pub fn run(_: &Object, arguments: &RunArguments, _: Box<dyn Write>) -> Result<(u8, bool), Failure> {
        let _ = (&arguments.command, arguments.format, arguments.quiet, arguments.duration, arguments.dry_run);
        Err(Failure::new(REFUSED, WORDS))
    }

    pub fn list(_: Option<&str>, _: bool, _: &mut dyn Write) -> Result<(), Failure> {
        Err(Failure::new(REFUSED, WORDS))
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
