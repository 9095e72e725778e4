//! Where the command meets the compiler and the runtime: the only file of `cli` that calls them.
//!
//! In: arguments as the user gave them. Out: an object, a listing, or a run's exit code.
//! Guarantee: every refusal comes back as a [`Failure`] with the exit code that the command documents.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

use profiler_compiler::ast::{Public, PublicKind};
use profiler_compiler::check::parameters::{self, Parameter};
use profiler_compiler::check::{self, MissingProbes, Options, ProbeFilter};
use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::object::Object;
use profiler_compiler::params::Param;
use profiler_compiler::source::{Source, Span};
use profiler_compiler::target::{Target, TargetError};
use profiler_compiler::view::View;
use profiler_compiler::{CATALOGUE, ast_print, compile as pipeline, emit, expand, ir, parse, typed_print};
use profiler_runtime::child::Child;
use profiler_runtime::elf;
use profiler_runtime::host::Host;
use profiler_runtime::list::{self, ListError};
use profiler_runtime::load::{self, LoadError, Loaded, Refusal};
use profiler_runtime::orders::Orders;
use profiler_runtime::params::Values;
use profiler_runtime::render::csv::Csv;
use profiler_runtime::render::json::Json;
use profiler_runtime::render::screen::Terminal;
use profiler_runtime::render::text::Text;
use profiler_runtime::render::{Place, Render};
use profiler_runtime::session::{self, RunError, RunOptions};
use profiler_runtime::symbols::HostSymbols;
use profiler_runtime::sys::regex::Regex;

use super::args::{RunArguments, ScriptArguments};
use super::exit::{Failure, MISTAKE, REFUSED};
use super::script::Origin;
use super::{maps, progress};

pub use profiler_compiler::Compiled;
pub use profiler_runtime::session::Mode;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON document a line.
    Json,
    /// Tables as comma-separated values.
    Csv,
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
    compile_with(source, script, child, settings())
}

/// The same with other settings than those of the environment.
pub fn compile_with(
    source: &Source,
    script: &ScriptArguments,
    child: Option<u32>,
    settings: Vec<(String, String)>,
) -> Result<Compiled, Failure> {
    let host = Host::new();
    let mut options = Options { settings, ..options(script, child) };
    options.probe_filter = script.probe_filter.as_deref().map(probe_filter).transpose()?;
    let compiled = pipeline::compile(source, &CATALOGUE, &host, &options);
    compiled.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })
}

/// Compiles for a machine that is asked again and again; yields what is wrong or deserves attention, and the types as text when all
/// is right.
pub fn examine(source: &Source, script: &ScriptArguments, host: &Host) -> (Vec<Diagnostic>, Option<String>) {
    match pipeline::stages(source, &CATALOGUE, host, &options(script, None)) {
        Ok(stages) => (stages.warnings, Some(typed_print::print(&stages.typed, host.btf()))),
        Err(diagnostics) => (diagnostics, None),
    }
}

/// Settings of the environment.
pub fn settings() -> Vec<(String, String)> {
    // Names and values that are no text are no settings.
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let settings = std::env::vars_os().filter_map(text);
    settings.filter_map(|(name, value)| Some((name.strip_prefix("BPFTRACE_")?.to_lowercase(), value))).collect()
}

/// What the command line says to the compiler.
pub fn options(script: &ScriptArguments, child_pid: Option<u32>) -> Options {
    Options {
        pid: script.pid,
        child_pid,
        positional: script.parameters.clone(),
        named: script.named.clone(),
        allow_unsafe: script.allow_unsafe,
        report_failures: script.report_failures,
        probe_filter: None,
        settings: settings(),
        missing_in_programs: match &script.origin {
            // Scripts of bpftrace name functions of many versions of a library; it has long left out what is missing.
            Origin::File(path) if Path::new(path).extension().is_some_and(|suffix| suffix == "bt") => {
                MissingProbes::Warn
            }
            _ => MissingProbes::Error,
        },
    }
}

