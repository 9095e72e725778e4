//! `profiler list` and `profiler cat`: list probes of this machine and recipes; print a recipe.
//!
//! In: a pattern. Out: one recipe or probe per line on standard output, with `-v` each probe's
//! arguments or each recipe's examples below it; the text of a recipe.
//! Guarantee: a closed pipe (`| head`) ends it silently.

use profiler_output::escaping::Escaping;
use std::io::{BufWriter, IsTerminal as _, Write, stdout};

use super::args::ListArguments;
use super::exit::{Failure, OK};
use super::script::modules;
use super::{engine, parameters};

/// Lists probes.
pub(super) fn list(arguments: &ListArguments) -> Result<u8, Failure> {
    let out: Box<dyn Write> =
        if stdout().is_terminal() { Box::new(Escaping::new(stdout().lock())) } else { Box::new(stdout().lock()) };
    let mut out = BufWriter::new(out);
    let pattern = arguments.pattern.as_deref();
    let modules = match pattern {
        Some("modules") => parameters::list_modules("*"),
        Some("recipes") => parameters::list_recipes(arguments.verbose),
        Some(pattern) if !pattern.contains(':') && pattern != "*" => parameters::list_modules(pattern),
        _ => String::new(),
    };
    out.write_all(modules.as_bytes()).map_err(|error| Failure::output("standard output", &error))?;
    if !matches!(pattern, Some("modules" | "recipes")) {
        let listed = engine::list(pattern, arguments.pid, arguments.verbose, &mut out);
        // A pattern without matching probes is an error only if no recipe matches either.
        if modules.is_empty() {
            listed?;
        }
    }
    out.flush().map_err(|error| Failure::output("standard output", &error))?;
    Ok(OK)
}

/// `profiler cat RECIPE`: prints the text of a standard library module.
pub(super) fn cat(name: &str) -> Result<u8, Failure> {
    let (_, text) = modules::named(name).ok_or_else(|| modules::missing("recipe", name))?;
    stdout().lock().write_all(text.as_bytes()).map_err(|error| Failure::output("standard output", &error))?;
    Ok(OK)
}
