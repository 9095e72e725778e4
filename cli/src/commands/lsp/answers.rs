//! Answers to language server requests about a script.
//!
//! In: a text, and for some requests a position in it. Out: results in the protocol's format.
//! Guarantee: a text with errors has answers too; positions count UTF-16 units, the protocol's
//! default.

use crate::complete::{Candidate, Known, MOST, complete, is_code};
use profiler_compiler::CATALOGUE;
use profiler_compiler::diagnostic::{Diagnostic, Severity};
use profiler_compiler::fmt;
use profiler_compiler::language::language_word;
use profiler_compiler::source::Source;
use profiler_runtime::host::Host;
use serde_json::{Value, json};

use crate::commands::args::ScriptArguments;
use crate::commands::engine;
use crate::commands::exit::Failure;
use crate::commands::positions::{Position, Positions, byte_at};
use crate::commands::script::{Origin, edited, modules};

/// The diagnostics of `profiler check`. Whether the script may change the system is left to the
/// command that will run it.
pub(super) fn diagnostics(uri: &str, text: &str, host: &Host) -> Vec<Value> {
    let path = path_of(uri);
    let (source, found) = match edited(&path, text) {
        Ok(source) => {
            let found = engine::examine(&source, &arguments(&path), host).0;
            (source, found)
        }
        Err(Failure::Script { source, diagnostics }) => (source, diagnostics),
        Err(failure) => return vec![at_the_top(failure.render(false).trim())],
    };
    let places = Positions::new(&source);
    let mut found: Vec<&Diagnostic> = found.iter().collect();
    found.sort_by_key(|diagnostic| (diagnostic.span, diagnostic.code));
    found.dedup();
    found.into_iter().map(|diagnostic| in_protocol(uri, &source, &places, diagnostic)).collect()
}

fn arguments(path: &str) -> ScriptArguments {
    ScriptArguments { allow_unsafe: true, ..ScriptArguments::new(Origin::File(path.to_owned())) }
}

/// A message without a location.
fn at_the_top(words: &str) -> Value {
    let start = json!({"line": 0, "character": 0});
    json!({"range": {"start": start, "end": start}, "severity": 1, "source": "profiler", "message": words})
}

fn in_protocol(uri: &str, source: &Source, places: &Positions<'_>, diagnostic: &Diagnostic) -> Value {
    let mut message = diagnostic.message.clone();
    for (word, more) in [("", Some(&diagnostic.label)), ("help: ", diagnostic.help.as_ref())] {
        if let Some(more) = more.filter(|more| !more.is_empty()) {
            message = format!("{message}\n{word}{more}");
        }
    }
    let (file, start, end) = places.range(diagnostic.span);
    if file != source.name {
        return at_the_top(&format!("{file}:{}:{}: {message}", start.line + 1, start.characters + 1));
    }
    let related: Vec<Value> = diagnostic
        .related
        .iter()
        .map(|(span, words)| (places.range(*span), words))
        .filter(|((file, ..), _)| *file == source.name)
        .map(|((_, start, end), words)| json!({"location": {"uri": uri, "range": range(start, end)}, "message": words}))
        .collect();
    json!({
        "range": range(start, end),
        "severity": match diagnostic.severity {
            Severity::Error => 1,
            Severity::Warning => 2,
        },
        "code": diagnostic.code.to_string(),
        "source": "profiler",
        "message": message,
        "relatedInformation": related,
    })
}

fn range(start: Position, end: Position) -> Value {
    let place = |position: Position| json!({"line": position.line, "character": position.utf16});
    json!({"start": place(start), "end": place(end)})
}

/// Completions at a position.
pub(super) fn completion(text: &str, line: usize, column: usize, host: &Host) -> Value {
    let cursor = byte_at(text, line, column);
    let found = complete(text, cursor, host, Known { modules: modules::standard(), ..Known::default() });
    let source = Source::new("", text);
    let (_, start, end) = Positions::new(&source).range_of(found.start.min(cursor)..cursor);
    let behind_member = text.get(..found.start).is_some_and(|before| before.ends_with(['.', '>']));
    let item = |candidate: &Candidate| {
        json!({
            "label": candidate.text,
            "detail": candidate.about,
            "kind": kind(&candidate.text, behind_member),
            "textEdit": {"range": range(start, end), "newText": candidate.text},
        })
    };
    // Marking a cut list as complete would hide candidates that match after more typing.
    let is_cut = found.candidates.len() >= MOST;
    json!({"isIncomplete": is_cut, "items": found.candidates.iter().map(item).collect::<Vec<_>>()})
}

