//! Calls the compiler and the runtime: the only file of `cli` that does.
//!
//! In: arguments as the user gave them. Out: an object, a listing, or the exit code of a run.
//! Guarantee: every failure is returned as a [`Failure`] with the documented exit code of the
//! command.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

use crate::list::{self, ListError};
use profiler_compiler::ast::{Public, PublicKind};
use profiler_compiler::check::getopt::{self, Parameter};
use profiler_compiler::check::{self, Dialect, Options, ProbeFilter, Succession};
use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::object::Object;
use profiler_compiler::params::Param;
use profiler_compiler::source::{Source, Span};
use profiler_compiler::target::{Target, TargetError};
use profiler_compiler::view::View;
use profiler_compiler::{CATALOGUE, ast_print, compile as pipeline, emit, expand, ir, parse, typed_print};
use profiler_model::output::{Output, SourceLocation};
use profiler_output::csv::Csv;
use profiler_output::escaping::Escaping;
use profiler_output::json::Json;
use profiler_output::text::Text;
use profiler_runtime::child::{self, Child};
use profiler_runtime::control::Requests;
use profiler_runtime::elf;
use profiler_runtime::host::Host;
use profiler_runtime::load::{self, LoadError, Loaded, Refusal};
use profiler_runtime::params::Values;
use profiler_runtime::reader::Reader;
use profiler_runtime::session::{self, RunError, RunOptions};
use profiler_runtime::symbols::HostSymbols;
use profiler_runtime::sys::regex::Regex;

use super::args::choices::{Format, Stage};
use super::args::{RunArguments, ScriptArguments};
use super::built::machine::{Answers, Question, Recorded};
use super::exit::{Failure, MISTAKE, NOTHING_ATTACHED, REFUSED};
use super::run_as::RunAs;
use super::streams::{self, notes};
use super::{cache, maps, progress, stack_files};

pub(super) use profiler_compiler::Compiled;
/// Compiles for this machine. `child` is the process of `-c`.
pub(super) fn compile(source: &Source, script: &ScriptArguments, child: Option<u32>) -> Result<Compiled, Failure> {
    compile_with(source, script, child, settings())
}

/// Like `compile`, with explicit settings instead of those from the environment.
pub(super) fn compile_with(
    source: &Source,
    script: &ScriptArguments,
    child: Option<u32>,
    settings: Vec<(String, String)>,
) -> Result<Compiled, Failure> {
    let mut options = Options { settings, ..options(script, child) };
    options.probe_filter = probe_filter(script)?;
    compile_on(&Host::new(), source, &options)
}

/// Compiles without the privilege to run.
pub(super) fn check(source: &Source, script: &ScriptArguments) -> Result<Compiled, Failure> {
    let mut options = Options { settings: settings(), ..options(script, None) };
    options.probe_filter = probe_filter(script)?;
    compile_on(&Host::for_checking(), source, &options)
}

fn compile_on(host: &dyn Target, source: &Source, options: &Options) -> Result<Compiled, Failure> {
    let compiled = pipeline::compile(source, &CATALOGUE, host, options);
    compiled.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })
}

/// Compiles for a host that is reused between calls; returns errors and warnings, and the types as
/// text if there are no errors.
pub(super) fn examine(source: &Source, script: &ScriptArguments, host: &Host) -> (Vec<Diagnostic>, Option<String>) {
    match pipeline::stages(source, &CATALOGUE, host, &options(script, None)) {
        Ok(stages) => (stages.warnings, Some(typed_print::print(&stages.typed, host.btf()))),
        Err(diagnostics) => (diagnostics, None),
    }
}

/// Settings from environment variables.
pub(super) fn settings() -> Vec<(String, String)> {
    // Names and values that are not UTF-8 are ignored.
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let settings = std::env::vars_os().filter_map(text);
    settings.filter_map(|(name, value)| Some((name.strip_prefix("BPFTRACE_")?.to_lowercase(), value))).collect()
}

/// Converts command-line arguments to compiler options.
pub(super) fn options(script: &ScriptArguments, child_pid: Option<u32>) -> Options {
    let traits = script.origin.traits();
    Options {
        separate_programs: false,
        succession: if script.hands_over { Succession::HandOver } else { Succession::None },
        pids: script.processes.pids.clone(),
        child_pid,
        origin: traits.author,
        positional: script.parameters.clone(),
        named: script.named.clone(),
        allow_unsafe: script.allow_unsafe,
        report_failures: script.report_failures,
        probe_filter: None,
        settings: settings(),
        missing_in_programs: traits.missing_in_programs,
        dialect: if script.is_bpftrace { Dialect::Bpftrace } else { traits.dialect },
    }
}

