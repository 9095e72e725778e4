//! The shell around compiler and runtime: arguments in, calls out, messages and exit code back.
//!
//! In: the command line. Out: an exit code. One file a command; [`dropin`] is the command line of bpftrace; [`engine`] is the only one that calls the compiler and the
//! runtime.
//! Guarantee: everything a user did wrong ends in a message that says what to do, on standard error.

mod args;
mod behind;
mod build;
mod built;
mod check;
mod diagnostics;
mod doctor;
mod dropin;
mod engine;
mod excerpt;
pub mod exit;
mod fmt;
mod generated;
mod help;
mod list;
mod lsp;
mod maps;
mod parameters;
mod places;
mod progress;
mod repl;
mod run;
mod script;
mod shells;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use profiler_runtime::sys::terminal;

use args::Command;
use diagnostics::Look;
use exit::Failure;

/// Runs the command that `arguments` ask for (the first is the program's own name) and says how it ended.
pub fn main(arguments: impl Iterator<Item = OsString>) -> u8 {
    let mut arguments = arguments.peekable();
    if arguments.peek().is_some_and(|name| dropin::is_called(name)) {
        return dropin::main(arguments);
    }
    let outcome = match args::parse(arguments) {
        Ok(command) => dispatch(command),
        Err(message) => return message.print(),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            report(&failure);
            failure.code()
        }
    }
}

fn dispatch(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::List(arguments) => list::list(&arguments),
        Command::Build(arguments) => build::build(&arguments),
        Command::Explain(code) => help::explain(&code),
        Command::Completions(shell) => generated::completions(shell),
        Command::Man(command) => generated::man(command.as_deref()),
        Command::Repl => repl::repl(),
        Command::Format(arguments) => fmt::fmt(&arguments),
        Command::LanguageServer => lsp::lsp(),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Help(topic) => help::help(topic.as_deref()),
    }
}

/// Writes what went wrong to standard error. A standard error that is closed has no reader to disappoint.
fn report(failure: &Failure) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(failure.render(look()).as_bytes());
}

/// Whether results show colours: they go to a terminal that does.
fn results_are_coloured(to_file: bool) -> bool {
    !to_file && colours_allowed() && std::io::stdout().is_terminal()
}

/// Whether standard error shows colours.
fn colour_wanted() -> bool {
    colours_allowed() && std::io::stderr().is_terminal()
}

/// How diagnostics are shown on standard error.
fn look() -> Look {
    let width = std::io::stderr().is_terminal().then(terminal::size).flatten().map(|(columns, _)| columns);
    Look { colour: colour_wanted(), width }
}

/// Whether a terminal may be sent colours: `NO_COLOR` (<https://no-color.org>) is unset or empty, and it knows them.
fn colours_allowed() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && !dumb
}
