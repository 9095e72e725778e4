//! The `profiler` command: passes its arguments to [`commands`] and exits with the returned exit
//! code.
//!
//! In: the process's arguments, its standard streams. Out: an exit code (see [`commands::exit`]).
//! Guarantee: no panic and no signal on a closed pipe; a closed pipe ends the command silently.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use profiler_cli::commands;

fn main() -> ExitCode {
    ExitCode::from(commands::main(std::env::args_os()))
}