/// The kinds of probes of the kernel's functions.
const KERNEL_FUNCTION_PROBES: [&str; 4] = ["kprobe", "kretprobe", "fentry", "fexit"];

/// A filter for probes whose names match, and, of kernel functions, which may be traced.
fn probe_filter(script: &ScriptArguments) -> Result<Option<ProbeFilter>, Failure> {
    let regex = script.probe_filter.as_deref().map(|pattern| {
        Regex::new(pattern)
            .map_err(|words| Failure::new(MISTAKE, format!("Invalid --probe-filter regex `{pattern}`: {words}")))
    });
    let (regex, traceable) = (regex.transpose()?, script.traceable_functions()?);
    if regex.is_none() && traceable.is_none() {
        return Ok(None);
    }
    Ok(Some(ProbeFilter::new(move |name| {
        let is_traceable = |traceable: &HashSet<String>| is_traceable(name, traceable);
        regex.as_ref().is_none_or(|regex| regex.matches(name)) && traceable.as_ref().is_none_or(is_traceable)
    })))
}

/// Whether the probe of this name is one of the kernel's functions that may be traced, or of
/// something else.
pub(super) fn is_traceable(probe: &str, traceable: &HashSet<String>) -> bool {
    let function = probe.split_once(':').filter(|(kind, _)| KERNEL_FUNCTION_PROBES.contains(kind));
    function.is_none_or(|(_, place)| traceable.contains(place.rsplit(':').next().unwrap_or(place)))
}

/// Named parameters of a script.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Parameters declared with `param`.
    pub params: Vec<Param>,
    /// Parameters read with `getopt`.
    pub options: Vec<Parameter>,
}

/// The named parameters of a script.
pub(super) fn taken(source: &Source) -> Result<Taken, Failure> {
    let refused = |diagnostics| Failure::Script { source: source.clone(), diagnostics };
    let script = parse::parse(source).and_then(expand::expand).map_err(refused)?;
    let (params, problems) = check::declared_params(&script, &Host::new());
    if !problems.is_empty() {
        return Err(refused(problems));
    }
    Ok(Taken { params, options: getopt::declared(&script) })
}

/// Parameters of a script with their given values; the others have their defaults.
pub(super) fn given_params(
    params: Vec<Param>,
    source: &Source,
    script: &ScriptArguments,
) -> Result<Vec<Param>, Failure> {
    let (params, diagnostics) = check::with_values(params, &options(script, None), &Host::new());
    if diagnostics.is_empty() { Ok(params) } else { Err(Failure::Script { source: source.clone(), diagnostics }) }
}

/// A script that was compiled for an object file.
#[derive(Debug)]
pub(super) struct Prebuilt {
    pub object: Object,
    pub warnings: Vec<Diagnostic>,
    /// What the machine answered.
    pub answers: Answers,
    /// Whether the script compiles only with `--unsafe`.
    pub needs_unsafe: bool,
    /// Whether `-p` or `-c` change the programs or what they are attached to.
    pub depends_on_processes: bool,
}

/// A process id that no process has: Linux's limit is 2^22.
const NO_PROCESS: u32 = 1 << 30;

/// Compiles for an object file, which runs without the compiler.
pub(super) fn prebuild(source: &Source, script: &ScriptArguments) -> Result<Prebuilt, Failure> {
    let mut options = options(script, None);
    options.probe_filter = probe_filter(script)?;
    let host = Host::new();
    let recorded = Recorded::new(&host);
    let Compiled { object, warnings } = compile_on(&recorded, source, &options)?;
    let answers = recorded.answers();
    let others = Options { pids: vec![NO_PROCESS], child_pid: Some(NO_PROCESS), ..options.clone() };
    let of_others = compile_on(&host, source, &others);
    let depends_on_processes = !of_others.is_ok_and(|compiled| compiled.object == object);
    let safe = Options { allow_unsafe: false, ..options };
    let needs_unsafe = script.allow_unsafe && compile_on(&host, source, &safe).is_err();
    Ok(Prebuilt { object, warnings, answers, needs_unsafe, depends_on_processes })
}

/// The first answer of an object's machine that this machine gives differently.
pub(super) fn first_difference(answers: &Answers) -> Option<&Question> {
    answers.first_difference(&Host::new())
}

