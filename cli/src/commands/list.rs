//! `profiler list` and `profiler cat`: list probes of this machine and recipes; print a recipe.
//!
//! In: a pattern. Out: one recipe or probe per line on standard output, with `-v` each probe's
//! arguments below it; the text of a recipe.
//! Guarantee: a closed pipe (`| head`) ends it silently.

use profiler_output::escaping::Escaping;
use std::io::{BufWriter, IsTerminal as _, Write, stdout};

use super::args::ListArguments;
use super::exit::{Failure, OK, USAGE};
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
        Some(pattern) if !pattern.contains(':') && pattern != "*" => parameters::list_modules(pattern),
        _ => String::new(),
    };
    out.write_all(modules.as_bytes()).map_err(|error| Failure::output("standard output", &error))?;
    if pattern != Some("modules") {
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
    let Some((_, text)) = modules::named(name) else {
        let failure = Failure::new(USAGE, format!("there is no recipe `{name}`"));
        return Err(match modules::nearest(name) {
            Some(near) => failure.help(format!("did you mean `{near}`?")),
            None => failure.help("`profiler list modules` lists them"),
        });
    };
    stdout().lock().write_all(text.as_bytes()).map_err(|error| Failure::output("standard output", &error))?;
    Ok(OK)
}
