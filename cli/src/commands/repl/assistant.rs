//! Line editor support for the prompt: completion, hints, colours, and whether the input is
//! complete.
//!
//! In: the text and the cursor. Out: answers for the line editor.
//! Guarantee: answering attaches nothing and reads only names of this machine.

use std::borrow::Cow;
use std::sync::Arc;
use std::thread;

use crate::complete::Candidate;
use crate::repl::input::is_complete;
use profiler_compiler::CATALOGUE;
use profiler_compiler::catalogue::{Aggregation, Function};
use profiler_compiler::target::Target as _;
use profiler_runtime::host::Host;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use super::columns;
use super::completion;
use super::shell::Shell;

/// The line editor's assistant.
pub(super) struct Assistant {
    shell: Arc<Shell>,
    host: Arc<Host>,
    has_colours: bool,
}

impl Assistant {
    /// An assistant for the programs of a shell.
    pub(super) fn new(shell: Arc<Shell>, has_colours: bool) -> Assistant {
        let host = Arc::new(Host::new());
        let early = Arc::clone(&host);
        // Reading the list of kernel functions takes about 30 ms: it is ready by the time the first
        // probe is typed.
        thread::spawn(move || drop(early.kernel_functions(None, "vfs_read")));
        Assistant { shell, host, has_colours }
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let found = completion::at(&self.shell, &self.host, line, at);
        Ok((found.start, pairs(found.candidates, columns())))
    }
}

/// Candidates for display: without their common prefix, and with their descriptions if they fit.
fn pairs(candidates: Vec<Candidate>, columns: usize) -> Vec<Pair> {
    let common = common_parts(&candidates);
    let width = candidates.iter().map(|found| found.text[common..].trim_end().chars().count()).max().unwrap_or(0);
    // The editor appends two blanks to each, and wraps what is wider than the terminal.
    let room = columns.saturating_sub(width + 5);
    let shown = |text: &str, about: &str| match about {
        "" => text.to_owned(),
        _ if room < MIN_ABOUT => text.to_owned(),
        about if about.chars().count() > room => {
            let cut: String = about.chars().take(room - 1).collect();
            format!("{text:<width$}  {cut}…")
        }
        about => format!("{text:<width$}  {about}"),
    };
    let pair = |found: Candidate| Pair {
        display: shown(found.text[common..].trim_end(), &found.about),
        replacement: found.text,
    };
    candidates.into_iter().map(pair).collect()
}

/// The length of the common prefix of all candidates, up to a `:` or `/`.
fn common_parts(candidates: &[Candidate]) -> usize {
    let Some((first, others)) = candidates.split_first() else { return 0 };
    let common = others.iter().fold(first.text.as_str(), |common, other| {
        let same = common.char_indices().zip(other.text.chars()).find(|((_, a), b)| a != b);
        let length = same.map_or(common.len().min(other.text.len()), |((at, _), _)| at);
        &common[..length]
    });
    common.rfind([':', '/']).map_or(0, |at| at + 1)
}

/// Shorter descriptions are useless.
const MIN_ABOUT: usize = 8;

impl Hinter for Assistant {
    type Hint = String;

    /// The rest of the signature of the function whose parenthesis was just opened.
    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<String> {
        let typed = line.get(..at).filter(|_| at == line.len())?.strip_suffix('(')?;
        let start = typed.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |before| before + 1);
        let name = typed.get(start..)?;
        let function = CATALOGUE.function(name).map(Function::doc);
        let doc = function.or_else(|| CATALOGUE.aggregation(name).map(Aggregation::doc))?;
        Some(doc.signature().split_once('(')?.1.to_owned())
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let whole = is_complete(context.input());
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

const STRING: &str = "32";
const NAME: &str = "36";
const NUMBER: &str = "33";
const WORD: &str = "1";
const COMMENT: &str = "2";

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.has_colours { Cow::Owned(paint(line)) } else { Cow::Borrowed(line) }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.has_colours { Cow::Owned(format!("\x1b[{COMMENT}m{hint}\x1b[0m")) } else { Cow::Borrowed(hint) }
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        self.has_colours
    }
}

impl Helper for Assistant {}

/// Colours a line.
fn paint(line: &str) -> String {
    let mut painted = String::with_capacity(line.len() * 2);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (length, colour) = token(rest, first);
        // The `s` of `interval:s:1` is not a word.
        let colour = colour.filter(|colour| *colour != WORD || !line[..line.len() - rest.len()].ends_with(':'));
        let (token, after) = rest.split_at(length);
        match colour {
            Some(colour) => painted.extend(["\x1b[", colour, "m", token, "\x1b[0m"]),
            None => painted.push_str(token),
        }
        rest = after;
    }
    painted
}

/// The length and colour of the token at the start of a text.
fn token(rest: &str, first: char) -> (usize, Option<&'static str>) {
    let while_name = |from: usize| {
        let end = rest[from..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        end.map_or(rest.len(), |end| from + end)
    };
    match first {
        '"' => {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            (end.map_or(rest.len(), |end| end + 2), Some(STRING))
        }
        '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), Some(COMMENT)),
        '@' | '$' => (while_name(1), Some(NAME)),
        '0'..='9' => (while_name(1), Some(NUMBER)),
        _ if first.is_ascii_alphabetic() || first == '_' => {
            let length = while_name(1);
            let word = &rest[..length];
            let known = CATALOGUE.probe(word).is_some()
                || CATALOGUE.function(word).is_some()
                || CATALOGUE.aggregation(word).is_some()
                || CATALOGUE.builtin(word).is_some();
            (length, known.then_some(WORD))
        }
        _ => (first.len_utf8(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, paint, pairs};

    #[test]
    fn candidates_are_listed_by_the_parts_that_differ_and_fit_the_terminal() {
        let about = "what happens when a thread gives its processor to another";
        let found = ["tracepoint:sched:sched_switch", "tracepoint:sched:sched_wakeup"];
        let found = found.map(|text| Candidate { text: text.into(), about: about.into() });
        for columns in [10, 24, 40, 80, 200] {
            let listed = pairs(found.to_vec(), columns);
            assert_eq!(listed[1].replacement, found[1].text);
            assert!(listed.iter().all(|pair| pair.display.starts_with("sched_")), "{}", listed[0].display);
            let widest = listed.iter().map(|pair| pair.display.chars().count() + 2).max();
            assert!(widest <= Some(columns.max(15)), "{columns}: {}", listed[0].display);
        }
        assert_eq!(pairs(found.to_vec(), 200)[0].display, format!("sched_switch  {about}"));
    }

    #[test]
    fn colours_leave_the_text_as_it_is() {
        let line = "kprobe:f /pid == 1/ { @x[comm] = count(); printf(\"a\\\"b %d\", $x); } // \u{e4}";
        let painted = paint(line);
        let mut plain = String::new();
        for (at, part) in painted.split('\x1b').enumerate() {
            plain.push_str(if at == 0 { part } else { part.split_once('m').expect("a colour ends").1 });
        }
        assert_eq!(plain, line);
        assert!(painted.contains("\x1b[36m@x\x1b[0m") && painted.contains("\x1b[1mcount\x1b[0m"), "{painted}");
    }
}
