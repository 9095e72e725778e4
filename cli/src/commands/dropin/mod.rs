//! Drop-in mode: the command invoked as `bpftrace`, with its command line, messages and exit codes,
//! on our engine.
//!
//! In: arguments that people and automation pass to bpftrace. Out: what bpftrace prints for
//! them, and its exit codes: 0, or 1 for a failure before the script runs (2 if it is in what is
//! given besides the script, 255 if nothing is attached), otherwise the script's own.
//! Guarantee: an option that has no meaning here (headers, LLVM) is accepted if ignoring it does
//! not change the results, and otherwise rejected with the reason. Diagnostics of scripts are ours,
//! because they contain more.

mod arguments;
mod info;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{Write, stderr, stdout};
use std::path::Path;

use profiler_compiler::CATALOGUE;
use profiler_compiler::catalogue::ProbeKind;

use arguments::{Action, Arguments, Listing};

use super::args::{RunArguments, traceable_functions};
use super::colours::colour_wanted;
use super::exit::{Failure, MISTAKE, NOTHING_ATTACHED, OK, USAGE};
use super::script::Origin;
use super::{diagnostics, engine, fmt, run, streams};

/// The bpftrace version whose language and output we implement; automation parses it.
const VERSION: &str = concat!("bpftrace v0.27.1 (profiler ", env!("CARGO_PKG_VERSION"), ")\n");

/// The environment variable that requests a line once all probes are attached, and that line.
const HANDSHAKE: &str = "__BPFTRACE_NOTIFY_PROBES_ATTACHED";

/// Whether the command was invoked as `bpftrace`.
pub(super) fn is_called(name: &OsStr) -> bool {
    Path::new(name).file_name().is_some_and(|name| name == "bpftrace")
}

/// Executes the command line; the first argument is the program's own name.
pub(super) fn main(arguments: impl Iterator<Item = OsString>) -> u8 {
    let outcome = match arguments::parse(arguments) {
        Ok(action) => act(action),
        Err(notice) => return notice.print(),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            report(&failure);
            exit_code(&failure)
        }
    }
}

/// The exit code that bpftrace has for a failure.
fn exit_code(failure: &Failure) -> u8 {
    match failure {
        Failure::Script { diagnostics: found, .. } if found.iter().any(diagnostics::is_outside) => USAGE,
        Failure::Message(message) if message.exit == NOTHING_ATTACHED => NOTHING_ATTACHED,
        other if other.code() == OK => OK,
        _ => MISTAKE,
    }
}

/// Prints a failure: command-line errors worded as in bpftrace, script errors as diagnostics.
fn report(failure: &Failure) {
    let text = match failure {
        Failure::Message(message) => {
            let help = message.help.as_ref().map_or(String::new(), |help| format!("HINT: {help}\n"));
            format!("ERROR: {}\n{help}", message.words)
        }
        other => other.render(colour_wanted()),
    };
    // Nothing to do if standard error is closed.
    let _ = stderr().lock().write_all(text.as_bytes());
}

fn act(action: Action) -> Result<u8, Failure> {
    match action {
        Action::Print(text) => print(&text),
        Action::Version => print(VERSION),
        Action::Info => print(&info::report()),
        Action::List(listing) => list(&listing),
        Action::Format(origin) => print(&in_blanks(&fmt::form(&origin)?.0)),
        Action::Run(arguments) => run_script(*arguments),
    }
}

/// A script indented by two blanks, as bpftrace does, instead of tabs.
fn in_blanks(text: &str) -> String {
    let line = |line: &str| {
        let rest = line.trim_start_matches('\t');
        format!("{}{rest}", "  ".repeat(line.len() - rest.len()))
    };
    text.split_inclusive('\n').map(line).collect::<Vec<String>>().concat()
}

fn print(text: &str) -> Result<u8, Failure> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map(|()| OK).map_err(|error| Failure::output("standard output", &error))
}

fn list(listing: &Listing) -> Result<u8, Failure> {
    let mut text = Vec::new();
    match listing {
        Listing::Patterns { patterns, pid, verbose, traceable } => {
            for pattern in patterns {
                engine::list_all(pattern, *pid, *verbose, &mut text)?;
            }
            if let Some(path) = traceable {
                text = only_traceable(&text, &traceable_functions(path)?);
            }
        }
        Listing::Script(script) => {
            let source = script.load()?;
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

/// A listing without the kernel's functions that may not be traced, and without their arguments,
/// which are indented.
fn only_traceable(listing: &[u8], traceable: &HashSet<String>) -> Vec<u8> {
    let mut is_kept = true;
    let mut kept = |line: &&[u8]| {
        if !line.starts_with(b" ") {
            is_kept = engine::is_traceable(String::from_utf8_lossy(line).trim_end(), traceable);
        }
        is_kept
    };
    listing.split_inclusive(|byte| *byte == b'\n').filter(|line| kept(line)).flatten().copied().collect()
}

/// A probe's name as in listings: without counts and rates, which are not part of the name.
fn listed(probe: &str) -> String {
    let mut parts: Vec<&str> = probe.split(':').collect();
    let has_rate = parts.first().and_then(|kind| CATALOGUE.probe(kind)).is_some_and(ProbeKind::ends_with_rate);
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
    let wants_help = run.script.named.iter().any(|(name, _)| name == "help");
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
    let code = run::run(&run)?;
    Ok(if wants_help { MISTAKE } else { code })
}

/// `--emit-elf`: writes the object without running it.
fn write_object(run: &RunArguments, path: &str) -> Result<u8, Failure> {
    let source = run.script.load()?;
    let compiled = engine::compile(&source, &run.script, None)?;
    let _ = stderr().write_all(diagnostics::render(&source, &compiled.warnings, colour_wanted()).as_bytes());
    streams::write_file(path, streams::object_file(path)?, |out| out.write_all(&compiled.object.elf))?;
    Ok(OK)
}

/// The script of `-e`, or a file.
fn origin(program: Option<String>, file: Option<String>) -> Option<Origin> {
    match (program, file) {
        (Some(text), _) => Some(Origin::Foreign(text)),
        (None, Some(path)) => Some(Origin::File(path)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{is_called, listed, only_traceable};

    #[test]
    fn the_name_decides() {
        assert!(is_called("/usr/local/bin/bpftrace".as_ref()));
        assert!(!is_called("/usr/bin/profiler".as_ref()));
        assert!(!is_called("bpftrace-0.17".as_ref()));
    }

    #[test]
    fn functions_that_may_not_be_traced_are_not_listed() {
        let listing = b"kprobe:vfs_read\nfentry:vmlinux:vfs_write\n    struct file * file\nfentry:vmlinux:vfs_read\n    size_t count\ntracepoint:a:b\n";
        let kept = only_traceable(listing, &HashSet::from(["vfs_read".to_owned()]));
        let expected = "kprobe:vfs_read\nfentry:vmlinux:vfs_read\n    size_t count\ntracepoint:a:b\n";
        assert_eq!(String::from_utf8_lossy(&kept), expected);
    }

    #[test]
    fn rates_are_not_part_of_a_listed_name() {
        assert_eq!(listed("hardware:cache-misses:10"), "hardware:cache-misses:\n");
        assert_eq!(listed("interval:s:1"), "interval:s:\n");
        assert_eq!(listed("tracepoint:xdp:mem_connect"), "tracepoint:xdp:mem_connect\n");
    }
}
