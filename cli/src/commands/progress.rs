//! Decides whether a run shows a progress line.
//!
//! In: the arguments of `run`, and the types of the standard streams. Out: an output wrapped with
//! the progress line, or unchanged.
//! Guarantee: only profiler writes to the terminal while the line is shown: no command of `-c`, and
//! no process after a pipe.

use std::io::{IsTerminal as _, stderr, stdout};

use profiler_model::output::Output;
use profiler_output::progress::ProgressLine;
use profiler_runtime::session::Mode;
use profiler_runtime::sys::terminal;

use super::args::RunArguments;

/// Whether to show the progress line.
pub(super) fn is_wanted(arguments: &RunArguments) -> bool {
    let is_for_people = !arguments.no_progress && !arguments.quiet && arguments.command.is_none();
    let is_long = arguments.mode == Mode::Trace && !arguments.dry_run;
    is_for_people
        && is_long
        && has_codes()
        && stderr().is_terminal()
        && (goes_to_file(arguments) || stdout().is_terminal())
}

/// Wraps an output with the progress line.
pub(super) fn in_front_of(output: Box<dyn Output>, arguments: &RunArguments) -> Box<dyn Output> {
    if !is_wanted(arguments) {
        return output;
    }
    let is_shared = !goes_to_file(arguments);
    Box::new(ProgressLine::new(output, Box::new(stderr()), terminal::width_of_standard_error, is_shared))
}

/// Whether results go to a file, by `-o` or by shell redirection.
fn goes_to_file(arguments: &RunArguments) -> bool {
    arguments.output.is_some() || std::fs::metadata("/proc/self/fd/1").is_ok_and(|file| file.is_file())
}

fn has_codes() -> bool {
    std::env::var_os("TERM").is_some_and(|value| value != "dumb" && !value.is_empty())
}