/// The probes whose names match.
fn probe_filter(pattern: &str) -> Result<ProbeFilter, Failure> {
    let regex = Regex::new(pattern)
        .map_err(|words| Failure::new(MISTAKE, format!("Invalid --probe-filter regex `{pattern}`: {words}")))?;
    Ok(ProbeFilter::new(move |name| regex.matches(name)))
}

/// What a script takes by name.
#[derive(Debug, Default)]
pub struct Taken {
    /// What it declares with `param`.
    pub params: Vec<Param>,
    /// What it reads with `getopt`.
    pub options: Vec<Parameter>,
}

/// The parameters that a script takes by name.
pub fn taken(source: &Source) -> Result<Taken, Failure> {
    let refused = |diagnostics| Failure::Script { source: source.clone(), diagnostics };
    let script = parse::parse(source).and_then(expand::expand).map_err(refused)?;
    let (params, problems) = check::declared_params(&script, &Host::new());
    if !problems.is_empty() {
        return Err(refused(problems));
    }
    Ok(Taken { params, options: parameters::declared(&script) })
}

/// The parameters that a script declares, with the values that are given.
pub fn given_params(source: &Source, script: &ScriptArguments) -> Result<Vec<Param>, Failure> {
    let refused = |diagnostics| Failure::Script { source: source.clone(), diagnostics };
    let parsed = parse::parse(source).and_then(expand::expand).map_err(refused)?;
    let (params, problems) = check::given_params(&parsed, &options(script, None), &Host::new());
    if problems.is_empty() { Ok(params) } else { Err(refused(problems)) }
}

/// What a module gives to those who use it, as they write it behind its name.
pub fn public_names(text: &str) -> Vec<String> {
    let Ok(script) = parse::parse(&Source::new("", text)) else { return Vec::new() };
    let shown = |public: &Public| match public.kind {
        PublicKind::Macro => {
            let params = script.macros.iter().find(|of| of.name.text == public.name.text).map(|of| {
                let names: Vec<&str> = of.params.iter().map(|param| param.name.text.as_str()).collect();
                names.join(", ")
            });
            format!("{}({})", public.name.text, params.unwrap_or_default())
        }
        PublicKind::Map => format!("@{}", public.name.text),
        PublicKind::Param => format!("${}", public.name.text),
        PublicKind::Span => format!("{}:…", public.name.text),
        PublicKind::View => format!("the view \"{}\"", public.name.text),
    };
    script.public.iter().map(shown).collect()
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
        Stage::Verifier => verifier_logs(source, script, &stages.emitted.elf)?,
    })
}

fn verifier_logs(source: &Source, script: &ScriptArguments, elf: &[u8]) -> Result<String, Failure> {
    let loaded = load::load(elf, load::LoadOptions { verifier_log: true });
    let loaded = loaded.map_err(|error| refused(source, script, None, &RunError::Load(error)))?;
    let section = |(program, log): (&str, String)| format!("program {program}:\n{log}\n");
    Ok(loaded.verifier_logs().into_iter().map(section).collect())
}

/// The command of `-c`, started and stopped before its first instruction.
pub fn start(command: &str) -> Result<Child, Failure> {
    Child::spawn_stopped(command).map_err(|error| Failure::new(MISTAKE, error.to_string()))
}

