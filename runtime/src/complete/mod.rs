//! What could be written at a place of a script, for the prompt and for editors.
//!
//! In: a script, the cursor, what else is known. Out: candidates with what they are, and where they would begin.
//! Guarantee: writes nothing; a candidate begins with what is written, but for the quote that a name of C++ or Rust needs. Of more than 2000 candidates the first
//! are there and the last, so that what all have in common is what these have.

mod binaries;
pub mod declared;
mod members;
mod place;
mod spans;

use profiler_compiler::CATALOGUE;
use profiler_compiler::target::Target;

use crate::host::Host;
use crate::host::beginnings::first_and_last;
use crate::list;
use place::Place;

pub use members::argument;

/// What could be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The text that stands from [`Completion::start`] on.
    pub text: String,
    /// What it is: a type, a word's first line.
    pub about: String,
}

/// All that could be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// Where the candidates' texts begin, in bytes.
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

/// Most candidates: more helps nobody.
pub const MOST: usize = 2000;

/// Words of the language that no catalogue has.
const KEYWORDS: [&str; 10] = ["args", "break", "continue", "else", "for", "if", "let", "return", "unroll", "while"];

/// What else can begin an item of a script.
const ITEMS: [(&str, &str); 6] = [
    ("config", "settings: config = { … }"),
    ("macro", "an expression or statements with a name: macro name(x) { … }"),
    ("param", "an input: param slow: duration = 10ms \"…\""),
    ("span", "what begins and ends: span name by tid { start …  end … }"),
    ("use", "a module of the standard library, or beside the script"),
    ("view", "a map as a table: view \"name\" { of @x show … }"),
];

/// What could be written at a cursor, which is a byte position in the text.
pub fn complete(text: &str, cursor: usize, host: &Host, known: Known<'_>) -> Completion {
    let Some(before) = text.get(..cursor) else { return Completion::default() };
    let mut completion = match place::place(before) {
        Place::Nowhere => Completion::default(),
        Place::Probe { written, start } => {
            let candidates = declared::item(written, known)
                .unwrap_or_else(|| [probes(host, written), spans::probes(text, written)].concat());
            Completion { start, candidates }
        }
        Place::Code { header } => match spans::inside(before, header) {
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

fn candidate(text: impl Into<String>, about: impl Into<String>) -> Candidate {
    Candidate { text: text.into(), about: about.into() }
}

/// Kinds of probes, or the next part of one.
fn probes(host: &Host, written: &str) -> Vec<Candidate> {
    let Some((kind, rest)) = written.split_once(':') else {
        let kinds = CATALOGUE.probes.iter().map(|word| candidate(word.name(), word.doc().summary));
        let items = ITEMS.iter().map(|(word, about)| candidate(*word, *about));
        return kinds.chain(items).filter(|found| found.text.starts_with(written)).collect();
    };
    if let Some(found) = binaries::probes(host, kind, rest) {
        return found;
    }
    let depth = rest.matches(':').count();
    let names = list::names(host, kind, &format!("{rest}*"));
    // What is behind the next colon comes with the next one.
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

/// Parameters with what they are for, and variables.
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

/// Maps or variables that the text has, and others.
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
    let builtins = CATALOGUE.builtins.iter().map(|word| candidate(word.name(), word.doc().summary));
    let functions = CATALOGUE.functions.iter().map(|word| candidate(format!("{}(", word.name()), word.doc().summary));
    let aggregations =
        CATALOGUE.aggregations.iter().map(|word| candidate(format!("{}(", word.name()), word.doc().summary));
    let keywords = KEYWORDS.iter().map(|word| candidate(*word, ""));
    builtins.chain(functions).chain(aggregations).chain(keywords).collect()
}

#[cfg(test)]
mod tests;
