//! Standard output and error of a run.
//!
//! In: nothing. Out: writers that do not block forever on a stalled reader once a signal arrives;
//! what the terminal on standard output can do.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

use profiler_output::screen::Terminal;
use profiler_runtime::sys::patient::Patient;
use profiler_runtime::sys::terminal;

use super::exit::Failure;

/// Mode of result files: they contain data about other users' processes, so only the owner may read
/// them.
const OWNER_ONLY: u32 = 0o600;

/// The writer for results.
pub(super) fn output() -> Result<Box<dyn Write>, Failure> {
    opened("standard output", Patient::standard_output())
}

/// The writer for notes about results.
pub(super) fn notes() -> Result<Box<dyn Write>, Failure> {
    opened("standard error", Patient::standard_error())
}

/// A file for results, which only its owner can read.
pub(super) fn result_file(path: &str) -> Result<File, Failure> {
    let failed = |error: io::Error| Failure::output(&format!("`{path}`"), &error);
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(path).map_err(failed)?;
    if file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o777 != OWNER_ONLY) {
        file.set_permissions(Permissions::from_mode(OWNER_ONLY)).map_err(failed)?;
    }
    Ok(file)
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