/// The public names of a module, as users write them after the module's name.
pub(super) fn public_names(text: &str) -> Vec<String> {
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

/// Renders the output of `stage` for a script.
pub(super) fn dump(stage: Stage, source: &Source, script: &ScriptArguments) -> Result<String, Failure> {
    let host = Host::new();
    let stages = pipeline::stages(source, &CATALOGUE, &host, &options(script, None));
    let stages = stages.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })?;
    Ok(match stage {
        Stage::Ast => ast_print::print(&stages.ast),
        Stage::Typed => typed_print::print(&stages.typed, host.btf()),
        Stage::Ir => ir::print::print(&stages.ir),
        Stage::Bpf => emit::listing(&stages.emitted, &stages.ir, source),
        Stage::Elf => elf::describe(&stages.emitted.elf),
        Stage::Verifier => verifier_logs(source, script, (&stages.object, &stages.emitted.elf))?,
    })
}

fn verifier_logs(
    source: &Source,
    script: &ScriptArguments,
    (object, elf): (&Object, &[u8]),
) -> Result<String, Failure> {
    let loaded = load::load_elf_of(object, elf, load::LoadOptions { verifier_log: true });
    let loaded = loaded.map_err(|error| refused(source, script, None, &RunError::Load(error)))?;
    let section = |(program, log): (&str, String)| format!("program {program}:\n{log}\n");
    Ok(loaded.verifier_logs().into_iter().map(section).collect())
}

/// Starts the command of `-c`, stopped before its first instruction.
pub(super) fn start(
    script: &ScriptArguments,
    command: &str,
    (run_as, quiet): (&RunAs, bool),
) -> Result<Child, Failure> {
    let account = run_as.account(quiet)?;
    let words = if script.is_bpftrace { Ok(child::split_at_blanks(command)) } else { child::split(command) };
    let started = words.and_then(|words| Child::spawn_stopped(words, account.as_ref()));
    started.map_err(|error| Failure::new(MISTAKE, error.to_string()))
}

/// An object to run.
pub(super) struct Program<'a> {
    pub source: &'a Source,
    pub object: &'a Object,
    /// Other parameter values, for a prebuilt object.
    pub values: Option<Values>,
}

/// Runs an object until it ends; results go to `out`. Returns the exit code: the script's own, or
/// the one for losses if the script succeeded, something was lost and `--strict` was given.
pub(super) fn run(
    program: Program<'_>,
    arguments: &RunArguments,
    child: Option<Child>,
    out: Box<dyn Write>,
) -> Result<u8, Failure> {
    let Program { source, object, values } = program;
    let traits = arguments.script.origin.traits();
    let child_pid = child.as_ref().map(Child::pid);
    // A prebuilt object is loaded unchanged, or not at all.
    let may_differ = values.is_none();
    let separately = || separately(source, &arguments.script, child_pid).filter(|_| may_differ);
    let known = values.clone().unwrap_or_else(|| Values::of(object));
    let stack_files = stack_files::open(&arguments.stacks, object, &known)?;
    let options = RunOptions {
        separately: Some(&separately),
        pids: arguments.script.processes.pids.clone(),
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
        locate: Some(&|span| SourceLocation::of(source, span)),
        requests: None,
        no_warnings: arguments.script.no_warnings,
        escapes: traits.escapes,
        rows_apart: arguments.rows_apart,
        progress: progress::is_wanted(arguments),
        unwind_cache: cache::of_unwind_tables(),
        reader: Reader::apart(),
        values,
    };
    let terminal = arguments.output.is_none().then(streams::terminal).flatten();
    let notes_escape = std::io::stderr().is_terminal();
    let output: Box<dyn Output> = match arguments.format {
        Format::Text => Box::new(
            Text::new(out, notes()?, arguments.quiet)
                .coloured(arguments.coloured)
                .escaping(false, notes_escape)
                .omitting_whole_spans(traits.omits_whole_spans && !arguments.script.verbose)
                .on_terminal(terminal),
        ),
        Format::Csv => {
            let out = if terminal.is_some() { Box::new(Escaping::new(out)) } else { out };
            let notes = || -> Result<Box<dyn Write>, Failure> {
                Ok(if notes_escape { Box::new(Escaping::new(notes()?)) } else { notes()? })
            };
            Box::new(Csv::new(out, notes()?, notes()?, arguments.quiet))
        }
        Format::Json => Box::new(Json::new(out, arguments.quiet)),
        Format::BpftraceJson => Box::new(Json::new(out, arguments.quiet).of_bpftrace(notes()?)),
    };
    let output = progress::in_front_of(output, arguments);
    let mut symbols = HostSymbols::read_by(&options.reader);
    // Scripts that draw flame graphs read its stacks, which have frames only.
    symbols.shows_ends = !arguments.script.is_bpftrace;
    let outcome = stack_files.around(output, &arguments.script.origin.title(), |output| {
        session::run(object, &CATALOGUE, options, output, &symbols).map_err(|error| match error {
            RunError::Output(error) => {
                let target = arguments.output.as_ref().map_or("standard output".into(), |path| format!("`{path}`"));
                Failure::output(&target, &error)
            }
            error => refused(source, &arguments.script, child_pid, &error),
        })
    })?;
    for note in symbols.take_notes() {
        // A closed standard error has no reader.
        let _ = writeln!(std::io::stderr(), "note: {note}");
    }
    Ok(outcome.exit_code)
}