/// Runs an object until it ends, with other values when they are given; results go to `out`. Returns the command's exit code: the script's own, or the one for
/// losses when it ended well, something was lost and `--strict` was given.
pub fn run(
    source: &Source,
    object: &Object,
    values: Option<Values>,
    arguments: &RunArguments,
    child: Option<Child>,
    out: Box<dyn Write>,
) -> Result<u8, Failure> {
    let child_pid = child.as_ref().map(Child::pid);
    let options = RunOptions {
        pid: arguments.script.pid,
        child,
        quiet: arguments.quiet,
        dry_run: arguments.dry_run,
        duration: arguments.duration,
        strict: arguments.strict,
        mode: arguments.mode,
        stats: arguments.stats,
        allow_unsafe: arguments.script.allow_unsafe,
        when_loaded: None,
        when_attached: Some(&|| ready(arguments.handshake)),
        when_refused: None,
        when_collected: None,
        locate: Some(&|span| Place::of(source, span)),
        orders: None,
        no_warnings: arguments.script.no_warnings,
        progress: progress::is_wanted(arguments),
        values,
    };
    let render: Box<dyn Render> = match arguments.format {
        Format::Text => {
            let terminal = arguments.output.is_none().then(Terminal::of_standard_output).flatten();
            Box::new(
                Text::new(out, Box::new(std::io::stderr()), arguments.quiet)
                    .coloured(arguments.coloured)
                    .on_terminal(terminal),
            )
        }
        Format::Csv => {
            let stderr = || Box::new(std::io::stderr());
            Box::new(Csv::new(out, stderr(), stderr(), arguments.quiet))
        }
        Format::Json => Box::new(Json::new(out, arguments.quiet)),
    };
    let mut render = progress::in_front_of(render, arguments);
    let symbols = HostSymbols::new();
    let outcome = session::run(object, options, render.as_mut(), &symbols).map_err(|error| match error {
        RunError::Output(error) => {
            let target = arguments.output.as_ref().map_or("standard output".into(), |path| format!("`{path}`"));
            Failure::output(&target, &error)
        }
        error => refused(source, &arguments.script, child_pid, &error),
    })?;
    drop(render);
    for note in symbols.take_notes() {
        // A closed standard error has no reader to tell.
        let _ = writeln!(std::io::stderr(), "note: {note}");
    }
    Ok(outcome.exit_code)
}

/// Runs a program of the prompt until it ends or is told to. `loaded` and `attached` are called once it is; `out` makes a place for results and
/// one for notes.
pub fn run_at_prompt(
    source: &Source,
    script: &ScriptArguments,
    orders: Orders,
    loaded: &dyn Fn(&Object, &Loaded) -> io::Result<()>,
    attached: &dyn Fn(&Object),
    out: impl Fn() -> Box<dyn Write>,
) -> Result<u8, Failure> {
    let compiled = compile(source, script, None)?;
    let warnings = super::diagnostics::render(source, &compiled.warnings, super::look());
    // A screen that is gone has no reader.
    let _ = out().write_all(warnings.as_bytes());
    let object = &compiled.object;
    let options = RunOptions {
        quiet: true,
        when_loaded: Some(&|into| loaded(object, into)),
        when_attached: Some(&|| attached(object)),
        locate: Some(&|span| Place::of(source, span)),
        orders: Some(orders),
        ..RunOptions::default()
    };
    let mut render = Text::new(out(), out(), true);
    let outcome = session::run(object, options, &mut render, &HostSymbols::new());
    Ok(outcome.map_err(|error| refused(source, script, None, &error))?.exit_code)
}

/// The last view of a program of the prompt.
pub fn view_at_prompt(source: &Source, script: &ScriptArguments) -> Result<Option<View>, Failure> {
    let stages = pipeline::stages(source, &CATALOGUE, &Host::new(), &options(script, None));
    let stages = stages.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })?;
    Ok(stages.object.views.into_iter().next_back())
}

/// The type of the first variable that a program of the prompt assigns.
pub fn type_at_prompt(source: &Source, script: &ScriptArguments) -> Result<String, Failure> {
    let host = Host::new();
    let stages = pipeline::stages(source, &CATALOGUE, &host, &options(script, None));
    let stages = stages.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })?;
    let variable = stages.typed.probes.first().and_then(|probe| probe.vars.first());
    Ok(variable.map_or_else(String::new, |variable| variable.ty.describe(host.btf())))
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

