//! Standard output and error of a run.
//!
//! In: nothing. Out: writers that do not block forever on a stalled reader once a signal arrives;
//! what the terminal on standard output can do.

use std::io::{self, IsTerminal as _, Write};

use profiler_output::screen::Terminal;
use profiler_runtime::sys::patient::Patient;
use profiler_runtime::sys::terminal;

use super::exit::Failure;

/// The writer for results.
pub(super) fn output() -> Result<Box<dyn Write>, Failure> {
    opened("standard output", Patient::standard_output())
}

/// The writer for notes about results.
pub(super) fn notes() -> Result<Box<dyn Write>, Failure> {
    opened("standard error", Patient::standard_error())
}

/// The terminal on standard output; `None` if standard output is something else.
pub(super) fn terminal() -> Option<Terminal> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|value| value == "dumb" || value.is_empty());
    Some(Terminal { has_codes: !is_dumb, has_colour: !is_dumb && !is_set("NO_COLOR"), size: terminal::size })
}

fn opened(name: &str, stream: io::Result<Patient>) -> Result<Box<dyn Write>, Failure> {
    stream.map(|stream| Box::new(stream) as Box<dyn Write>).map_err(|error| Failure::output(name, &error))
}
