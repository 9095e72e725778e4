//! Standard output and error of a run.
//!
//! In: nothing. Out: writers that do not block forever on a stalled reader once a signal arrives;
//! what the terminal on standard output can do.

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

use profiler_output::screen::Terminal;
use profiler_runtime::result_file::{ALL_READ, OWNER_ONLY, ResultFile};
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

/// A file for results, which only its owner can read.
pub(super) fn result_file(path: &str) -> Result<ResultFile, Failure> {
    create(path, OWNER_ONLY)
}

/// A file for a compiled script.
pub(super) fn object_file(path: &str) -> Result<ResultFile, Failure> {
    create(path, ALL_READ)
}

fn create(path: &str, mode: u32) -> Result<ResultFile, Failure> {
    ResultFile::create(Path::new(path), mode).map_err(|error| Failure::output(&format!("`{path}`"), &error))
}

/// Writes such a file as a whole.
pub(super) fn write_file(
    path: &str,
    file: ResultFile,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    file.write_whole(write).map_err(|error| Failure::output(&format!("`{path}`"), &error))
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
