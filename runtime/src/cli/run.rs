//! `profiler run`: compile, load, attach, collect, print.
//!
//! In: its arguments. Out: results on standard output or in the file of `-o`, the script's exit code.
//! Guarantee: the output file is touched only when the script compiles.

use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;

use super::args::RunArguments;
use super::engine::{self, Compiled};
use super::exit::{Failure, MISTAKE, OK, REFUSED};
use super::{built, diagnostics, parameters};

/// Runs a script, or an object that was built of one.
pub fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    let built = built::open(&arguments.script.origin)?;
    let source = match &built {
        Some(built) => built.source().clone(),
        None => arguments.script.origin.load()?,
    };
    let mut script = parameters::settle(&arguments.script, &source)?;
    if let Some(built) = &built {
        script = built.arguments(&script)?;
    }
    let arguments = &RunArguments { script, ..arguments.clone() };
    if arguments.script.named.iter().any(|(name, _)| name == "help") {
        return show(&parameters::describe(&source)?);
    }
    if !arguments.dump.is_empty() {
        for stage in &arguments.dump {
            show(&engine::dump(*stage, &source, &arguments.script)?)?;
        }
        return Ok(OK);
    }
    process_exists(arguments.script.pid)?;
    let child = arguments.command.as_deref().map(engine::start).transpose()?;
    let child_pid = child.as_ref().map(profiler_runtime::child::Child::pid);
    let (Compiled { object, warnings }, values) = match &built {
        Some(built) => {
            built.compile(&arguments.script, child_pid).map(|(compiled, values)| (compiled, Some(values)))?
        }
        None => {
            let compiled = engine::compile(&source, &arguments.script, child_pid);
            (compiled.map_err(with_what_else_is_lacking)?, None)
        }
    };
    // Those of an object were told when it was built.
    if !warnings.is_empty() && !arguments.script.no_warnings && built.is_none() {
        // A closed standard error has no reader to warn.
        let _ = std::io::stderr().write_all(diagnostics::render(&source, &warnings, super::look()).as_bytes());
    }
    if arguments.script.verbose {
        engine::say_how_functions_are_probed(&object, &mut std::io::stderr());
    }
    engine::run(&source, &object, values, arguments, child, output(arguments.output.as_deref())?)
}

/// Who may not read what the script is about may often load nothing either: both are said at once.
fn with_what_else_is_lacking(failure: Failure) -> Failure {
    let lacking = profiler_runtime::doctor::lacking_to_load();
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

fn process_exists(pid: Option<u32>) -> Result<(), Failure> {
    match pid {
        Some(pid) if !Path::new(&format!("/proc/{pid}")).exists() => {
            Err(Failure::new(MISTAKE, format!("there is no process {pid}")).help("`pgrep -a NAME` finds its number"))
        }
        Some(pid) if has_ended(pid) => Err(Failure::new(MISTAKE, format!("process {pid} has ended"))),
        _ => Ok(()),
    }
}

/// Whether only the exit status of a process is left, which its parent has not asked for. A process whose first thread has ended
/// looks the same, but still has others.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_zombie = stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with(['Z', 'X']));
    is_zombie && std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() < 2)
}

fn output(path: Option<&str>) -> Result<Box<dyn Write>, Failure> {
    let Some(path) = path else { return Ok(Box::new(stdout())) };
    let file = File::create(path).map_err(|error| Failure::output(&format!("`{path}`"), &error))?;
    Ok(Box::new(file))
}

#[cfg(test)]
mod tests {
    use super::{output, process_exists};

    #[test]
    fn a_process_that_is_gone_is_told_before_anything_is_loaded() {
        assert!(process_exists(None).is_ok());
        assert!(process_exists(Some(std::process::id())).is_ok());
        // Linux gives no number above 2^22.
        let failure = process_exists(Some(1 << 23)).expect_err("no such process");
        assert!(failure.render(false).starts_with("error: there is no process 8388608\n"));
    }

    #[test]
    fn an_output_file_that_cannot_be_made_is_explained() {
        let words = output(Some("/no/such/folder/x")).err().map(|failure| failure.render(false));
        let expected = "error: cannot write to `/no/such/folder/x`: there is no such file or directory\n";
        assert_eq!(words.as_deref(), Some(expected));
    }
}
