//! Whether a run shows how far it is.
//!
//! In: the arguments of `run`, and what the standard streams are. Out: a renderer with the line in front of it, or as it was.
//! Guarantee: nobody but profiler writes to the terminal while the line is there: no command of `-c`, nobody behind a pipe.

use std::io::{IsTerminal as _, stderr, stdout};

use profiler_runtime::render::Render;
use profiler_runtime::render::progress::ProgressLine;
use profiler_runtime::session::Mode;
use profiler_runtime::sys::terminal;

use super::args::RunArguments;

/// Whether the line is wanted.
pub fn is_wanted(arguments: &RunArguments) -> bool {
    let is_for_people = !arguments.no_progress && !arguments.quiet && arguments.command.is_none();
    let is_long = arguments.mode == Mode::Trace && !arguments.dry_run;
    is_for_people
        && is_long
        && has_codes()
        && stderr().is_terminal()
        && (goes_to_file(arguments) || stdout().is_terminal())
}

/// Puts the line in front of a renderer.
pub fn in_front_of(render: Box<dyn Render>, arguments: &RunArguments) -> Box<dyn Render> {
    if !is_wanted(arguments) {
        return render;
    }
    let is_shared = !goes_to_file(arguments);
    Box::new(ProgressLine::new(render, Box::new(stderr()), terminal::width_of_standard_error, is_shared))
}

/// Whether results go to a file, by `-o` or by the shell.
fn goes_to_file(arguments: &RunArguments) -> bool {
    arguments.output.is_some() || std::fs::metadata("/proc/self/fd/1").is_ok_and(|file| file.is_file())
}

fn has_codes() -> bool {
    std::env::var_os("TERM").is_some_and(|value| value != "dumb" && !value.is_empty())
}
