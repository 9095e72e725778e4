//! Where the command meets the compiler and the runtime: the only file of `cli` that calls them.
//!
//! In: arguments as the user gave them. Out: an object, a listing, or a run's exit code.
//! Guarantee: every refusal comes back as a [`Failure`] with the exit code that the command documents.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use profiler_compiler::btf::BtfId;
use profiler_compiler::check::Options;
use profiler_compiler::check::parameters::{self, Parameter, Value};
use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::object::Object;
use profiler_compiler::source::{Source, Span};
use profiler_compiler::target::Target;
use profiler_compiler::{CATALOGUE, ast_print, compile as pipeline, emit, expand, ir, parse, typed_print};
use profiler_runtime::child::Child;
use profiler_runtime::elf;
use profiler_runtime::host::Host;
use profiler_runtime::list::{self, ListError};
use profiler_runtime::load::{self, LoadError, Refusal};
use profiler_runtime::render::Render;
use profiler_runtime::render::json::Json;
use profiler_runtime::render::text::Text;
use profiler_runtime::session::{self, RunError, RunOptions};
use profiler_runtime::symbols::HostSymbols;

use super::args::{RunArguments, ScriptArguments};
use super::exit::{Failure, MISTAKE, REFUSED};

pub use profiler_compiler::Compiled;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON document a line.
    Json,
}

/// A noun of the pipeline that `-d` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The syntax tree.
    Ast,
    /// The program with all names resolved and all types known.
    Typed,
    /// The intermediate representation, optimised.
    Ir,
    /// The BPF instructions.
    Bpf,
    /// The object's sections, symbols and maps.
    Elf,
    /// What the kernel's verifier says of it.
    Verifier,
}

impl Stage {
    /// All names, in the order of the pipeline.
    pub const NAMES: [&'static str; 6] = ["ast", "typed", "ir", "bpf", "elf", "verifier"];

    /// The stage with this name.
    pub fn named(name: &str) -> Option<Stage> {
        let all = [Stage::Ast, Stage::Typed, Stage::Ir, Stage::Bpf, Stage::Elf, Stage::Verifier];
        Stage::NAMES.iter().position(|n| *n == name).and_then(|index| all.get(index).copied())
    }
}

/// Compiles for this machine. `child` is the process of `-c`.
pub fn compile(source: &Source, script: &ScriptArguments, child: Option<u32>) -> Result<Compiled, Failure> {
    let host = Host::new();
    let compiled = pipeline::compile(source, &CATALOGUE, &host, &options(script, child));
    compiled.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })
}

fn options(script: &ScriptArguments, child_pid: Option<u32>) -> Options {
    Options {
        pid: script.pid,
        child_pid,
        positional: script.parameters.clone(),
        named: script.named.clone(),
        allow_unsafe: script.allow_unsafe,
    }
}

/// The parameters that a script takes by name, for people.
pub fn describe_parameters(source: &Source) -> Result<String, Failure> {
    let script = parse::parse(source).and_then(expand::expand);
    let script = script.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })?;
    let parameters = parameters::declared(&script);
    if parameters.is_empty() {
        return Ok(format!("{} takes no parameters by name\n", source.name));
    }
    let usage = |parameter: &Parameter| match &parameter.default {
        Value::Bool(_) => format!("--{}", parameter.name),
        Value::Int(_) => format!("--{}=NUMBER", parameter.name),
        Value::Str(_) => format!("--{}=TEXT", parameter.name),
    };
    let default = |parameter: &Parameter| match &parameter.default {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Str(text) => format!("\"{}\"", String::from_utf8_lossy(text)),
    };
    let width = parameters.iter().map(|parameter| usage(parameter).len()).max().unwrap_or(0);
    let mut text = format!("{}: parameters, to be given behind `--`\n", source.name);
    for parameter in &parameters {
        let gap = if parameter.description.is_empty() { "" } else { " " };
        let (usage, words, default) = (usage(parameter), &parameter.description, default(parameter));
        text.push_str(format!("  {usage:<width$}  {words}{gap}[default: {default}]").trim_end());
        text.push('\n');
    }
    Ok(text)
}

