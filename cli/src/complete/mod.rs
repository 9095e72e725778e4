//! Completion of scripts, for the prompt and for editors.
//!
//! In: a script, the cursor, other known names. Out: candidates with descriptions, and where they
//! start.
//! Guarantee: writes nothing; a candidate begins with the typed text, except for the quote that a
//! C++ or Rust name needs. Of more than 2000 candidates the first ones and the last are returned,
//! so that their common prefix is that of all.

mod binaries;
mod context;
pub mod declared;
mod members;
mod programs;
mod spans;

use profiler_compiler::CATALOGUE;
use profiler_compiler::catalogue::Listing;
use profiler_compiler::keywords;
use profiler_compiler::target::Target;

use crate::list;
use context::Context;
use profiler_runtime::host::Host;
use profiler_runtime::host::symbol_prefixes::first_and_last;

pub use members::argument;

/// A completion candidate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The text to insert at [`Completion::start`].
    pub text: String,
    /// Its description: a type, or the first line of a word's page.
    pub about: String,
}

/// All candidates at a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// Byte offset where the candidates' texts begin.
    pub start: usize,
    /// The candidates, sorted.
    pub candidates: Vec<Candidate>,
}

/// Names that are not in the text itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// Maps of other programs, with sigil.
    pub maps: &'a [String],
    /// Parameters of other programs.
    pub params: &'a [Candidate],
    /// The modules of the standard library with their texts.
    pub modules: &'a [(&'a str, &'a str)],
}

/// Limit of candidates: longer lists are not useful.
pub const MOST: usize = 2000;

/// Description of the keyword that may follow a probe.
const ABOUT_UNLESS: &str = "makes the probe a fallback for one that the kernel lacks";

/// Other keywords that begin an item of a script.
const ITEMS: [(&str, &str); 6] = [
    ("config", "settings: config = { … }"),
    ("macro", "named expression or statements: macro name(x) { … }"),
    ("param", "parameter: param slow: duration = 10ms \"…\""),
    ("span", "pairs start and end events: span name by tid { start …  end … }"),
    ("use", "imports a module of the standard library or next to the script"),
    ("view", "shows a map as a table: view \"name\" { of @x show … }"),
];

/// Candidates at a cursor, a byte offset in the text.
pub fn complete(text: &str, cursor: usize, host: &Host, known: Known<'_>) -> Completion {
    let Some(before) = text.get(..cursor) else { return Completion::default() };
    let mut completion = match context::context(before) {
        Context::Nowhere => Completion::default(),
        Context::Probe { written, start } => {
            if let Some(candidates) = declared::item(written, known) {
                Completion { start, candidates }
            } else if let Some(word) = context::word_after_point(written) {
                let fits = context::UNLESS.starts_with(word).then(|| candidate(context::UNLESS, ABOUT_UNLESS));
                Completion { start: cursor - word.len(), candidates: fits.into_iter().collect() }
            } else {
                Completion { start, candidates: [probes(host, written), spans::probes(text, written)].concat() }
            }
        }
        Context::Code { header } => match spans::inside(before, header) {
            Some(spans::Inside::Probe(written)) => {
                let candidates = [probes(host, written), spans::probes(text, written)].concat();
                Completion { start: cursor - written.len(), candidates }
            }
            Some(spans::Inside::Clause(word)) => {
                let fits = spans::clauses().into_iter().filter(|found| found.text.starts_with(word)).collect();
                Completion { start: cursor - word.len(), candidates: fits }
            }
            None => code(host, before, text, header, known),
        },
    };
    completion.candidates = first_and_last(completion.candidates, MOST);
    completion.candidates.dedup_by(|a, b| a.text == b.text);
    completion
}

/// Whether a position is outside comments and strings.
pub fn is_code(text: &str, at: usize) -> bool {
    text.get(..at).is_some_and(|before| context::context(before) != Context::Nowhere)
}

