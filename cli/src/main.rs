//! The `profiler` command: passes its arguments to [`commands`] and exits with the returned exit
//! code. Under the name of the process that reads files, it is that process.
//!
//! In: the process's arguments, its standard streams. Out: an exit code (see [`commands::exit`]).
//! Guarantee: no panic and no signal on a closed pipe; a closed pipe ends the command silently.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use profiler_cli::commands;
use profiler_runtime::reader::{NAME, serve};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().peekable();
    if arguments.next_if(|name| name == NAME).is_some() {
        let most_bytes = arguments.next().and_then(|bytes| bytes.to_str()?.parse().ok()).unwrap_or_default();
        // It ends when its parent has nothing to ask any more, which is not told from an error.
        return serve::serve(most_bytes).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    ExitCode::from(commands::main(arguments))
}