/// What `stage` makes of the script.
pub fn dump(stage: Stage, source: &Source, script: &ScriptArguments) -> Result<String, Failure> {
    let host = Host::new();
    let stages = pipeline::stages(source, &CATALOGUE, &host, &options(script, None));
    let stages = stages.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })?;
    Ok(match stage {
        Stage::Ast => ast_print::print(&stages.ast),
        Stage::Typed => typed_print::print(&stages.typed, host.btf()),
        Stage::Ir => ir::print::print(&stages.ir),
        Stage::Bpf => emit::listing(&stages.emitted, &stages.ir, source),
        Stage::Elf => elf::describe(&stages.emitted.elf),
        Stage::Verifier => verifier_logs(source, &stages.emitted.elf)?,
    })
}

fn verifier_logs(source: &Source, elf: &[u8]) -> Result<String, Failure> {
    let loaded = load::load(elf, load::LoadOptions { verifier_log: true });
    let loaded = loaded.map_err(|error| refused(source, &RunError::Load(error)))?;
    let section = |(program, log): (&str, String)| format!("program {program}:\n{log}\n");
    Ok(loaded.verifier_logs().into_iter().map(section).collect())
}

/// The command of `-c`, started and stopped before its first instruction.
pub fn start(command: &str) -> Result<Child, Failure> {
    Child::spawn_stopped(command).map_err(|error| Failure::new(MISTAKE, error.to_string()))
}

/// Runs an object until it ends; results go to `out`. Returns the command's exit code: the script's own, or the one for
/// losses when it ended well, something was lost and `--strict` was given.
pub fn run(
    source: &Source,
    object: &Object,
    arguments: &RunArguments,
    child: Option<Child>,
    out: Box<dyn Write>,
) -> Result<u8, Failure> {
    let host = Host::new();
    let enumerator = |id: BtfId, number: i64| {
        let btf = host.btf()?;
        btf.enumerators(id).find(|(_, value)| *value == number).map(|(name, _)| name.to_string())
    };
    let options = RunOptions {
        pid: arguments.script.pid,
        child,
        quiet: arguments.quiet,
        dry_run: arguments.dry_run,
        duration: arguments.duration,
        strict: arguments.strict,
        allow_unsafe: arguments.script.allow_unsafe,
        enumerator: Some(&enumerator),
        when_attached: Some(&|| ready(arguments.handshake)),
    };
    let mut render: Box<dyn Render> = match arguments.format {
        Format::Text => Box::new(Text::new(out, Box::new(std::io::stderr()), arguments.quiet)),
        Format::Json => Box::new(Json::new(out, arguments.quiet)),
    };
    let symbols = HostSymbols::new();
    let outcome = session::run(object, options, render.as_mut(), &symbols).map_err(|error| match error {
        RunError::Output(error) => {
            let target = arguments.output.as_ref().map_or("standard output".into(), |path| format!("`{path}`"));
            Failure::output(&target, &error)
        }
        error => refused(source, &error),
    })?;
    for note in symbols.take_notes() {
        // A closed standard error has no reader to tell.
        let _ = writeln!(std::io::stderr(), "note: {note}");
    }
    Ok(outcome.exit_code)
}

/// Tells whoever waits for it that all probes are attached: a reader of `handshake`, and the service manager of
/// <https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>. Nobody may be listening.
fn ready(handshake: Option<&str>) {
    if let Some(line) = handshake {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(b"READY=1", &address);
    }
}

/// What a run that failed means to its user.
fn refused(source: &Source, error: &RunError) -> Failure {
    match error {
        RunError::Load(LoadError::Privilege { .. }) => Failure::new(REFUSED, error.to_string())
            .help("run it as root, or give the binary `cap_bpf,cap_perfmon,cap_dac_read_search+ep` with setcap"),
        RunError::Load(LoadError::Verifier(refusal)) => verifier_refusal(source, refusal),
        RunError::NoProcess(_) | RunError::Child(_) => Failure::new(MISTAKE, error.to_string()),
        _ => Failure::new(REFUSED, error.to_string()),
    }
}

/// Says that the verifier's patience ended before the program did.
fn is_too_complex(refusal: &Refusal) -> bool {
    ["BPF program is too large", "jumps is too complex"].iter().any(|words| refusal.reason.contains(words))
}

