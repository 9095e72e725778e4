//! `profiler build`: writes an object file for bpftool, llvm-objdump and other loaders.
//!
//! In: a script. Out: a relocatable BPF ELF file that includes its description, so `run` accepts it
//! with other parameter values.
//! Guarantee: the file is written completely, or not at all if the script does not compile.

use std::io::{Write, stderr};
use std::path::Path;

use super::args::BuildArguments;
use super::engine;
use super::exit::{Failure, OK, USAGE};
use super::script::Origin;
use super::{built, diagnostics, parameters, streams};

/// Builds an object file.
pub(super) fn build(arguments: &BuildArguments) -> Result<u8, Failure> {
    let target = target(arguments.output.as_deref(), &arguments.script.origin)?;
    let source = arguments.script.origin.load()?;
    let script = parameters::settle(&arguments.script, &source)?;
    let prebuilt = engine::prebuild(&source, &script)?;
    // A closed standard error has no reader to warn.
    let _ = stderr().write_all(diagnostics::render(&source, &prebuilt.warnings, super::colours::look()).as_bytes());
    let elf = built::complete(prebuilt, &source, &script)?;
    streams::write_file(&target, streams::object_file(&target)?, |out| out.write_all(&elf))?;
    Ok(OK)
}

/// The output file: the given one, otherwise one named after the script in the current directory.
fn target(output: Option<&str>, origin: &Origin) -> Result<String, Failure> {
    if let Some(output) = output {
        return Ok(output.into());
    }
    let stem = match origin {
        Origin::File(path) => Path::new(path).file_stem().filter(|stem| *stem != "-"),
        Origin::Inline(_) | Origin::Foreign(_) => None,
    };
    match stem {
        Some(stem) => Ok(format!("{}.bpf.o", stem.to_string_lossy())),
        None => Err(Failure::new(USAGE, "the object needs a name").help("add `-o NAME.bpf.o`")),
    }
}

#[cfg(test)]
mod tests {
    use super::target;
    use crate::commands::script::Origin;

    #[test]
    fn the_object_is_named_after_the_script() {
        let named = |output, origin| target(output, &origin).ok();
        assert_eq!(named(None, Origin::File("a/b.prof".into())).as_deref(), Some("b.bpf.o"));
        assert_eq!(named(Some("x"), Origin::File("b.prof".into())).as_deref(), Some("x"));
        assert_eq!(named(None, Origin::File("-".into())), None);
        assert_eq!(named(None, Origin::Inline("BEGIN { }".into())), None);
    }
}
