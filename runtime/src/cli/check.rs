//! `profiler check`: says what is wrong with a script and loads nothing.
//!
//! In: a script. Out: diagnostics on standard error; nothing when it is right.
//! Guarantee: needs no privilege where the kernel's types and tracepoints are readable.

use std::io::{Write, stderr};

use super::args::ScriptArguments;
use super::engine::{self, Compiled};
use super::exit::{Failure, OK};
use super::{colour_wanted, diagnostics, parameters};

/// Checks a script.
pub fn check(arguments: &ScriptArguments) -> Result<u8, Failure> {
    let source = arguments.origin.load()?;
    let arguments = &parameters::settle(arguments, &source)?;
    let Compiled { object, warnings } = engine::compile(&source, arguments, None)?;
    let mut stderr = stderr().lock();
    // A closed standard error has no reader; the exit code says the same.
    let _ = stderr.write_all(diagnostics::render(&source, &warnings, colour_wanted()).as_bytes());
    if arguments.verbose {
        let (programs, maps) = (object.programs.len(), object.maps.len());
        engine::say_how_functions_are_probed(&object, &mut stderr);
        engine::say_what_maps_take(&object, &mut stderr);
        let _ = writeln!(stderr, "{}: {programs} programs, {maps} maps, no errors", source.name);
    }
    Ok(OK)
}