/// A refusal by the verifier is a bug of ours: it is shown at the line where the verifier gave up, with the log to report.
/// Only what is too much for the verifier is the script's.
fn verifier_refusal(source: &Source, refusal: &Refusal) -> Failure {
    let span = refusal.line.map_or(Span::new(0, 0), |line| line_span(source, line));
    if is_too_complex(refusal) {
        let diagnostic = Diagnostic::error(Code(510), span, "program too large")
            .label("the kernel's verifier gave up here: there are too many paths to follow")
            .help("split the block into several probes, or look values up in a map instead of comparing one by one");
        return Failure::Script { source: source.clone(), diagnostics: vec![diagnostic] };
    }
    let path = std::env::temp_dir().join(format!("profiler-verifier-{}.log", std::process::id()));
    // Never through a link that somebody else laid there.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let log = match file.and_then(|mut file| file.write_all(refusal.log.as_bytes())) {
        Ok(()) => format!("please report it with the script and the log in {}", path.display()),
        Err(error) => format!("please report it with the script and the output of `-d verifier` ({error})"),
    };
    let diagnostic = Diagnostic::error(Code(690), span, "the kernel's verifier refused what the compiler made of this")
        .label(refusal.reason.clone())
        .help(format!("this is a bug in profiler, not in the script; {log}"));
    Failure::Script { source: source.clone(), diagnostics: vec![diagnostic] }
}

/// A line without its indentation.
fn line_span(source: &Source, line: u32) -> Span {
    let start: usize = source.text.split_inclusive('\n').take(line.saturating_sub(1) as usize).map(str::len).sum();
    let text = source.line(line);
    let indent = text.len() - text.trim_start().len();
    Span::new(start + indent, start + text.trim_end().len().max(indent))
}

/// Writes the probes or the types that match a pattern of bpftrace, where a pattern without a match is an empty list.
pub fn list_all(pattern: &str, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let host = Host::new();
    let listed = match pattern.split_once(' ') {
        Some(("struct" | "union" | "enum", _)) => list::types(&host, pattern, verbose, out),
        _ => list::list(&host, Some(pattern), verbose, out),
    };
    match listed {
        Err(ListError::Output(error)) => Err(Failure::output("standard output", &error)),
        Ok(_) | Err(ListError::Target { .. }) => Ok(()),
        Err(error) => Err(Failure::new(MISTAKE, error.to_string())),
    }
}

/// Writes the probes that match a pattern, one a line.
pub fn list(pattern: Option<&str>, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let host = Host::new();
    match list::list(&host, pattern, verbose, out) {
        Ok(0) => {
            let words = format!("nothing here matches `{}`", pattern.unwrap_or("*"));
            Err(Failure::new(MISTAKE, words)
                .help("`*` stands for any characters: `profiler list 'tracepoint:sched:*'`"))
        }
        Ok(_) => Ok(()),
        Err(ListError::Output(error)) => Err(Failure::output("standard output", &error)),
        Err(error) => Err(Failure::new(MISTAKE, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use profiler_compiler::source::Source;
    use profiler_runtime::load::Refusal;

    use super::{Stage, verifier_refusal};

    #[test]
    fn a_program_beyond_the_verifier_is_too_large_and_no_bug() {
        let source = Source::new("s", "BEGIN {\n  if (nsecs) { }\n}\n");
        let refusal = |reason: &str| Refusal {
            program: "p0".into(),
            line: Some(2),
            text: String::new(),
            reason: reason.into(),
            log: String::new(),
        };
        for reason in ["BPF program is too large. Processed 1000001 insn", "The sequence of 8193 jumps is too complex."]
        {
            let failure = verifier_refusal(&source, &refusal(reason));
            let text = failure.render(false);
            assert!(text.starts_with("error[E0510]: program too large\n --> s:2:3\n"), "{text}");
            assert!(!text.contains("bug") && failure.code() == 1, "{text}");
        }
    }

    #[test]
    fn every_stage_has_its_name() {
        for (name, stage) in Stage::NAMES.iter().zip(["Ast", "Typed", "Ir", "Bpf", "Elf", "Verifier"]) {
            assert_eq!(Stage::named(name).map(|s| format!("{s:?}")).as_deref(), Some(stage));
        }
        assert_eq!(Stage::named("llvm"), None);
    }
}