/// Recompiles a script with one kernel program per block; reports it with `-v`.
fn separately(source: &Source, script: &ScriptArguments, child: Option<u32>) -> Option<Object> {
    let mut options = Options { separate_programs: true, ..options(script, child) };
    options.probe_filter = probe_filter(script).ok()?;
    let compiled = pipeline::compile(source, &CATALOGUE, &Host::new(), &options).ok()?;
    if script.verbose {
        let words = "note: the blocks of one event are too complex for one program: each is loaded as its own";
        // A closed standard error has no reader.
        let _ = writeln!(std::io::stderr(), "{words}");
    }
    Some(compiled.object)
}

/// How the prompt follows a program.
pub(super) struct Prompt<'a> {
    /// Its control commands.
    pub requests: Requests,
    /// Called when the program is loaded.
    pub loaded: &'a dyn Fn(&Object, &Loaded) -> io::Result<()>,
    /// Called when the program is attached.
    pub attached: &'a dyn Fn(&Object),
}

/// Runs a prompt program until it ends or is stopped; `out` creates writers for results and notes.
pub(super) fn run_at_prompt(
    source: &Source,
    script: &ScriptArguments,
    prompt: Prompt<'_>,
    out: impl Fn() -> Box<dyn Write>,
) -> Result<u8, Failure> {
    let Prompt { requests, loaded, attached } = prompt;
    let compiled = compile(source, script, None)?;
    let warnings = super::diagnostics::render(source, &compiled.warnings, super::colours::look());
    // The screen may already be gone.
    let _ = out().write_all(warnings.as_bytes());
    let object = &compiled.object;
    let separately = || separately(source, script, None);
    let options = RunOptions {
        separately: Some(&separately),
        quiet: true,
        when_loaded: Some(&|into| loaded(object, into)),
        when_attached: Some(&|| attached(object)),
        locate: Some(&|span| SourceLocation::of(source, span)),
        requests: Some(requests),
        unwind_cache: cache::of_unwind_tables(),
        reader: Reader::apart(),
        ..RunOptions::default()
    };
    let on_terminal = std::io::stdout().is_terminal();
    let mut output = Text::new(out(), out(), true).escaping(on_terminal, on_terminal);
    let symbols = HostSymbols::read_by(&options.reader);
    let outcome = session::run(object, &CATALOGUE, options, &mut output, &symbols);
    Ok(outcome.map_err(|error| refused(source, script, None, &error))?.exit_code)
}

/// The views in a text that was appended to a prompt program, with the names of their maps.
pub(super) fn views_at_prompt(
    source: &Source,
    script: &ScriptArguments,
    appended: &str,
) -> Result<Vec<(View, Vec<String>)>, Failure> {
    let failed = |diagnostics| Failure::Script { source: source.clone(), diagnostics };
    let object = pipeline::compile(source, &CATALOGUE, &Host::new(), &options(script, None)).map_err(failed)?.object;
    // Those of modules and of the program are ahead of them.
    let alone = Source::new("", format!("{appended}\nBEGIN {{ }}"));
    let count = parse::parse(&alone).map_or(0, |script| script.views.len());
    let ahead = object.views.len().saturating_sub(count);
    let maps = |view: &View| view.maps.iter().map(|map| object.maps[*map].name.clone()).collect();
    Ok(object.views.iter().skip(ahead).map(|view| (view.clone(), maps(view))).collect())
}