/// Says of each program at functions in which of the kernel's ways it is attached.
pub fn say_how_functions_are_probed(object: &Object, out: &mut dyn Write) {
    for program in &object.programs {
        let Some(way) = program.attach.function_mechanism() else { continue };
        let probe = program.probes.first().map_or(program.name.as_str(), String::as_str);
        let more = match program.probes.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        // A closed standard error has no reader.
        let _ = writeln!(out, "{probe}{more}: as {way}");
    }
}

/// Says of each map how many keys it may have, and what memory it takes.
pub fn say_what_maps_take(object: &Object, out: &mut dyn Write) {
    // A closed standard error has no reader.
    let _ = out.write_all(maps::table(object).as_bytes());
}

/// What a run that failed means to its user.
fn refused(source: &Source, script: &ScriptArguments, child: Option<u32>, error: &RunError) -> Failure {
    match error {
        RunError::Load(LoadError::Privilege { .. }) => Failure::new(REFUSED, error.to_string())
            .help("run it as root, or give the binary `cap_bpf,cap_perfmon,cap_dac_read_search+ep` with setcap"),
        RunError::Load(LoadError::Verifier(refusal)) => verifier_refusal(source, script, child, refusal),
        RunError::Load(LoadError::TooLarge { .. }) => Failure::new(REFUSED, error.to_string())
            .help("let the maps hold less (`config = { max_map_keys = …; }`), or split the script"),
        RunError::NoProcess(_) | RunError::Child(_) | RunError::NoTrials(_) => Failure::new(MISTAKE, error.to_string()),
        _ => Failure::new(REFUSED, error.to_string()),
    }
}

/// A refusal by the verifier, at the characters of the script that its instruction came from; with `-v`, the whole log first.
fn verifier_refusal(source: &Source, script: &ScriptArguments, child: Option<u32>, refusal: &Refusal) -> Failure {
    if script.verbose {
        // A closed standard error has no reader; the log is in a file too.
        let _ = write!(std::io::stderr(), "the verifier's log of program {}:\n{}\n", refusal.program, refusal.log);
    }
    let kept = if refusal.is_too_complex() { Ok(PathBuf::new()) } else { refusal.keep(&std::env::temp_dir()) };
    let span = refusal.instruction.and_then(|at| span_of(source, script, child, &refusal.program, at));
    Failure::Script { source: source.clone(), diagnostics: vec![refusal.diagnostic(source, span, &kept)] }
}

/// The characters that an instruction came from: the same script compiled again gives the same instructions.
fn span_of(source: &Source, script: &ScriptArguments, child: Option<u32>, program: &str, at: usize) -> Option<Span> {
    let stages = pipeline::stages(source, &CATALOGUE, &Host::new(), &options(script, child)).ok()?;
    stages.emitted.functions.iter().find(|function| function.name == program)?.spans.get(at).copied()
}

/// Writes the probes or the types that match a pattern of bpftrace, where a pattern without a match is an empty list.
pub fn list_all(pattern: &str, pid: Option<u32>, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let host = Host::of_process(pid);
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
pub fn list(pattern: Option<&str>, pid: Option<u32>, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let host = Host::of_process(pid);
    match list::list(&host, pattern, verbose, out) {
        Ok(0) => {
            let words = format!("nothing here matches `{}`", pattern.unwrap_or("*"));
            Err(Failure::new(MISTAKE, words)
                .help("`*` stands for any characters: `profiler list 'tracepoint:sched:*'`"))
        }
        Ok(_) => Ok(()),
        Err(ListError::Output(error)) => Err(Failure::output("standard output", &error)),
        Err(error @ ListError::Target { error: TargetError::Refused(_), .. }) => {
            Err(Failure::new(REFUSED, error.to_string()))
        }
        Err(error) => Err(Failure::new(MISTAKE, error.to_string())),
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
