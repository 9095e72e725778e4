//! `profiler check`: prints diagnostics for a script and loads nothing.
//!
//! In: a script. Out: diagnostics on standard error, nothing if there are none; or a JSON document
//! on standard output.
//! Guarantee: needs no privilege where the kernel's types are readable; the exit code is the same
//! in both forms.

use std::io::{Write, stderr, stdout};

use profiler_compiler::diagnostic::{Diagnostic, Severity};
use profiler_compiler::source::Source;
use profiler_output::json::quoted;

use super::args::CheckArguments;
use super::engine::{self, Compiled};
use super::exit::{Failure, Message, OK};
use super::positions::{Position, Positions};
use super::script::Origin;
use super::{diagnostics, parameters};

/// Checks a script.
pub(super) fn check(arguments: &CheckArguments) -> Result<u8, Failure> {
    if arguments.json { check_as_json(arguments) } else { check_as_text(arguments) }
}

fn check_as_text(arguments: &CheckArguments) -> Result<u8, Failure> {
    let source = arguments.script.origin.load()?;
    let script = &parameters::settle(&arguments.script, &source)?;
    let Compiled { object, warnings } = engine::check(&source, script)?;
    let mut stderr = stderr().lock();
    // A closed standard error has no reader; the exit code says the same.
    let _ = stderr.write_all(diagnostics::render(&source, &warnings, super::colours::look()).as_bytes());
    if script.verbose {
        let (programs, maps) = (object.programs.len(), object.maps.len());
        engine::say_how_functions_are_probed(&object, &mut stderr);
        engine::say_what_maps_take(&object, &mut stderr);
        let _ = writeln!(stderr, "{}: {programs} programs, {maps} maps, no errors", source.name);
    }
    Ok(OK)
}

fn check_as_json(arguments: &CheckArguments) -> Result<u8, Failure> {
    let script = &arguments.script;
    let outcome = script.origin.load().and_then(|source| {
        let compiled = engine::check(&source, &parameters::settle(script, &source)?)?;
        Ok((document(&source.name, &entries(&source, &compiled.warnings)), OK))
    });
    let (text, code) = match outcome {
        Ok(well) => well,
        Err(failure) => {
            let code = failure.code();
            let text = match failure {
                Failure::Script { source, diagnostics } => document(&source.name, &entries(&source, &diagnostics)),
                Failure::Message(message) => document(name(&script.origin), &[placeless(&script.origin, &message)]),
                Failure::ReaderGone => return Err(Failure::ReaderGone),
            };
            (text, code)
        }
    };
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map(|()| code).map_err(|error| Failure::output("standard output", &error))
}

/// The script's name in messages.
fn name(origin: &Origin) -> &str {
    match origin {
        Origin::File(path) if path != "-" => path,
        Origin::Inline(_) => "-e",
        Origin::File(_) | Origin::Foreign(_) => "stdin",
    }
}

fn document(file: &str, entries: &[String]) -> String {
    let list = if entries.is_empty() { String::new() } else { format!("\n  {}\n", entries.join(",\n  ")) };
    format!("{{\"type\": \"diagnostics\", \"data\": {{\"file\": {}, \"diagnostics\": [{list}]}}}}\n", quoted(file))
}

pub(super) fn entries(source: &Source, diagnostics: &[Diagnostic]) -> Vec<String> {
    let places = Positions::new(source);
    let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
    sorted.sort_by_key(|diagnostic| (diagnostic.span, diagnostic.code));
    sorted.dedup();
    sorted.into_iter().map(|diagnostic| entry(&places, diagnostic)).collect()
}

fn entry(places: &Positions<'_>, diagnostic: &Diagnostic) -> String {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = |span| {
        let (file, start, end) = places.range(span);
        format!("\"file\": {}, \"start\": {}, \"end\": {}", quoted(file), position(start), position(end))
    };
    let related: Vec<String> = diagnostic
        .related
        .iter()
        .map(|(span, words)| format!("{{\"message\": {}, {}}}", quoted(words), place(*span)))
        .collect();
    format!(
        "{{\"code\": \"{}\", \"severity\": \"{severity}\", \"message\": {}, \"label\": {}, \"help\": {}, {}, \"related\": [{}]}}",
        diagnostic.code,
        quoted(&diagnostic.message),
        quoted(&diagnostic.label),
        optional(diagnostic.help.as_deref()),
        place(diagnostic.span),
        related.join(", "),
    )
}

/// A message without a location in the script.
fn placeless(origin: &Origin, message: &Message) -> String {
    let code = message.code.map(|code| code.to_string());
    format!(
        "{{\"code\": {}, \"severity\": \"error\", \"message\": {}, \"label\": null, \"help\": {}, \"file\": {}, \"start\": null, \"end\": null, \"related\": []}}",
        optional(code.as_deref()),
        quoted(&message.words),
        optional(message.help.as_deref()),
        quoted(name(origin)),
    )
}

fn optional(text: Option<&str>) -> String {
    text.map_or("null".to_owned(), quoted)
}

fn position(position: Position) -> String {
    let Position { line, characters, bytes, .. } = position;
    format!("{{\"line\": {}, \"column\": {}, \"byte\": {bytes}}}", line + 1, characters + 1)
}
