//! The command-line front end of compiler and runtime: parses arguments, runs commands, prints
//! messages.
//!
//! In: the command line. Out: an exit code. One file per command; `dropin` is bpftrace's command
//! line; only `engine` calls the compiler and the runtime.
//! Guarantee: every user error is reported on standard error with advice.

mod args;
mod build;
mod built;
mod cache;
mod check;
mod colours;
mod costs;
pub mod diagnostics;
mod doctor;
mod dropin;
mod engine;
mod excerpt;
pub mod exit;
mod flame;
mod fmt;
mod generated;
mod help;
mod list;
mod lsp;
mod maps;
mod parameters;
mod positions;
mod processes;
mod progress;
mod repl;
mod run;
mod run_as;
mod script;
mod script_arguments;
mod shells;
mod stack_files;
mod streams;
mod thread_files;

use std::ffi::OsString;
use std::io::Write;

use profiler_runtime::sys::patient::Patient;

use args::Command;
use exit::Failure;

/// Runs the command for `arguments` (the first is the program's own name) and returns its exit
/// code.
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
        Command::Cat(recipe) => list::cat(&recipe),
        Command::Explain(code) => help::explain(&code),
        Command::Completions(shell) => generated::completions(shell),
        Command::Man(command) => generated::man(command.as_deref()),
        Command::Repl => repl::repl(),
        Command::Format(arguments) => fmt::fmt(&arguments),
        Command::Flame(arguments) => flame::flame(&arguments),
        Command::LanguageServer => lsp::lsp(),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Licenses => generated::licenses(),
        Command::Help(topic) => help::help(topic.as_deref()),
    }
}

/// Prints a failure to standard error. Nothing to do if standard error is closed.
fn report(failure: &Failure) {
    let text = failure.render(colours::look());
    let _ = Patient::standard_error().and_then(|mut stderr| stderr.write_all(text.as_bytes()));
}