/// The protocol's number for a kind of candidate.
fn kind(text: &str, behind_member: bool) -> u8 {
    const FUNCTION: u8 = 3;
    const FIELD: u8 = 5;
    const VARIABLE: u8 = 6;
    const EVENT: u8 = 23;
    if behind_member {
        FIELD
    } else if text.ends_with('(') {
        FUNCTION
    } else if text.contains(':') || CATALOGUE.probes.iter().any(|probe| probe.name() == text) {
        EVENT
    } else {
        VARIABLE
    }
}

/// Explains the word at a position.
pub(super) fn hover(uri: &str, text: &str, line: usize, column: usize, host: &Host) -> Value {
    let at = byte_at(text, line, column);
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (before, after) = (text.get(..at).unwrap_or(""), text.get(at..).unwrap_or(""));
    let sigil = usize::from(after.starts_with(['@', '$']));
    let end = at + sigil + after[sigil..].find(|c| !is_of_name(c)).unwrap_or(after.len() - sigil);
    let start =
        before.rfind(|c| !is_of_name(c)).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let start = if text[..start].ends_with(['@', '$']) { start - 1 } else { start };
    let word = &text[start..end];
    let Some(words) = explanation(uri, text, start, word, host).filter(|_| !word.is_empty()) else {
        return Value::Null;
    };
    let source = Source::new("", text);
    let (_, first, last) = Positions::new(&source).range_of(start..end);
    json!({"contents": {"kind": "markdown", "value": words}, "range": range(first, last)})
}

fn explanation(uri: &str, text: &str, start: usize, word: &str, host: &Host) -> Option<String> {
    if word.starts_with('@') {
        let path = path_of(uri);
        let (_, types) = engine::examine(&edited(&path, text).ok()?, &arguments(&path), host);
        let types = types?;
        let is_its = |line: &&str| {
            let rest = line.strip_prefix("map ").and_then(|rest| rest.strip_prefix(word));
            rest.is_some_and(|rest| rest.starts_with([':', '[']))
        };
        return types.lines().find(is_its).map(|line| format!("```\n{line}\n```"));
    }
    // The completions at this position tell what the word is: a field, a language word, a probe
    // kind.
    let found = complete(text, start, host, Known::default()).candidates;
    if text[..start].ends_with(['.', '>']) {
        let field = found.iter().find(|candidate| candidate.text == word)?;
        return Some(format!("```c\n{} {word}\n```", field.about));
    }
    let called = format!("{word}(");
    if !found.iter().any(|candidate| candidate.text == word || candidate.text == called) {
        return language(text, start, word);
    }
    let builtins = CATALOGUE.builtins.iter().map(|word| (word.name(), word.doc()));
    let functions = CATALOGUE.functions.iter().map(|word| (word.name(), word.doc()));
    let aggregations = CATALOGUE.aggregations.iter().map(|word| (word.name(), word.doc()));
    let probes = CATALOGUE.probes.iter().map(|word| (word.name(), word.doc()));
    let mut all = builtins.chain(functions).chain(aggregations).chain(probes);
    all.find(|(name, _)| *name == word).map(|(_, doc)| doc.page.to_owned()).or_else(|| language(text, start, word))
}

/// The page of a language word, unless it is a name of the script: a variable, a part of a probe, a
/// called macro.
fn language(text: &str, start: usize, word: &str) -> Option<String> {
    let known = language_word(word)?;
    let is_called = text[start + word.len()..].trim_start().starts_with('(');
    let may_be_called = ["(", " ("].iter().any(|open| known.form.contains(&format!("{word}{open}")));
    // Titles are in quotes, outside any block.
    let line = text[..start].rfind('\n').map_or(0, |end| end + 1);
    if text[line..start].matches('"').count() % 2 == 1 {
        return None;
    }
    let is_name = text[..start].ends_with([':', '$', '@']) || (is_called && !may_be_called);
    (!is_name && is_code(text, start))
        .then(|| format!("```\n{}\n```\n{}\n\n{}", known.form, known.summary, known.page()))
}

/// The edits that format a script: none for a script with errors, which has diagnostics.
pub(super) fn formatting(text: &str) -> Value {
    let source = Source::new("", text);
    let Ok(form) = fmt::format(&source) else { return Value::Null };
    if form == text {
        return json!([]);
    }
    let (_, start, end) = Positions::new(&source).range_of(0..text.len());
    json!([{"range": range(start, end), "newText": form}])
}

/// The path of a file URI; other URIs are returned unchanged.
fn path_of(uri: &str) -> String {
    let Some(path) = uri.strip_prefix("file://") else { return uri.to_owned() };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let escaped = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn addresses_of_files_are_paths() {
        assert_eq!(path_of("file:///home/a%20b/%C3%A9.prof"), "/home/a b/é.prof");
        assert_eq!(path_of("file:///100%/%zz%"), "/100%/%zz%");
        assert_eq!(path_of("untitled:Untitled-1"), "untitled:Untitled-1");
    }
}
