//! The `profiler` command: hands its arguments to [`cli`] and ends with the exit code that comes back.
//!
//! In: the process's arguments, its standard streams. Out: an exit code (see [`cli::exit`]).
//! Guarantee: no panic and no signal on a closed pipe; a reader that goes away ends the command quietly.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cli::main(std::env::args_os()))
}