/// The type of the first variable that a prompt program assigns.
pub(super) fn type_at_prompt(source: &Source, script: &ScriptArguments) -> Result<String, Failure> {
    let host = Host::new();
    let stages = pipeline::stages(source, &CATALOGUE, &host, &options(script, None));
    let stages = stages.map_err(|diagnostics| Failure::Script { source: source.clone(), diagnostics })?;
    let variable = stages.typed.probes.first().and_then(|probe| probe.vars.first());
    Ok(variable.map_or_else(String::new, |variable| variable.ty.describe(host.btf())))
}

/// Reports that all probes are attached: to a reader of `handshake`, and to the service manager as
/// in <https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>. There may be no
/// listener.
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

/// Prints how the kernel attaches each function probe.
pub(super) fn say_how_functions_are_probed(object: &Object, out: &mut dyn Write) {
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

/// Prints the capacity and memory use of each map.
pub(super) fn say_what_maps_take(object: &Object, out: &mut dyn Write) {
    // A closed standard error has no reader.
    let _ = out.write_all(maps::table(object).as_bytes());
}

/// Converts a run error into a failure with a message for the user.
fn refused(source: &Source, script: &ScriptArguments, child: Option<u32>, error: &RunError) -> Failure {
    match error {
        RunError::Load(LoadError::Privilege { .. }) => Failure::new(REFUSED, error.to_string())
            .help("run it as root, or give the binary `cap_bpf,cap_perfmon,cap_dac_read_search+ep` with setcap"),
        RunError::Load(LoadError::Verifier(refusal)) => verifier_refusal(source, script, child, refusal),
        RunError::Load(LoadError::TooLarge { .. }) => Failure::new(REFUSED, error.to_string())
            .help("lower the maps' capacity (`config = { max_map_keys = …; }`), or split the script"),
        RunError::Memory { .. } => Failure::new(REFUSED, error.to_string())
            .help("raise its limit (`memory.max`), run profiler in another one (`systemd-run --scope`), or leave `ustack` out"),
        RunError::NoTrials(session::Mode::Trace) if script.is_bpftrace => Failure::new(NOTHING_ATTACHED, error.to_string()),
        RunError::NoProcess(_) | RunError::Child(_) | RunError::NoTrials(_) => Failure::new(MISTAKE, error.to_string()),
        _ => Failure::new(REFUSED, error.to_string()),
    }
}

/// A rejection by the verifier, located at the source span of the rejected instruction; with `-v`,
/// prints the whole log first.
fn verifier_refusal(source: &Source, script: &ScriptArguments, child: Option<u32>, refusal: &Refusal) -> Failure {
    if script.verbose {
        // A closed standard error has no reader; the log is in a file too.
        let _ = write!(std::io::stderr(), "the verifier's log of program {}:\n{}\n", refusal.program, refusal.log);
    }
    let kept = if refusal.is_too_complex() { Ok(PathBuf::new()) } else { refusal.keep(&std::env::temp_dir()) };
    let span = refusal.instruction.and_then(|at| span_of(source, script, child, &refusal.program, at));
    Failure::Script { source: source.clone(), diagnostics: vec![refusal.diagnostic(source, span, &kept)] }
}

/// The source span of an instruction: compiling the same script again yields the same instructions.
/// A program that is not found was compiled separately, because the blocks of its event did not fit
/// into one.
fn span_of(source: &Source, script: &ScriptArguments, child: Option<u32>, program: &str, at: usize) -> Option<Span> {
    let host = Host::new();
    [false, true].into_iter().find_map(|separate_programs| {
        let options = Options { separate_programs, ..options(script, child) };
        let stages = pipeline::stages(source, &CATALOGUE, &host, &options).ok()?;
        stages.emitted.span_in_program(program, at)
    })
}

/// Prints the probes or types that match a bpftrace pattern; a pattern without a match prints
/// nothing.
pub(super) fn list_all(pattern: &str, pid: Option<u32>, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let host = Host::of_process(pid);
    let listed = match pattern.split_once(' ') {
        Some(("struct" | "union" | "enum", _)) => list::types(&host, pattern, verbose, out),
        _ => list::list(&host, Some(pattern), verbose, out),
    };
    match listed {
        Err(ListError::Output(error)) => Err(Failure::output("standard output", &error)),
        Ok(_) | Err(ListError::Target { .. } | ListError::UnknownKind { .. }) => Ok(()),
    }
}

/// Prints the probes that match a pattern, one per line.
pub(super) fn list(pattern: Option<&str>, pid: Option<u32>, verbose: bool, out: &mut dyn Write) -> Result<(), Failure> {
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