fn candidate(text: impl Into<String>, about: impl Into<String>) -> Candidate {
    Candidate { text: text.into(), about: about.into() }
}

/// Probe kinds, or the next part of a probe.
fn probes(host: &Host, written: &str) -> Vec<Candidate> {
    let Some((kind, rest)) = written.split_once(':') else {
        let kinds = CATALOGUE.probes.iter().map(|word| candidate(word.name(), word.doc().summary()));
        let items = ITEMS.iter().map(|(word, about)| candidate(*word, *about));
        return kinds.chain(items).filter(|found| found.text.starts_with(written)).collect();
    };
    if let Some(found) = binaries::probes(host, kind, rest) {
        return found;
    }
    let depth = rest.matches(':').count();
    if CATALOGUE.probe(kind).is_some_and(|kind| matches!(kind.listing(), Listing::Form)) {
        return Vec::new();
    }
    let names = list::names(host, kind, &format!("{rest}*"));
    // The part after the next colon is completed later.
    let part = |name: &str| match name.match_indices(':').nth(depth) {
        Some((at, _)) => format!("{kind}:{}", &name[..=at]),
        None => format!("{kind}:{name}"),
    };
    names.iter().filter(|name| name.starts_with(rest)).map(|name| candidate(part(name), "")).collect()
}

fn code(target: &dyn Target, before: &str, text: &str, header: &str, known: Known<'_>) -> Completion {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '$');
    let start =
        before.rfind(|c| !is_of_word(c)).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let (ahead, word) = before.split_at(start);
    let candidates = match ahead.strip_suffix('.').or_else(|| ahead.strip_suffix("->")) {
        Some(ahead) => {
            let expression = members::last_expression(ahead);
            let given = declared::of_module(text, expression, known);
            if given.is_empty() {
                let context = members::Context { target, header, before: ahead };
                let found = spans::values(text, expression).unwrap_or_else(|| members::members(&context, expression));
                found.into_iter().map(|(ty, name)| candidate(name, ty)).collect()
            } else {
                given
            }
        }
        None => match word.chars().next() {
            Some('@') => sigil(text, word, '@', known.maps),
            Some('$') => variables(text, word, known),
            _ => [words(), spans::names(&spans::definitions(text))].concat(),
        },
    };
    let candidates =
        candidates.into_iter().filter(|found| found.text.starts_with(word) && found.text != word).collect();
    Completion { start, candidates }
}

/// Parameters with their help, and variables.
fn variables(text: &str, word: &str, known: Known<'_>) -> Vec<Candidate> {
    let mut found = declared::params(text, known);
    found.extend_from_slice(known.params);
    let params = found.len();
    for variable in sigil(text, word, '$', &[]) {
        if found[..params].iter().all(|param| param.text != variable.text) {
            found.push(variable);
        }
    }
    found
}

/// Maps or variables in the text, and those in `others`.
fn sigil(text: &str, word: &str, sigil: char, others: &[String]) -> Vec<Candidate> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = text.match_indices(sigil).map(|(at, _)| {
        let end = text[at + 1..].find(|c| !is_of_name(c)).map_or(text.len(), |end| at + 1 + end);
        text[at..end].to_owned()
    });
    names
        .chain(others.iter().cloned())
        .filter(|name| name.len() > 1 && name != word)
        .map(|name| candidate(name, ""))
        .collect()
}

fn words() -> Vec<Candidate> {
    let builtins = CATALOGUE.builtins.iter().map(|word| candidate(word.name(), word.doc().summary()));
    let functions = CATALOGUE.functions.iter().map(|word| candidate(format!("{}(", word.name()), word.doc().summary()));
    let aggregations =
        CATALOGUE.aggregations.iter().map(|word| candidate(format!("{}(", word.name()), word.doc().summary()));
    let keywords = keywords::statements().chain(["args"]).map(|word| candidate(word, ""));
    builtins.chain(functions).chain(aggregations).chain(keywords).collect()
}

#[cfg(test)]
mod tests;
