//! `profiler run`: compile, load, attach, collect, print.
//!
//! In: its arguments. Out: results on standard output or in the file of `-o`, the script's exit
//! code.
//! Guarantee: the output file is touched only when the script compiles.

use std::io::{Write, stdout};
use std::path::Path;

use super::args::RunArguments;
use super::engine::{self, Compiled};
use super::exit::{Failure, MISTAKE, OK, REFUSED};
use super::{built, diagnostics, parameters, streams, thread_files};

/// Runs a script, or a prebuilt object.
pub(super) fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    let built = built::open(&arguments.script.origin)?;
    let source = match &built {
        Some(built) => built.source().clone(),
        None => arguments.script.load()?,
    };
    let mut script = arguments.script.clone();
    // An error in the script is reported when it is compiled.
    if arguments.stacks.per_thread.is_some()
        && let Some(taken) = built.as_ref().map_or_else(|| engine::taken(&source).ok(), |built| Some(built.taken()))
    {
        script = thread_files::keeping_apart(&script, &taken);
    }
    let script = match &built {
        Some(built) => built.arguments(&script)?,
        None => parameters::settle(&script, &source)?,
    };
    let arguments = &RunArguments { script, ..arguments.clone() };
    if arguments.script.named.iter().any(|(name, _)| name == "help") {
        return show(&built.map_or_else(|| parameters::describe(&source), |built| Ok(built.describe()))?);
    }
    if !arguments.dump.is_empty() {
        for stage in &arguments.dump {
            show(&engine::dump(*stage, &source, &arguments.script)?)?;
        }
        return Ok(OK);
    }
    arguments.script.processes.pids.iter().try_for_each(|pid| process_exists(*pid))?;
    if !arguments.quiet {
        for note in arguments.script.processes.notes() {
            // A closed standard error has no reader.
            let _ = writeln!(std::io::stderr(), "note: {note}");
        }
    }
    let child = arguments
        .command
        .as_deref()
        .map(|command| engine::start(&arguments.script, command, (&arguments.run_as, arguments.quiet)))
        .transpose()?;
    let child_pid = child.as_ref().map(profiler_runtime::child::Child::pid);
    // Warnings of an object were printed when it was built.
    let (object, warnings, values) = match built {
        Some(built) => {
            let (object, values) = built.prepare(&arguments.script, child_pid)?;
            (object, Vec::new(), Some(values))
        }
        None => {
            let compiled = engine::compile(&source, &arguments.script, child_pid);
            let Compiled { object, warnings } = compiled.map_err(with_what_else_is_lacking)?;
            (object, warnings, None)
        }
    };
    if !warnings.is_empty() && !arguments.script.no_warnings {
        // A closed standard error has no reader.
        let _ = std::io::stderr().write_all(diagnostics::render(&source, &warnings, super::colours::look()).as_bytes());
    }
    if arguments.script.verbose {
        engine::say_how_functions_are_probed(&object, &mut std::io::stderr());
    }
    let program = engine::Program { source: &source, object: &object, values };
    engine::run(program, arguments, child, output(arguments.output.as_deref())?)
}

/// A user who cannot read what the script needs often cannot load programs either: both are
/// reported at once.
fn with_what_else_is_lacking(failure: Failure) -> Failure {
    let lacking = crate::doctor::lacking_to_load();
    if lacking.is_empty() || failure.code() != REFUSED {
        return failure;
    }
    let Failure::Script { source, mut diagnostics } = failure else { return failure };
    if let Some(first) = diagnostics.iter_mut().find(|diagnostic| diagnostic.is_error()) {
        let words = format!("this process also lacks {}, without which nothing is loaded", lacking.join(" and "));
        first.help = Some(first.help.take().map_or(words.clone(), |help| format!("{help}\n{words}")));
    }
    Failure::Script { source, diagnostics }
}

fn show(text: &str) -> Result<u8, Failure> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map(|()| OK).map_err(|error| Failure::output("standard output", &error))
}

fn process_exists(pid: u32) -> Result<(), Failure> {
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return Err(
            Failure::new(MISTAKE, format!("there is no process {pid}")).help("`pgrep -a NAME` finds its number")
        );
    }
    if has_ended(pid) {
        return Err(Failure::new(MISTAKE, format!("process {pid} has ended")));
    }
    Ok(())
}

/// Whether a process is a zombie. A process whose first thread has ended looks the same, but still
/// has other threads.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_zombie = stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with(['Z', 'X']));
    is_zombie && std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() < 2)
}

/// Where results go: a file that only its owner can read, or standard output.
fn output(path: Option<&str>) -> Result<Box<dyn Write>, Failure> {
    match path {
        Some(path) => Ok(Box::new(streams::result_file(path)?)),
        None => streams::output(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{output, process_exists};

    #[test]
    fn a_process_that_is_gone_is_told_before_anything_is_loaded() {
        assert!(process_exists(std::process::id()).is_ok());
        // Linux assigns no number above 2^22.
        let failure = process_exists(1 << 23).expect_err("no such process");
        assert!(failure.render(false).starts_with("error: there is no process 8388608\n"));
    }

    #[test]
    fn files_of_results_are_for_their_owner_only() {
        let path = std::env::temp_dir().join(format!("profiler-output-{}", std::process::id()));
        let text = path.to_str().expect("text");
        for _ in 0..2 {
            let mut file = output(Some(text)).unwrap_or_else(|failure| panic!("{}", failure.render(false)));
            file.write_all(b"x").expect("written");
            let mode = || std::fs::metadata(&path).expect("it was made").permissions().mode() & 0o777;
            assert_eq!(mode(), 0o600);
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own");
            assert_eq!(mode(), 0o644);
        }
        std::fs::remove_file(&path).expect("our own");
        assert!(output(Some("/dev/null")).is_ok());
    }

    #[test]
    fn an_output_file_that_cannot_be_made_is_explained() {
        let words = output(Some("/no/such/directory/x")).err().map(|failure| failure.render(false));
        let expected = "error: cannot write to `/no/such/directory/x`: there is no such file or directory\n";
        assert_eq!(words.as_deref(), Some(expected));
    }
}
