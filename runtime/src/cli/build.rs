//! `profiler build`: the object file, for bpftool, llvm-objdump and other loaders.
//!
//! In: a script. Out: a relocatable BPF ELF file, with what it was made from, so that `run` takes it with other values.
//! Guarantee: the file is written whole or, when the script does not compile, not at all.

use std::io::{Write, stderr};
use std::path::Path;

use super::args::BuildArguments;
use super::engine::{self, Compiled};
use super::exit::{Failure, OK, USAGE};
use super::script::Origin;
use super::{built, diagnostics, parameters};

/// Builds an object file.
pub fn build(arguments: &BuildArguments) -> Result<u8, Failure> {
    let target = target(arguments.output.as_deref(), &arguments.script.origin)?;
    let source = arguments.script.origin.load()?;
    let script = parameters::settle(&arguments.script, &source)?;
    let Compiled { object, warnings } = engine::compile(&source, &script, None)?;
    // A closed standard error has no reader to warn.
    let _ = stderr().write_all(diagnostics::render(&source, &warnings, super::look()).as_bytes());
    let elf = built::complete(&object.elf, &source, &script)?;
    std::fs::write(&target, elf).map_err(|error| Failure::output(&format!("`{target}`"), &error))?;
    Ok(OK)
}

/// The file to write: the one asked for, else one named after the script in the current folder.
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
    use crate::cli::script::Origin;

    #[test]
    fn the_object_is_named_after_the_script() {
        let named = |output, origin| target(output, &origin).ok();
        assert_eq!(named(None, Origin::File("a/b.prof".into())).as_deref(), Some("b.bpf.o"));
        assert_eq!(named(Some("x"), Origin::File("b.prof".into())).as_deref(), Some("x"));
        assert_eq!(named(None, Origin::File("-".into())), None);
        assert_eq!(named(None, Origin::Inline("BEGIN { }".into())), None);
    }
}
