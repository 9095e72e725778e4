//! The command called by the name `bpftrace`: its command line, its messages, its exit codes, our engine.
//!
//! In: the arguments that people and their automation give bpftrace. Out: what bpftrace 0.26 prints for them, and its exit
//! codes: 0, or 1 for whatever went wrong before the script ran, else the script's own.
//! Guarantee: an option that means nothing here (headers, LLVM) is accepted when leaving it out changes no result, and is
//! refused with its reason when it does. Diagnostics of scripts are ours: they say more.

mod arguments;
mod info;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Write, stderr, stdout};
use std::path::Path;

use arguments::{Action, Arguments, Listing};

use super::args::RunArguments;
use super::exit::{Failure, MISTAKE, OK};
use super::script::Origin;
use super::{colour_wanted, diagnostics, engine, fmt, run};

/// The version of bpftrace whose language and output these are; automation reads it.
const VERSION: &str = concat!("bpftrace v0.26.1 (profiler ", env!("CARGO_PKG_VERSION"), ")\n");

/// What the environment asks to be told when all probes are attached, and the line that tells it.
const HANDSHAKE: &str = "__BPFTRACE_NOTIFY_PROBES_ATTACHED";

/// Whether the command was called by the other name.
pub fn is_called(name: &OsStr) -> bool {
    Path::new(name).file_name().is_some_and(|name| name == "bpftrace")
}

/// Does what the command line says; the first argument is the program's own name.
pub fn main(arguments: impl Iterator<Item = OsString>) -> u8 {
    let outcome = match arguments::parse(arguments) {
        Ok(action) => act(action),
        Err(notice) => return notice.print(),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            report(&failure);
            if failure.code() == OK { OK } else { MISTAKE }
        }
    }
}

/// Writes what went wrong: what concerns the command line as bpftrace words it, what concerns the script as a diagnostic.
fn report(failure: &Failure) {
    let text = match failure {
        Failure::Message(message) => {
            let help = message.help.as_ref().map_or(String::new(), |help| format!("HINT: {help}\n"));
            format!("ERROR: {}\n{help}", message.words)
        }
        other => other.render(colour_wanted()),
    };
    // A standard error that is closed has no reader to disappoint.
    let _ = stderr().lock().write_all(text.as_bytes());
}

fn act(action: Action) -> Result<u8, Failure> {
    match action {
        Action::Print(text) => print(&text),
        Action::Version => print(VERSION),
        Action::Info => print(&info::report()),
        Action::List(listing) => list(&listing),
        Action::Format(origin) => fmt::print(&origin),
        Action::Run(arguments) => run_script(*arguments),
    }
}

fn print(text: &str) -> Result<u8, Failure> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map(|()| OK).map_err(|error| Failure::output("standard output", &error))
}

fn list(listing: &Listing) -> Result<u8, Failure> {
    let mut text = Vec::new();
    match listing {
        Listing::Patterns { patterns, pid, verbose } => {
            for pattern in patterns {
                engine::list_all(pattern, *pid, *verbose, &mut text)?;
            }
        }
        Listing::Script(script) => {
            let source = script.origin.load()?;
            let compiled = engine::compile(&source, script, None)?;
            let mut probes: Vec<&String> =
                compiled.object.programs.iter().flat_map(|program| &program.probes).collect();
            probes.dedup();
            for probe in probes {
                text.extend_from_slice(listed(probe).as_bytes());
            }
        }
    }
    let mut out = stdout().lock();
    let written = out.write_all(&text).and_then(|()| out.flush());
    written.map(|()| OK).map_err(|error| Failure::output("standard output", &error))
}

/// A probe as listings have it: without counts and rates, which are not part of its name.
fn listed(probe: &str) -> String {
    let mut parts: Vec<&str> = probe.split(':').collect();
    let has_rate = matches!(parts.first(), Some(&("interval" | "profile" | "software" | "hardware")));
    if has_rate && parts.len() > 2 {
        parts.truncate(2);
        return format!("{}:\n", parts.join(":"));
    }
    format!("{probe}\n")
}

fn run_script(arguments: Arguments) -> Result<u8, Failure> {
    let Arguments { mut run, object, dry_dump } = arguments;
    if let Origin::File(path) = &run.script.origin
        && path != "-"
        && !Path::new(path).exists()
    {
        return Err(Failure::new(MISTAKE, format!("failed to open file '{path}': No such file or directory")));
    }
    if let Some(path) = object {
        return write_object(&run, &path);
    }
    if !run.dump.is_empty() {
        let code = run::run(&run)?;
        if dry_dump {
            return Ok(code);
        }
        run.dump.clear();
    }
    if std::env::var_os(HANDSHAKE).is_some() {
        run.handshake = Some(HANDSHAKE);
    }
    run::run(&run)
}

/// `--emit-elf`: the object, and no run.
fn write_object(run: &RunArguments, path: &str) -> Result<u8, Failure> {
    let source = run.script.origin.load()?;
    let compiled = engine::compile(&source, &run.script, None)?;
    let _ = stderr().write_all(diagnostics::render(&source, &compiled.warnings, colour_wanted()).as_bytes());
    let written = File::create(path).and_then(|mut file| file.write_all(&compiled.object.elf));
    written.map(|()| OK).map_err(|error| Failure::output(&format!("`{path}`"), &error))
}

/// The script of `-e` or a file.
fn origin(program: Option<String>, file: Option<String>) -> Option<Origin> {
    match (program, file) {
        (Some(text), _) => Some(Origin::Foreign(text)),
        (None, Some(path)) => Some(Origin::File(path)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{is_called, listed};

    #[test]
    fn the_name_decides() {
        assert!(is_called("/usr/local/bin/bpftrace".as_ref()));
        assert!(!is_called("/usr/bin/profiler".as_ref()));
        assert!(!is_called("bpftrace-0.17".as_ref()));
    }

    #[test]
    fn rates_are_not_part_of_a_listed_name() {
        assert_eq!(listed("hardware:cache-misses:10"), "hardware:cache-misses:\n");
        assert_eq!(listed("interval:s:1"), "interval:s:\n");
        assert_eq!(listed("tracepoint:xdp:mem_connect"), "tracepoint:xdp:mem_connect\n");
    }
}
